package telemetry

import (
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/warmpath/warmpath/internal/fleet"
)

// Buckets in seconds. Warmpath's own time is microseconds; an engine's runs from a cached prompt's milliseconds to reasoning
// models' tens of minutes, which Prometheus' default buckets (up to 10 s) would fold into one.
var (
	ownBuckets        = []float64{5e-6, 10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 100e-3}
	overheadBuckets   = []float64{100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}
	firstTokenBuckets = []float64{.005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600}
	interTokenBuckets = []float64{.001, .002, .005, .01, .015, .02, .03, .04, .05, .075, .1, .15, .2, .3, .5, 1, 2, 5}
	requestBuckets    = []float64{.05, .1, .2, .5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600}
)

// Metrics is Warmpath's Prometheus registry. All methods may be called from any goroutine.
type Metrics struct {
	registry *prometheus.Registry

	requests, outcomes                *prometheus.CounterVec
	received, sent                    *prometheus.CounterVec
	promptTokens, cached, output      *prometheus.CounterVec
	predicted, found, missed          *prometheus.CounterVec
	midStream                         *prometheus.CounterVec
	decision, added                   *prometheus.HistogramVec
	firstToken, interToken, total     *prometheus.HistogramVec
	firstByte, firstByteModel, model  *prometheus.HistogramVec
	firstByteOverhead, overhead       *prometheus.HistogramVec
	replicaFirstByte                  *prometheus.SummaryVec
	retries, ejections, reloads       *prometheus.CounterVec
	scrapeFailures                    *prometheus.CounterVec
	discoveryErrors, recordingDropped *prometheus.CounterVec
	keyRequests, keyPrompt, keyOutput *prometheus.CounterVec
	sessionsOpened, sessionsEnded     *prometheus.CounterVec
	shadows                           shadowMetrics
	discoveryUp                       *prometheus.GaugeVec
	lastReloadSuccess, lastReloadTime prometheus.Gauge

	replicas   *replicaCollector
	beliefs    *beliefCollector
	sessions   *sessionCollector
	endpoints  atomic.Pointer[func() map[string][]string]
	byEndpoint []interface { // those that have the label
		DeletePartialMatch(labels prometheus.Labels) int
	}
	byReplica []interface { // those whose labels are endpoint, variant, replica
		DeleteLabelValues(values ...string) bool
	}

	mu     sync.RWMutex // guards what follows, and every counter that churn may delete
	series map[seriesKey]*series
	roster roster
	// prefixKeys counts the keys that PREFIX_AWARE has placed lately.
	prefixKeys prefixKeys
}

