package engine

// tensorRTLLM is trtllm-serve, the OpenAI server of TensorRT-LLM. TensorRT-LLM behind Triton answers on
// /v2/health/ready instead, which the configuration can name.
type tensorRTLLM struct{}

func (tensorRTLLM) Name() string       { return "tensorrtllm" }
func (tensorRTLLM) HealthPath() string { return "/health" }
