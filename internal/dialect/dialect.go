// Package dialect knows the wire APIs that clients speak: which paths they have, where prompts stand in them, and how they word an error.
package dialect

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/warmpath/warmpath/internal/prompt"
)

// Window says what PREFIX_AWARE hashes of a request.
type Window uint8

// The kinds of prefix window.
const (
	NoWindow   Window = iota // nothing: the request goes by load
	TextWindow               // the first characters of the prompt's text
	ByteWindow               // the first bytes of the raw body
)

// Route is what a path means in its dialect.
type Route struct {
	Dialect Dialect
	// Shape says where the prompt stands in a JSON body.
	Shape prompt.Shape
	// JSON says that the API takes JSON only, so that another body is the client's mistake.
	JSON   bool
	Window Window
	// Models marks the model list, which Warmpath answers itself; Model is the one that is asked for, or empty for all.
	Models bool
	Model  string

	// Endpoint is the one that the path names; empty = the model decides.
	Endpoint string
	// Component is the inference component that the path names; empty = none.
	Component string
	// Invocation is what is asked of SageMaker's runtime API, by which headers and answers are changed on their way.
	Invocation Invocation
	// EnginePath is the escaped path under which the engine serves this; empty = the client's own, or for an invocation the one that
	// the endpoint is configured with.
	EnginePath string
	// Refusal says why a path that the dialect has is not served; nil = it is.
	Refusal *Error
}

// Error is an answer of Warmpath's own.
type Error struct {
	Status int
	// Code is the machine-readable reason, a word of [a-z_].
	Code string
	// Message says what is wrong and what to do. It never repeats the request's body.
	Message string
	// Name is what SageMaker calls the error, where Code and Status do not tell.
	Name string
	// Original is the engine's own answer, where the error is about it; nil = it is not, or there was none.
	Original *Original
	// RetryAfter is sent in whole seconds, rounded up; 0 = not sent.
	RetryAfter time.Duration
	// Cause is for the log only.
	Cause error
}

// Error gives the message.
func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Original is an engine's answer inside an Error.
type Original struct {
	Status int
	// Message is the beginning of its body.
	Message string
}

// Answer is an Error as an API words it.
type Answer struct {
	Status int
	// Type is the error's name for SDKs of AWS; empty = it has none.
	Type string
	// Body is to be sent in JSON.
	Body any
}

// Dialect is one wire API.
type Dialect interface {
	// Name is a metric label.
	Name() string
	// Route recognises a request by method and escaped path. The dialect of the route is this one if it names no other.
	Route(method, path string) (Route, bool)
	// Answer words an error as this API does.
	Answer(e *Error) Answer
}

// registry is asked in order; the first that recognises a path has it.
var registry = []Dialect{Anthropic{}, SageMaker{}, OpenAI{}}

// Recognise finds the route of a request. Unknown paths have OpenAI's dialect, so that their error has a shape.
func Recognise(method, path string) (Route, bool) {
	for _, d := range registry {
		if r, ok := d.Route(method, path); ok {
			if r.Dialect == nil {
				r.Dialect = d
			}
			return r, true
		}
	}
	return Route{Dialect: OpenAI{}}, false
}

// WriteError answers with e in the route's dialect, and gives the status that it has there.
func (r Route) WriteError(w http.ResponseWriter, e *Error) (status int) {
	answer := r.Dialect.Answer(e)
	body, err := json.Marshal(answer.Body)
	if err != nil {
		body = []byte(`{}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	if answer.Type != "" {
		h.Set("X-Amzn-Errortype", answer.Type)
	}
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	w.WriteHeader(answer.Status)
	_, _ = w.Write(append(body, '\n'))
	return answer.Status
}
