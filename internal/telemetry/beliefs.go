package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/internal/routing"
)

// Belief is what the strategy of one variant has learned of its engines.
type Belief struct {
	Endpoint, Variant string
	routing.Learned
}

// learnedFigure is one thing that a strategy has learned, as a metric of its variant.
type learnedFigure struct {
	desc *prometheus.Desc
	read func(*routing.Learned) float64
}

var learnedFigures = []learnedFigure{
	newLearnedFigure("learned_ttft_base_seconds", "Learned: the time to first token of a prompt that is all cached, on an idle replica.",
		func(l *routing.Learned) float64 { return seconds(l.Latency.Base) }),
	newLearnedFigure("learned_prefill_seconds_per_token", "Learned: what a token that is not cached adds to its own request's time to first token, at the beginning of a prompt.",
		func(l *routing.Learned) float64 { return seconds(l.Latency.Prefill) }),
	newLearnedFigure("learned_queue_seconds_per_token", "Learned: what an uncached token of the requests in front, without a first token yet, adds to the time to first token.",
		func(l *routing.Learned) float64 { return seconds(l.Latency.Queue) }),
	newLearnedFigure("learned_in_flight_seconds_per_request", "Learned: what a request in flight on the replica adds to the time to first token: next to nothing on an engine that batches, service time over slots on one with few slots.",
		func(l *routing.Learned) float64 { return seconds(l.Latency.Request) }),
	newLearnedFigure("learned_step_seconds_per_request", "Learned: what a request in flight adds to each step of generation.",
		func(l *routing.Learned) float64 { return seconds(l.StepPerRequest) }),
	newLearnedFigure("learned_step_seconds_per_token", "Learned: what a prompt token of the requests in flight adds to each step of generation.",
		func(l *routing.Learned) float64 { return seconds(l.StepPerToken) }),
	newLearnedFigure("learned_output_tokens", "Learned: the mean length of an answer, in tokens.",
		func(l *routing.Learned) float64 { return l.OutputTokens }),
	newLearnedFigure("learned_bytes_per_token", "Learned: how many bytes of a prompt make one of the engine's tokens.",
		func(l *routing.Learned) float64 { return l.BytesPerToken }),
	newLearnedFigure("index_bytes", "Memory that the beliefs about caches take.",
		func(l *routing.Learned) float64 { return float64(l.IndexBytes) }),
	newLearnedFigure("index_blocks", "Prompt blocks of 256 bytes that are believed to be cached, counted once for each replica.",
		func(l *routing.Learned) float64 { return float64(l.IndexBlocks) }),
}

var (
	believedCapacityDesc = prometheus.NewDesc(namespace+"_believed_cache_capacity_tokens",
		"Prompt tokens that KV_AWARE believes a replica's cache to have room for.", []string{"endpoint", "variant", "replica"}, nil)
	believedHeldDesc = prometheus.NewDesc(namespace+"_believed_cache_held_tokens",
		"Prompt tokens that KV_AWARE believes to be in a replica's cache.", []string{"endpoint", "variant", "replica"}, nil)
)

// seconds are a base unit in Prometheus, milliseconds are not.
func seconds(milliseconds float64) float64 { return milliseconds * 1e-3 }

func newLearnedFigure(name, help string, read func(*routing.Learned) float64) learnedFigure {
	return learnedFigure{desc: prometheus.NewDesc(namespace+"_"+name, help, []string{"endpoint", "variant"}, nil), read: read}
}

// beliefCollector computes the series of what was learned at each scrape.
type beliefCollector struct {
	source atomic.Pointer[func() []Belief]
}

var _ prometheus.Collector = (*beliefCollector)(nil)

// WatchBeliefs makes every scrape show what beliefs returns, one for each variant whose strategy learns. beliefs is called from any
// goroutine at each scrape; it must not block, nor call Metrics.
func (m *Metrics) WatchBeliefs(beliefs func() []Belief) { m.beliefs.source.Store(&beliefs) }

// Describe implements prometheus.Collector.
func (c *beliefCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range learnedFigures {
		ch <- f.desc
	}
	ch <- believedCapacityDesc
	ch <- believedHeldDesc
}

// Collect implements prometheus.Collector.
func (c *beliefCollector) Collect(ch chan<- prometheus.Metric) {
	source := c.source.Load()
	if source == nil {
		return
	}
	for _, b := range (*source)() {
		endpoint, variant := valid(b.Endpoint), valid(b.Variant)
		for _, f := range learnedFigures {
			ch <- prometheus.MustNewConstMetric(f.desc, prometheus.GaugeValue, f.read(&b.Learned), endpoint, variant)
		}
		for replica, cache := range byReplica(b.Caches) {
			ch <- prometheus.MustNewConstMetric(believedCapacityDesc, prometheus.GaugeValue, cache.Capacity, endpoint, variant, replica)
			ch <- prometheus.MustNewConstMetric(believedHeldDesc, prometheus.GaugeValue, cache.Held, endpoint, variant, replica)
		}
	}
}

// byReplica has one cache for each label: identities that differ only in bytes that no label can hold would make two equal series,
// at which a scrape fails.
func byReplica(caches []routing.Cache) map[string]routing.Cache {
	labelled := make(map[string]routing.Cache, len(caches))
	for _, c := range caches {
		labelled[valid(c.Replica)] = c
	}
	return labelled
}
