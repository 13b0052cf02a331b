package emulator

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
)

// wireError is an error as vLLM puts it on the wire.
type wireError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

// Error makes a wireError an error.
func (e *wireError) Error() string { return e.Message }

func newWireError(code int, kind, param, message string) *wireError {
	e := &wireError{Message: message, Type: kind, Code: code}
	if param != "" {
		e.Param = &param
	}
	return e
}

func badRequest(param, message string) *wireError {
	return newWireError(http.StatusBadRequest, "BadRequestError", param, message)
}

// invalid is the answer to a body that does not have the request's shape.
func invalid(param, detail string) *wireError {
	return newWireError(http.StatusBadRequest, "Bad Request", param, "1 validation error:\n  "+detail)
}

func missing(field string) *wireError {
	return invalid("body."+field, fmt.Sprintf("{'type': 'missing', 'loc': 'body.%s', 'msg': 'Field required'}", field))
}

const coreDied = "EngineCore encountered an issue. See stack trace (above) for the root cause."

// statusError is what a FaultStatus answers with: vLLM's own words where it has some for the status.
func statusError(code int) *wireError {
	switch code {
	case http.StatusInternalServerError:
		return newWireError(code, "InternalServerError", "", coreDied)
	case http.StatusServiceUnavailable:
		return newWireError(code, "Service Unavailable", "", "The engine is currently busy and cannot accept new requests. "+
			"Please try again later or on a different instance.")
	}
	text := http.StatusText(code)
	return newWireError(code, text, "", text)
}

// asWireError turns any error of reading a request into an answer.
func asWireError(err error) *wireError {
	if wire, ok := errors.AsType[*wireError](err); ok {
		return wire
	}
	return invalid("body", err.Error())
}

// errorWriter answers with an error in one API's shape.
type errorWriter func(w http.ResponseWriter, e *wireError)

func openAIError(w http.ResponseWriter, e *wireError) {
	writeJSON(w, e.Code, struct {
		Error *wireError `json:"error"`
	}{e})
}

func messagesError(w http.ResponseWriter, e *wireError) {
	type inner struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	writeJSON(w, e.Code, struct {
		Type  string `json:"type"`
		Error inner  `json:"error"`
	}{"error", inner{e.Type, e.Message}})
}

// frameworkError is the answer of the engine's web framework, outside of any API.
func frameworkError(w http.ResponseWriter, code int) {
	writeJSON(w, code, struct {
		Detail string `json:"detail"`
	}{http.StatusText(code)})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that has left is noticed by its context
}