// NewMetrics makes a registry that also holds the Go runtime's, the process's and the build's metrics. buildVersion becomes
// a label of warmpath_build_info.
func NewMetrics(buildVersion string) *Metrics {
	m := &Metrics{
		registry:   prometheus.NewRegistry(),
		replicas:   &replicaCollector{},
		beliefs:    &beliefCollector{},
		sessions:   &sessionCollector{},
		series:     map[seriesKey]*series{},
		prefixKeys: prefixKeys{},
		roster:     newRoster(time.Now),
	}
	m.declareRequests()
	m.declareLatencies()
	m.declareEvents()
	m.declareKeys()
	m.declareSessions()
	m.declareShadows()
	m.registry.MustRegister(m.replicas, m.beliefs, m.sessions, prefixKeyCollector{m},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.gauge("build_info", "Always 1; the labels tell the version of Warmpath and of Go.", "version", "go_version").
		WithLabelValues(valid(buildVersion), runtime.Version()).Set(1)
	return m
}

func (m *Metrics) declareRequests() {
	m.requests = m.counter("requests_total",
		"Requests ended, by the replica that answered or was tried last (empty: none), why it was chosen, and the status sent to the client (499: the client left first). A status without a registered meaning counts as its class, such as 5xx.",
		"endpoint", "variant", "replica", "decision", "code")
	m.outcomes = m.counter("request_outcomes_total",
		"Requests ended, by how: ok, client_error, refused, upstream_error, upstream_aborted, client_cancelled, timeout. The reason is Warmpath's own code, empty where the answer was an engine's.",
		"endpoint", "variant", "outcome", "reason")
	m.received = m.counter("received_bytes_total", "Bytes of request bodies read from clients.", "endpoint", "variant")
	m.sent = m.counter("sent_bytes_total", "Bytes of response bodies sent to clients.", "endpoint", "variant")
	m.promptTokens = m.counter("prompt_tokens_total", "Prompt tokens, as the engines report them.", "endpoint", "variant", "replica")
	m.cached = m.counter("cached_prompt_tokens_total", "Prompt tokens found in a replica's cache, as the engines report them; over warmpath_prompt_tokens_total this is the hit rate.", "endpoint", "variant", "replica")
	m.output = m.counter("output_tokens_total", "Generated tokens, as the engines report them.", "endpoint", "variant", "replica")
	m.midStream = m.counter("mid_stream_errors_total", "Answers that broke off, ran into a time limit or held an error of the engine after the client had been told of success (a status below 400), by replica. They are in warmpath_request_outcomes_total too.", "endpoint", "variant", "replica")
	m.declarePredictions()
}

// declarePredictions makes the counters that say whether KV_AWARE is right. All three have the same requests, so that they can be
// divided by each other.
func (m *Metrics) declarePredictions() {
	const same = " Only requests with a prediction whose engine reported what it found count, in warmpath_predicted_hit_tokens_total, warmpath_actual_hit_tokens_total and warmpath_hit_error_tokens_total alike."
	m.predicted = m.counter("predicted_hit_tokens_total", "Prompt tokens that KV_AWARE believed to be in the cache of the replica it chose."+same, "endpoint", "variant", "replica")
	m.found = m.counter("actual_hit_tokens_total", "Prompt tokens that the replica's engine then found there."+same, "endpoint", "variant", "replica")
	m.missed = m.counter("hit_error_tokens_total", "By how many tokens each prediction was off, in either direction."+same, "endpoint", "variant", "replica")
}

func (m *Metrics) declareLatencies() {
	m.decision = m.histogram("decision_seconds", "Time to choose a replica.", ownBuckets)
	m.added = m.histogram("added_seconds", "Warmpath's own time: from the body being read to the request being handed to the transport.", ownBuckets)
	m.firstToken = m.histogram("ttft_seconds", "Time from the client's request to the first generated token.", firstTokenBuckets)
	m.interToken = m.histogram("inter_token_seconds", "Mean time between the content chunks of one stream: one observation a stream, of those with two chunks or more.", interTokenBuckets)
	m.firstByte = m.histogram("first_byte_seconds", "Time from the client's request to the first byte of the engine's answer. warmpath_first_byte_model_seconds and warmpath_first_byte_overhead_seconds are its two parts, of the same requests.", firstTokenBuckets)
	m.firstByteModel = m.histogram("first_byte_model_seconds", "Time from the choice of a replica to the first byte of its answer: the engine, its queue, and the connection to it.", firstTokenBuckets)
	m.firstByteOverhead = m.histogram("first_byte_overhead_seconds", "Time from the client's request to the choice of the replica that answered: reading the body, deciding, and attempts elsewhere that failed.", overheadBuckets)
	m.model = m.histogram("model_seconds", "Time from the choice of a replica to the end of its answer, whole or cut off. Where the client reads slowly its time is in it.", requestBuckets)
	m.overhead = m.histogram("overhead_seconds", "All other time of the requests of warmpath_model_seconds: reading the body, deciding, attempts elsewhere that failed, and handing on the last bytes of the answer.", overheadBuckets)
	m.replicaFirstByte = m.summary("replica_first_byte_seconds", "As warmpath_first_byte_model_seconds, by replica: the sum over the count is the mean.")
	m.total = m.histogram("request_seconds", "Time from the client's request to the end of its answer, of all requests that were sent to a replica.", requestBuckets)
}

func (m *Metrics) declareEvents() {
	m.retries = m.counter("retries_total", "Requests sent again, by the reason the attempt before failed.", "endpoint", "variant", "reason")
	m.ejections = m.counter("ejections_total", "Times a replica was taken out of rotation because of its answers.", "pool", "replica", "cause")
	m.scrapeFailures = m.counter("engine_scrape_failures_total", "Metrics pages of a replica's engine that could not be read. Its load is unknown then, and its cache size too if no page ever could.", "pool", "replica")
	m.reloads = m.counter("config_reloads_total", "Configuration reloads, by result: success or failure.", "result")
	m.lastReloadSuccess = m.gauge("config_last_reload_success", "1 if the last reload of the configuration succeeded (or there was none), 0 if the old one is still in use because it failed.").WithLabelValues()
	m.lastReloadTime = m.gauge("config_last_reload_timestamp_seconds", "Unix time of the last reload of the configuration, whether it succeeded or not; of the start if there was none.").WithLabelValues()
	m.discoveryErrors = m.counter("discovery_errors_total", "Failed look-ups of a pool's replicas; the last set found stays in use.", "pool")
	m.discoveryUp = m.gauge("discovery_up", "1 if the last look-up of a pool's replicas succeeded, 0 if it failed.", "pool")
	m.recordingDropped = m.counter("recording_dropped_total", "Requests that an endpoint's recording missed because its file was slow or could not be written. They were served as usual.", "endpoint")

	m.reloads.WithLabelValues("success")
	m.reloads.WithLabelValues("failure")
	m.lastReloadSuccess.Set(1)
	m.lastReloadTime.SetToCurrentTime()
}

func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	if slices.Contains(labels, "endpoint") {
		m.byEndpoint = append(m.byEndpoint, v)
	}
	if slices.Equal(labels, []string{"endpoint", "variant", "replica"}) {
		m.byReplica = append(m.byReplica, v)
	}
	return v
}

