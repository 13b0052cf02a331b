// Package workload generates the requests that a load test plays, the same ones for the same seed.
package workload

import (
	"iter"
	"time"
)

// Request is one request of a workload.
type Request struct {
	// At is the intended start, counted from the beginning of the workload.
	At time.Duration
	// Path is the path and query of the URL, such as /v1/chat/completions.
	Path string
	// Body is JSON. Whoever gets a Request may keep it but must not change it.
	Body []byte
	// Group names what the request shares a prefix with: its document or its conversation.
	Group string
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

// Merge plays several workloads at once: their requests in order of time, those of an earlier argument first where times are
// equal. Each of them must be in order of time itself.
func Merge(workloads ...iter.Seq[Request]) iter.Seq[Request] {
	return func(yield func(Request) bool) {
		var sources []*source
		for _, w := range workloads {
			s := &source{}
			s.next, s.stop = iter.Pull(w)
			defer s.stop()
			if s.advance() {
				sources = append(sources, s)
			}
		}
		for len(sources) > 0 {
			i := earliest(sources)
			if !yield(sources[i].head) {
				return
			}
			if !sources[i].advance() {
				sources = append(sources[:i], sources[i+1:]...)
			}
		}
	}
}

// source is one of the workloads of a Merge, and its next request.
type source struct {
	head Request
	next func() (Request, bool)
	stop func()
}

// advance reports whether there is another request.
func (s *source) advance() (ok bool) {
	s.head, ok = s.next()
	return ok
}

func earliest(sources []*source) int {
	first := 0
	for i, s := range sources {
		if s.head.At < sources[first].head.At {
			first = i
		}
	}
	return first
}
