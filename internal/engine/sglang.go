package engine

// sglang is the server of SGLang. It answers 503 while it starts and while it shuts down. Unless it runs with
// SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION=false, its health path generates one token behind the requests that run, so
// under a long prefill the answer takes as long as that prefill's next step and the probe needs a timeout to match.
type sglang struct{}

func (sglang) Name() string       { return "sglang" }
func (sglang) HealthPath() string { return "/health" }
