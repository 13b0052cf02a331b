// Package workload gives the requests that a load test or a simulation plays, the same ones each time.
package workload

import (
	"iter"
	"time"
)

// Workload is a sequence of requests in order of time.
type Workload interface {
	// Requests gives the requests in order of At. Each iteration begins anew and gives the same ones; one at a time.
	Requests() iter.Seq[Request]
	// Err says why the last iteration ended early, such as a bad row of a trace, by file and line. It is nil after one that
	// gave all there is, and for generators.
	Err() error
	// Name is what people call the workload: a generator's specification or the path of a trace.
	Name() string
}

// Request is one request of a workload. Its prompt is known as text, in Body, or by the ids of its blocks, or as both.
type Request struct {
	// At is the intended start, counted from the beginning of the workload.
	At time.Duration
	// Group names what the request shares a prefix with: its document, conversation or session; empty if that is not known.
	Group string
	// Path is the path and query of the URL, such as /v1/chat/completions.
	Path string
	// Body is JSON, or nil if only Blocks are known. Whoever gets a Request may keep it but must not change it.
	Body []byte
	// Blocks are the position-chained ids of the prompt's blocks: two prompts share a prefix exactly as far as their ids agree.
	// Nil for requests with text of their own. As with Body, they may be kept but not changed.
	Blocks []uint64
	// BlockTokens is the number of tokens in each of Blocks but the last, which may hold fewer.
	BlockTokens int
	// PromptTokens and OutputTokens are lengths as the trace or the generator says. Where only text is known, 4 characters are
	// a token, and an OutputTokens of 0 means that the request does not limit its answer.
	PromptTokens, OutputTokens int
}

// Shape is what all requests of a generator have in common.
type Shape struct {
	// Seed selects texts, order and times. Generators of different kinds with one seed share nothing.
	Seed uint64
	// Rate is the mean number of requests a second. They arrive as a Poisson process; 0 means all at once.
	Rate float64
	// Model is the model name in the bodies.
	Model string
	// AnswerTokens is the length of the answers asked for.
	AnswerTokens int
}

// Limit gives only the first n requests of w.
func Limit(w Workload, n int) Workload { return &limited{w, max(n, 0)} }

type limited struct {
	Workload
	most int
}

func (w *limited) Requests() iter.Seq[Request] {
	return func(yield func(Request) bool) {
		left := w.most
		if left == 0 {
			return
		}
		for r := range w.Workload.Requests() {
			if left--; !yield(r) || left == 0 {
				return
			}
		}
	}
}

func (w *limited) Len() int {
	if n, known := Len(w.Workload); known {
		return min(n, w.most)
	}
	return 0
}

// Len is the number of requests of w, if that is known before they are made.
func Len(w Workload) (n int, known bool) {
	if counted, ok := w.(interface{ Len() int }); ok {
		n = counted.Len()
	}
	return n, n > 0
}
