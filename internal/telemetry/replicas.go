package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/warmpath/warmpath/internal/fleet"
)

var (
	inFlightDesc = prometheus.NewDesc(namespace+"_in_flight",
		"Requests sent to a replica whose responses have not ended.", []string{"pool", "replica"}, nil)
	stateDesc = prometheus.NewDesc(namespace+"_replica_state",
		"Always 1; the state label tells what the replica is doing: starting, ready, unhealthy, asleep, ejected, half_open, draining.", []string{"pool", "replica", "state"}, nil)
	sentDesc = prometheus.NewDesc(namespace+"_replica_requests_total",
		"Requests sent to a replica, each attempt of a retried one included.", []string{"pool", "replica"}, nil)
	readyDesc = prometheus.NewDesc(namespace+"_ready_replicas",
		"Replicas of a pool that are in rotation; 0 for a pool that has none.", []string{"pool"}, nil)
)

// replicaCollector computes the series of the replicas at each scrape, so that one that has gone leaves none behind.
type replicaCollector struct {
	source atomic.Pointer[func() map[string][]fleet.Status]
}

var _ prometheus.Collector = (*replicaCollector)(nil)

func (c *replicaCollector) watch(pools func() map[string][]fleet.Status) { c.source.Store(&pools) }

// pools returns the replicas by pool, and whether somebody is watching them.
func (c *replicaCollector) pools() (map[string][]fleet.Status, bool) {
	source := c.source.Load()
	if source == nil {
		return nil, false
	}
	return (*source)(), true
}

// Describe implements prometheus.Collector.
func (c *replicaCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- inFlightDesc
	ch <- stateDesc
	ch <- sentDesc
	ch <- readyDesc
	for _, f := range engineFigures {
		ch <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c *replicaCollector) Collect(ch chan<- prometheus.Metric) {
	pools, _ := c.pools()
	for pool, statuses := range pools {
		pool, ready := valid(pool), 0
		for replica, s := range merge(statuses) {
			if s.State == fleet.Ready {
				ready++
			}
			ch <- prometheus.MustNewConstMetric(inFlightDesc, prometheus.GaugeValue, float64(s.InFlight), pool, replica)
			ch <- prometheus.MustNewConstMetric(stateDesc, prometheus.GaugeValue, 1, pool, replica, valid(string(s.State)))
			ch <- prometheus.MustNewConstMetric(sentDesc, prometheus.CounterValue, float64(s.Requests), pool, replica)
			collectEngine(ch, s.Engine, pool, replica)
		}
		ch <- prometheus.MustNewConstMetric(readyDesc, prometheus.GaugeValue, float64(ready), pool)
	}
}

// merge makes one status of each identity: a replica that was removed and added again is two objects until the first has
// finished what it had. In-flight is the sum; the rest is the newer's, because a sum of requests would fall back when the
// older object goes and a falling counter reads as a restart.
func merge(statuses []fleet.Status) map[string]fleet.Status {
	merged := make(map[string]fleet.Status, len(statuses))
	for _, s := range statuses {
		id := valid(s.Replica)
		if other, ok := merged[id]; ok {
			inFlight := s.InFlight + other.InFlight
			if s.Removed {
				s = other
			}
			s.InFlight = inFlight
		}
		merged[id] = s
	}
	return merged
}

func (m *Metrics) gather() ([]*dto.MetricFamily, error) {
	m.sweep()
	return m.registry.Gather()
}
