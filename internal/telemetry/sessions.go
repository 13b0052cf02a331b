package telemetry

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

var sessionsDesc = prometheus.NewDesc(namespace+"_sessions",
	"Sessions that were opened, and neither closed nor expired. Those whose replica is gone count until they would have expired.", []string{"endpoint"}, nil)

// declareSessions makes the metrics of stateful sessions.
func (m *Metrics) declareSessions() {
	m.sessionsOpened = m.counter("sessions_opened_total", "Sessions that engines have opened.", "endpoint")
	m.sessionsEnded = m.counter("sessions_ended_total",
		"Sessions that have ended, by how: closed by the engine, expired, displaced by a new one because there were too many, or forgotten with their endpoint.", "endpoint", "reason")
}

// SessionOpened counts a session.
func (m *Metrics) SessionOpened(endpoint string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	endpoint = valid(endpoint)
	m.sessionsOpened.WithLabelValues(endpoint).Inc()
	m.ownEndpoint(endpoint, "")
}

// SessionEnded counts the end of a session. reason is one of Warmpath's own words.
func (m *Metrics) SessionEnded(endpoint, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	endpoint = valid(endpoint)
	m.sessionsEnded.WithLabelValues(endpoint, valid(reason)).Inc()
	m.ownEndpoint(endpoint, "")
}

// sessionCollector reads the number of sessions at each scrape.
type sessionCollector struct {
	source atomic.Pointer[func() map[string]int]
}

var _ prometheus.Collector = (*sessionCollector)(nil)

// WatchSessions makes every scrape show what counts returns: how many sessions each endpoint has. counts is called from any goroutine
// at each scrape and must not block; it may count ends.
func (m *Metrics) WatchSessions(counts func() map[string]int) { m.sessions.source.Store(&counts) }

// Describe implements prometheus.Collector.
func (c *sessionCollector) Describe(ch chan<- *prometheus.Desc) { ch <- sessionsDesc }

// Collect implements prometheus.Collector.
func (c *sessionCollector) Collect(ch chan<- prometheus.Metric) {
	source := c.source.Load()
	if source == nil {
		return
	}
	for endpoint, n := range (*source)() {
		ch <- prometheus.MustNewConstMetric(sessionsDesc, prometheus.GaugeValue, float64(n), valid(endpoint))
	}
}
