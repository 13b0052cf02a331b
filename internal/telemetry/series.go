package telemetry

import (
	"math"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warmpath/warmpath/internal/routing"
)

// seriesKey holds everything of a request that becomes a label.
type seriesKey struct {
	endpoint, variant, replica, decision, outcome, reason string
	status                                                int
	hasPrefixKey                                          bool
}

// series are the metrics of one key, looked up once, so that a request costs one map access and no allocation.
type series struct {
	requests, outcomes                           prometheus.Counter
	received, sent                               prometheus.Counter
	promptTokens, cached, output                 prometheus.Counter
	predicted, found, missed                     prometheus.Counter
	midStream                                    prometheus.Counter // nil = the answer did not break off
	decision, added                              prometheus.Observer
	firstToken, interToken, requestTime          prometheus.Observer
	firstByte, firstByteModel, firstByteOverhead prometheus.Observer
	model, overhead, replicaFirstByte            prometheus.Observer
	prefixKeys, replicaPrefixKeys                *sketch // nil = there is no key, or it did not choose the replica
}

// Observe counts an ended request. It is cheap for label values it has met before: no allocation and no exclusive lock.
func (m *Metrics) Observe(r *Request) {
	m.observeKey(r)
	key := seriesKey{r.Endpoint, r.Variant, r.Replica, r.Decision, r.Outcome, r.Code, r.Status, r.HasPrefixKey}
	m.mu.RLock()
	s, ok := m.series[key]
	if ok {
		s.observe(r) // under the lock: sweep must not delete a counter between look-up and use
	}
	m.mu.RUnlock()
	if !ok {
		m.sweepIfDue() // a fleet that churns and is never scraped must not grow without bound either
		m.observeNew(key, r)
	}
}

func (m *Metrics) observeNew(key seriesKey, r *Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.series[key]
	if !ok {
		s = m.newSeries(key)
	}
	s.observe(r)
}

// newSeries creates the metrics of key and gives those with a replica label into that replica's ownership.
func (m *Metrics) newSeries(key seriesKey) *series {
	endpoint, variant, replica := valid(key.endpoint), valid(key.variant), valid(key.replica)
	decision, code := valid(key.decision), statusLabel(key.status)
	s := &series{
		requests:          m.requests.WithLabelValues(endpoint, variant, replica, decision, code),
		outcomes:          m.outcomes.WithLabelValues(endpoint, variant, valid(key.outcome), valid(key.reason)),
		received:          m.received.WithLabelValues(endpoint, variant),
		sent:              m.sent.WithLabelValues(endpoint, variant),
		promptTokens:      m.promptTokens.WithLabelValues(endpoint, variant, replica),
		cached:            m.cached.WithLabelValues(endpoint, variant, replica),
		output:            m.output.WithLabelValues(endpoint, variant, replica),
		predicted:         m.predicted.WithLabelValues(endpoint, variant, replica),
		found:             m.found.WithLabelValues(endpoint, variant, replica),
		missed:            m.missed.WithLabelValues(endpoint, variant, replica),
		decision:          m.decision.WithLabelValues(endpoint, variant),
		added:             m.added.WithLabelValues(endpoint, variant),
		firstToken:        m.firstToken.WithLabelValues(endpoint, variant),
		interToken:        m.interToken.WithLabelValues(endpoint, variant),
		requestTime:       m.total.WithLabelValues(endpoint, variant),
		firstByte:         m.firstByte.WithLabelValues(endpoint, variant),
		firstByteModel:    m.firstByteModel.WithLabelValues(endpoint, variant),
		firstByteOverhead: m.firstByteOverhead.WithLabelValues(endpoint, variant),
		model:             m.model.WithLabelValues(endpoint, variant),
		overhead:          m.overhead.WithLabelValues(endpoint, variant),
		replicaFirstByte:  m.replicaFirstByte.WithLabelValues(endpoint, variant, replica),
	}
	if broken := m.midStream.WithLabelValues(endpoint, variant, replica); brokenOff(key.outcome, key.status) {
		s.midStream = broken
	}
	if key.hasPrefixKey {
		s.prefixKeys = m.prefixKeys.of(place{endpoint, variant, ""})
		if key.decision == string(routing.Affinity) {
			s.replicaPrefixKeys = m.prefixKeys.of(place{endpoint, variant, replica})
		}
	}
	m.series[key] = s
	m.roster.own(member{replica: replica}, key, func() {
		delete(m.series, key)
		m.requests.DeleteLabelValues(endpoint, variant, replica, decision, code)
		for _, v := range m.byReplica {
			v.DeleteLabelValues(endpoint, variant, replica)
		}
		delete(m.prefixKeys, place{endpoint, variant, replica})
	})
	m.ownEndpoint(endpoint, variant)
	return s
}

func (s *series) observe(r *Request) {
	s.requests.Inc()
	s.outcomes.Inc()
	s.received.Add(float64(max(0, r.BytesIn)))
	s.sent.Add(float64(max(0, r.BytesOut)))
	observeSeconds(s.decision, r.Decide.Seconds())
	observeSeconds(s.added, r.Added.Seconds())
	observeSeconds(s.firstToken, r.FirstToken.Seconds())
	if gap, ok := r.interToken(); ok {
		s.interToken.Observe(gap.Seconds())
	}
	if r.Attempts > 0 {
		observeSeconds(s.requestTime, r.Total.Seconds())
	}
	s.observeLatencies(r)
	if s.midStream != nil {
		s.midStream.Inc()
	}
	if r.HasPrefixKey {
		slot := slotAt(r.Start.Add(r.Total))
		s.prefixKeys.add(r.PrefixKey, slot)
		s.replicaPrefixKeys.add(r.PrefixKey, slot)
	}
	if r.HasUsage {
		s.promptTokens.Add(float64(max(0, r.PromptTokens)))
		s.cached.Add(float64(max(0, r.CachedTokens)))
		s.output.Add(float64(max(0, r.OutputTokens)))
	}
	if predicted, ok := r.predictedTokens(); ok {
		s.predicted.Add(predicted)
		s.found.Add(float64(r.CachedTokens))
		s.missed.Add(math.Abs(predicted - float64(r.CachedTokens)))
	}
}

// observeLatencies divides the time of a request between the engine and all else.
func (s *series) observeLatencies(r *Request) {
	first, whole := r.engineTime()
	if first > 0 {
		s.firstByte.Observe(r.FirstByte.Seconds())
		s.firstByteModel.Observe(first.Seconds())
		s.firstByteOverhead.Observe(r.Dispatched.Seconds())
		s.replicaFirstByte.Observe(first.Seconds())
	}
	if whole > 0 {
		s.model.Observe(whole.Seconds())
		s.overhead.Observe((r.Total - whole).Seconds())
	}
}

// observeSeconds skips what did not happen.
func observeSeconds(o prometheus.Observer, seconds float64) {
	if seconds > 0 {
		o.Observe(seconds)
	}
}

// statusLabel is the exact status where it has a registered meaning, else its class: what an engine may invent is bounded.
func statusLabel(status int) string {
	switch {
	case status == StatusClientClosed || http.StatusText(status) != "":
		return strconv.Itoa(status)
	case status >= 100 && status < 600:
		return strconv.Itoa(status/100) + "xx"
	}
	return "other"
}
