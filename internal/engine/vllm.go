package engine

// vllm is the OpenAI server of vLLM. Its port opens only when the model is loaded, so a replica that starts refuses
// connections rather than answer 503. A server that is asleep or paused still answers its health path with 200.
type vllm struct{}

func (vllm) Name() string       { return "vllm" }
func (vllm) HealthPath() string { return "/health" }
