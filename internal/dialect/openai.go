package dialect

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/warmpath/warmpath/internal/prompt"
)

// OpenAI is the API of OpenAI's SDKs, as the engines serve it. It takes every path under /v1 that no other dialect has, and those
// that engines have beside it.
type OpenAI struct{}

var openAIPaths = map[string]Route{
	"/v1/chat/completions": {Shape: prompt.ShapeChat, JSON: true, Window: TextWindow},
	"/v1/completions":      {Shape: prompt.ShapeCompletion, JSON: true, Window: TextWindow},
	"/v1/responses":        {Shape: prompt.ShapeResponses, JSON: true, Window: TextWindow},
	"/v1/embeddings":       {JSON: true},

	// What engines, vLLM first, serve outside /v1 to clients. What controls them is not for clients, and not here.
	"/tokenize": {}, "/detokenize": {}, "/score": {}, "/rerank": {}, "/v2/rerank": {}, "/classify": {}, "/pooling": {},
}

// Name is "openai".
func (OpenAI) Name() string { return "openai" }

// Route recognises everything under /v1, and what engines serve to clients beside it.
func (OpenAI) Route(method, path string) (Route, bool) {
	if method == http.MethodPost {
		if r, ok := openAIPaths[path]; ok {
			return r, true
		}
	}
	if method == http.MethodGet || method == http.MethodHead {
		if path == "/v1/models" {
			return Route{Models: true}, true
		}
		if id, ok := strings.CutPrefix(path, "/v1/models/"); ok && id != "" {
			name, err := url.PathUnescape(id)
			return Route{Models: true, Model: name}, err == nil
		}
	}
	return Route{}, strings.HasPrefix(path, "/v1/")
}

// Answer is {"error": {"message", "type", "param", "code"}}.
func (OpenAI) Answer(e *Error) Answer { return openAIAnswer(e.Status, e.Code, e.Message) }

func openAIAnswer(status int, code, message string) Answer {
	type detail struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	}
	return Answer{Status: status, Body: map[string]detail{"error": {Message: message, Type: openAIType(status), Code: code}}}
}

// openAIType is the type that OpenAI's API gives with a status.
func openAIType(status int) string {
	switch {
	case status == http.StatusUnauthorized:
		return "authentication_error"
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status >= 500:
		return "server_error"
	}
	return "invalid_request_error"
}
