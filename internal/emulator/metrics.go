package emulator

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the engine's figures under vLLM's names. Latencies are in seconds of real time, as clients see them.
type metrics struct {
	registry   *prometheus.Registry
	firstToken prometheus.Histogram
	endToEnd   prometheus.Histogram
	ended      *prometheus.CounterVec // by finished_reason
}

// vLLM's own buckets, in seconds.
var (
	firstTokenBuckets = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	endToEndBuckets   = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
)

func newMetrics(s *Server) *metrics {
	labels := prometheus.Labels{"engine": "0", "model_name": s.options.Models[0]}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		firstToken: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "vllm:time_to_first_token_seconds",
			Help: "Histogram of time to first token in seconds.", ConstLabels: labels, Buckets: firstTokenBuckets}),
		endToEnd: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "vllm:e2e_request_latency_seconds",
			Help: "Histogram of e2e request latency in seconds.", ConstLabels: labels, Buckets: endToEndBuckets}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "vllm:request_success_total",
			Help: "Count of successfully processed requests.", ConstLabels: labels}, []string{"finished_reason"}),
	}
	for _, reason := range []string{"stop", "length", "abort"} {
		m.ended.WithLabelValues(reason)
	}
	m.registry.MustRegister(m.firstToken, m.endToEnd, m.ended, cacheConfig(s.config))
	m.registerLoad(s.load, labels)
	return m
}

// registerLoad registers what is read from the core when it is asked for.
func (m *metrics) registerLoad(load func() Load, labels prometheus.Labels) {
	gauge := func(name, help string, value func(Load) float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels},
			func() float64 { return value(load()) }))
	}
	counter := func(name, help string, value func(Load) uint64) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels},
			func() float64 { return float64(value(load())) }))
	}
	gauge("vllm:num_requests_running", "Number of requests in model execution batches.",
		func(l Load) float64 { return float64(l.Running) })
	gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.",
		func(l Load) float64 { return float64(l.Waiting) })
	gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.",
		func(l Load) float64 { return l.Usage })
	counter("vllm:prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.",
		func(l Load) uint64 { return l.PromptTokens })
	counter("vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.",
		func(l Load) uint64 { return l.CachedTokens })
	counter("vllm:prompt_tokens_total", "Number of prefill tokens processed.",
		func(l Load) uint64 { return l.PromptTokens })
	counter("vllm:prompt_tokens_cached_total", "Number of cached prompt tokens.",
		func(l Load) uint64 { return l.CachedTokens })
	counter("vllm:generation_tokens_total", "Number of generation tokens processed.",
		func(l Load) uint64 { return l.GeneratedTokens })
	counter("vllm:num_preemptions_total", "Cumulative number of preemption from the engine.",
		func(Load) uint64 { return 0 })
}

// cacheConfig is the page's description of the cache; like vLLM's it has no model_name.
func cacheConfig(config Config) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "vllm:cache_config_info",
		Help: "Information of the LLMEngine CacheConfig",
		ConstLabels: prometheus.Labels{
			"engine":                "0",
			"block_size":            strconv.Itoa(config.BlockSize),
			"num_gpu_blocks":        strconv.Itoa(config.Blocks),
			"kv_cache_size_tokens":  strconv.Itoa(config.Blocks * config.BlockSize),
			"enable_prefix_caching": "True",
		},
	})
	info.Set(1)
	return info
}

// observe records what a step did for a sequence.
func (m *metrics) observe(q *sequence, e Event, now time.Time) {
	elapsed := now.Sub(q.generation.created).Seconds()
	if e.Generated <= 1 {
		m.firstToken.Observe(elapsed)
	}
	if e.Finished {
		m.endToEnd.Observe(elapsed)
		m.ended.WithLabelValues(q.generation.finishReason).Inc()
	}
}
