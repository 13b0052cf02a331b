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
}

// Error is an answer of Warmpath's own.
type Error struct {
	Status int
	// Code is the machine-readable reason, a word of [a-z_].
	Code string
	// Message says what is wrong and what to do. It never repeats the request's body.
	Message string
	// RetryAfter is sent in whole seconds, rounded up; 0 = not sent.
	RetryAfter time.Duration
	// Cause is for the log only.
	Cause error
}

// Error gives the message.
func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Dialect is one wire API.
type Dialect interface {
	// Name is a metric label.
	Name() string
	// Route recognises a request by method and escaped path.
	Route(method, path string) (Route, bool)
	// ErrorBody words an error as this API does, in JSON.
	ErrorBody(e *Error) any
}

// registry is asked in order; the first that recognises a path has it.
var registry = []Dialect{Anthropic{}, SageMaker{}, OpenAI{}}

// Recognise finds the route of a request. Unknown paths have OpenAI's dialect, so that their error has a shape.
func Recognise(method, path string) (Route, bool) {
	for _, d := range registry {
		if r, ok := d.Route(method, path); ok {
			r.Dialect = d
			return r, true
		}
	}
	return Route{Dialect: OpenAI{}}, false
}

// WriteError answers with e in the route's dialect.
func (r Route) WriteError(w http.ResponseWriter, e *Error) {
	body, err := json.Marshal(r.Dialect.ErrorBody(e))
	if err != nil {
		body = []byte(`{}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	if e.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	w.WriteHeader(e.Status)
	_, _ = w.Write(append(body, '\n'))
}