// summary makes a sum and a count of what each replica of an endpoint does; a histogram for each would be too many series.
func (m *Metrics) summary(name, help string) *prometheus.SummaryVec {
	v := prometheus.NewSummaryVec(prometheus.SummaryOpts{Namespace: namespace, Name: name, Help: help}, []string{"endpoint", "variant", "replica"})
	m.registry.MustRegister(v)
	m.byEndpoint, m.byReplica = append(m.byEndpoint, v), append(m.byReplica, v)
	return v
}

func (m *Metrics) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) histogram(name, help string, buckets []float64) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, []string{"endpoint", "variant"})
	m.registry.MustRegister(v)
	m.byEndpoint = append(m.byEndpoint, v)
	return v
}

const namespace = "warmpath"

// valid makes s fit for a label: a replica's identity holds the decoded path of its URL, which may be any bytes, and
// Prometheus panics at what is not UTF-8.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Retry counts one request that is sent again. reason is one of Warmpath's own words.
func (m *Metrics) Retry(endpoint, variant, reason string) {
	m.retries.WithLabelValues(valid(endpoint), valid(variant), valid(reason)).Inc()
}

// Ejected counts one ejection of a replica. cause is one of Warmpath's own words.
func (m *Metrics) Ejected(pool, replica, cause string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	pool, replica, cause = valid(pool), valid(replica), valid(cause)
	m.ejections.WithLabelValues(pool, replica, cause).Inc()
	m.roster.own(member{pool: pool, replica: replica}, cause, func() { m.ejections.DeleteLabelValues(pool, replica, cause) })
}

// Reload records one attempt to load a new configuration.
func (m *Metrics) Reload(ok bool, at time.Time) {
	result, success := "failure", 0.0
	if ok {
		result, success = "success", 1
	}
	m.reloads.WithLabelValues(result).Inc()
	m.lastReloadSuccess.Set(success)
	m.lastReloadTime.Set(float64(at.UnixMilli()) / 1e3)
}

// RecordingDropped gives the function that counts one request missed by an endpoint's recording. From the start it is shown as 0.
func (m *Metrics) RecordingDropped(endpoint string) func() {
	return m.recordingDropped.WithLabelValues(valid(endpoint)).Inc
}

// Discovery records one look-up of a pool's replicas.
func (m *Metrics) Discovery(pool string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	pool = valid(pool)
	failed, up := m.discoveryErrors.WithLabelValues(pool), m.discoveryUp.WithLabelValues(pool)
	if ok {
		up.Set(1)
	} else {
		failed.Inc()
		up.Set(0)
	}
	m.roster.own(member{pool: pool}, "discovery", func() {
		m.discoveryErrors.DeleteLabelValues(pool)
		m.discoveryUp.DeleteLabelValues(pool)
	})
}

// Watch makes every scrape show the replicas that pools returns, by pool, and forget what is no longer there: pools and
// replicas that it has not named for two minutes lose their counters too. A pool without replicas must be in the map. pools
// is called from any goroutine at each scrape, and now and then from Observe; it must not block, nor call Metrics.
func (m *Metrics) Watch(pools func() map[string][]fleet.Status) { m.replicas.watch(pools) }

// Handler serves the metrics in the Prometheus text and OpenMetrics formats.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(prometheus.GathererFunc(m.gather), promhttp.HandlerOpts{
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: 4, // scrapers come one by one; more is a mistake that must not cost the data plane
	})
}
