package workload

import "iter"

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
