package telemetry

import "github.com/prometheus/client_golang/prometheus"

// shadowMetrics are about the copies of requests that shadow variants get. They mean what those of clients' requests mean, so that the
// two can be compared.
type shadowMetrics struct {
	requests, dropped            *prometheus.CounterVec
	promptTokens, cached, output *prometheus.CounterVec
	firstToken, total            *prometheus.HistogramVec
}

func (m *Metrics) declareShadows() {
	m.shadows = shadowMetrics{
		requests: m.counter("shadow_requests_total", "Copies of requests that have ended at a shadow variant, by how, as in warmpath_request_outcomes_total; client_cancelled are those that the end of Warmpath cut off. Copies count here and in the metrics of replicas, never among the requests of clients.",
			"endpoint", "variant", "outcome", "reason"),
		dropped: m.counter("shadow_dropped_total", "Copies that were not made because a limit was reached: requests (too many under way at the variant), memory (their bodies are too large together).",
			"endpoint", "variant", "limit"),
		promptTokens: m.counter("shadow_prompt_tokens_total", "Prompt tokens of the copies, as the engines report them.", "endpoint", "variant"),
		cached:       m.counter("shadow_cached_prompt_tokens_total", "Prompt tokens of the copies found in a replica's cache, as the engines report them; over warmpath_shadow_prompt_tokens_total this is the hit rate.", "endpoint", "variant"),
		output:       m.counter("shadow_output_tokens_total", "Tokens generated for the copies, as the engines report them.", "endpoint", "variant"),
		firstToken:   m.histogram("shadow_ttft_seconds", "Time from the client's request to the first token of the copy's answer.", firstTokenBuckets),
		total:        m.histogram("shadow_request_seconds", "Time from the client's request to the end of the copy's answer, of all copies that were sent to a replica.", requestBuckets),
	}
}

// ObserveShadow counts the ended copy of a request.
func (m *Metrics) ObserveShadow(r *Request) {
	endpoint, variant, of := valid(r.Endpoint), valid(r.Variant), &m.shadows
	m.ownLate(endpoint)
	observeSeconds(of.firstToken.WithLabelValues(endpoint, variant), r.FirstToken.Seconds())
	if r.Attempts > 0 {
		observeSeconds(of.total.WithLabelValues(endpoint, variant), r.Total.Seconds())
	}
	if r.HasUsage {
		of.promptTokens.WithLabelValues(endpoint, variant).Add(float64(max(0, r.PromptTokens)))
		of.cached.WithLabelValues(endpoint, variant).Add(float64(max(0, r.CachedTokens)))
		of.output.WithLabelValues(endpoint, variant).Add(float64(max(0, r.OutputTokens)))
	}
	of.requests.WithLabelValues(endpoint, variant, valid(r.Outcome), valid(r.Code)).Inc()
}

// ShadowDropped counts a copy that was not made. limit is one of Warmpath's own words.
func (m *Metrics) ShadowDropped(endpoint, variant, limit string) {
	m.shadows.dropped.WithLabelValues(valid(endpoint), valid(variant), valid(limit)).Inc()
}

// ownLate is ownEndpoint for what may be counted when the endpoint has long gone, with all that was counted before.
func (m *Metrics) ownLate(endpoint string) {
	m.mu.RLock()
	_, owned := m.roster.owned[member{endpoint: endpoint}]
	m.mu.RUnlock()
	if owned {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ownEndpoint(endpoint, "")
}
