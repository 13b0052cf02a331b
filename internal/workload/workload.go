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
