package dialect

import (
	"net/http"
	"strings"

	"github.com/warmpath/warmpath/internal/prompt"
)

// Anthropic is the Messages API, which vLLM, SGLang and llama.cpp serve beside OpenAI's.
type Anthropic struct{}

// Name is "anthropic".
func (Anthropic) Name() string { return "anthropic" }

// Route recognises /v1/messages and what is below it.
func (Anthropic) Route(method, path string) (Route, bool) {
	if path == "/v1/messages" && method == http.MethodPost {
		return Route{Shape: prompt.ShapeAnthropic, JSON: true, Window: TextWindow}, true
	}
	return Route{}, path == "/v1/messages" || strings.HasPrefix(path, "/v1/messages/")
}

// Answer is {"type": "error", "error": {"type", "message"}}, with Warmpath's code beside the type.
func (Anthropic) Answer(e *Error) Answer {
	type detail struct {
		Type    string `json:"type"`
		Message string `json:"message"`
		Code    string `json:"code"`
	}
	return Answer{Status: e.Status, Body: struct {
		Type  string `json:"type"`
		Error detail `json:"error"`
	}{"error", detail{Type: anthropicType(e.Status), Message: e.Message, Code: e.Code}}}
}

// anthropicType is the type that Anthropic's API gives with a status.
func anthropicType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusServiceUnavailable:
		return "overloaded_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}
