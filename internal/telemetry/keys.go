package telemetry

// declareKeys declares what is counted of those who are known by a key: whom to ask when an endpoint is busy, and whom to bill. Keys
// that a reload removes keep their series; there are as many as a configuration has.
func (m *Metrics) declareKeys() {
	m.keyRequests = m.counter("key_requests_total", "Requests ended, by the key that showed who the caller is, and how. Of requests without one see the reasons of warmpath_request_outcomes_total.", "key", "endpoint", "outcome")
	m.keyPrompt = m.counter("key_prompt_tokens_total", "Prompt tokens of a key's requests, as the engines report them.", "key", "endpoint")
	m.keyOutput = m.counter("key_output_tokens_total", "Tokens generated for a key's requests, as the engines report them.", "key", "endpoint")
}

// observeKey counts an ended request for its key, if it has one.
func (m *Metrics) observeKey(r *Request) {
	if r.Key == "" {
		return
	}
	key, endpoint := valid(r.Key), valid(r.Endpoint)
	m.keyRequests.WithLabelValues(key, endpoint, valid(r.Outcome)).Inc()
	if r.HasUsage {
		m.keyPrompt.WithLabelValues(key, endpoint).Add(float64(max(0, r.PromptTokens)))
		m.keyOutput.WithLabelValues(key, endpoint).Add(float64(max(0, r.OutputTokens)))
	}
}
