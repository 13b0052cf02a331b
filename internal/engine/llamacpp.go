package engine

// llamaCPP is llama-server of llama.cpp. Its port opens at once and its health path answers 503 while the model loads; that
// path stays fast (under 2 ms) while prompts are computed.
type llamaCPP struct{}

func (llamaCPP) Name() string       { return "llamacpp" }
func (llamaCPP) HealthPath() string { return "/health" }
