package tune

import (
	"fmt"
	"iter"

	"github.com/warmpath/warmpath/internal/simulate"
	"github.com/warmpath/warmpath/internal/workload"
)

// digest is a workload of text that was read once for many simulations: what an engine computes for each request, and its key at
// every prefix length. Making and reading the text again each time takes three times as long as the simulation itself.
type digest struct {
	workload.Workload
	requests []digested
	length   int // index of the prefix length in force, or keyless
}

// keyless is for strategies that go by no key: their requests are known by their blocks alone.
const keyless = -1

// digested is one request. With a prefix length in force its body stands for the text: it is as short as can be, and has the key of the text.
type digested struct {
	workload.Request
	bodies [][]byte // by prefix length; nil = the request is as it was
}

// digestOf reads a workload of text. One of blocks has nothing to gain and is returned as it is.
func digestOf(w workload.Workload) (workload.Workload, error) {
	d := &digest{Workload: w, length: keyless}
	for r := range w.Requests() {
		if r.Body == nil {
			return w, nil
		}
		d.requests = append(d.requests, digestRequest(r))
	}
	return d, w.Err()
}

// digestRequest keeps requests as they are that are no single prompt with an answer.
func digestRequest(r workload.Request) digested {
	_, chains := chainsOf(&r)
	if len(chains) != 1 || chains[0].OutputTokens < 1 {
		return digested{Request: r}
	}
	bodies := make([][]byte, len(lengths))
	for i, length := range lengths {
		bodies[i] = []byte(`{"prompt":""}`)
		if key, ok := simulate.Key(&r, length); ok {
			bodies[i] = fmt.Appendf(nil, `{"prompt":"%016x"}`, key)
		}
	}
	r.Path, r.Body = "/v1/completions", nil
	r.Blocks, r.BlockTokens = chains[0].Chain, simulate.BlockTokens
	r.PromptTokens, r.OutputTokens = chains[0].PromptTokens, chains[0].OutputTokens
	return digested{r, bodies}
}

// Requests gives the requests with the keys of the prefix length in force.
func (d *digest) Requests() iter.Seq[workload.Request] {
	return func(yield func(workload.Request) bool) {
		for i := range d.requests {
			r := d.requests[i].Request
			if bodies := d.requests[i].bodies; bodies != nil && d.length != keyless {
				r.Body = bodies[d.length]
			}
			if !yield(r) {
				return
			}
		}
	}
}

// at is the workload for one of the prefix lengths.
func at(w workload.Workload, length int) workload.Workload {
	d, ok := w.(*digest)
	if !ok {
		return w
	}
	other := *d
	for i, n := range lengths {
		if n == length {
			other.length = i
		}
	}
	return &other
}
