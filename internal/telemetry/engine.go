package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/internal/fleet"
)

// engineFigure is one thing that engines say of themselves, as a metric.
type engineFigure struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(fleet.Signals) fleet.Reading
}

// engineFigures are shown for the replicas whose engines report them. What is unknown has no series, since 0 would read as
// idle or empty.
var engineFigures = []engineFigure{
	newEngineFigure("running_requests", "Requests in the engine's batch, as it reports; no series while unknown.",
		prometheus.GaugeValue, func(s fleet.Signals) fleet.Reading { return s.Running }),
	newEngineFigure("waiting_requests", "Requests in the engine's queue, as it reports; no series while unknown.",
		prometheus.GaugeValue, func(s fleet.Signals) fleet.Reading { return s.Waiting }),
	newEngineFigure("kv_cache_usage_ratio", "Share of the engine's KV cache in use, 0 to 1, as it reports; most engines count running requests only, so a warm and idle one reports 0. No series while unknown.",
		prometheus.GaugeValue, func(s fleet.Signals) fleet.Reading { return s.CacheUsage }),
	newEngineFigure("cache_tokens", "Size of the engine's KV cache in tokens, as it reports; no series while unknown.",
		prometheus.GaugeValue, func(s fleet.Signals) fleet.Reading {
			return fleet.Reading{Value: float64(s.CacheTokens), Known: s.CacheTokens > 0}
		}),
	newEngineFigure("prefix_cache_query_tokens_total", "Prompt tokens that the engine has looked up in its prefix cache, whoever sent them; goes on where it was when the engine restarts.",
		prometheus.CounterValue, func(s fleet.Signals) fleet.Reading { return s.QueryTokens }),
	newEngineFigure("prefix_cache_hit_tokens_total", "Prompt tokens that the engine has found in its prefix cache; over warmpath_engine_prefix_cache_query_tokens_total this is its own hit rate.",
		prometheus.CounterValue, func(s fleet.Signals) fleet.Reading { return s.HitTokens }),
}

func newEngineFigure(name, help string, kind prometheus.ValueType, read func(fleet.Signals) fleet.Reading) engineFigure {
	return engineFigure{
		desc: prometheus.NewDesc(namespace+"_engine_"+name, help, []string{"pool", "replica"}, nil),
		kind: kind, read: read,
	}
}

func collectEngine(ch chan<- prometheus.Metric, s fleet.Signals, pool, replica string) {
	for _, f := range engineFigures {
		if r := f.read(s); r.Known {
			ch <- prometheus.MustNewConstMetric(f.desc, f.kind, r.Value, pool, replica)
		}
	}
}

// ScrapeFailed counts one metrics page of a replica's engine that could not be read.
func (m *Metrics) ScrapeFailed(pool, replica string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	pool, replica = valid(pool), valid(replica)
	m.scrapeFailures.WithLabelValues(pool, replica).Inc()
	m.roster.own(member{pool: pool, replica: replica}, "scrape", func() { m.scrapeFailures.DeleteLabelValues(pool, replica) })
}
