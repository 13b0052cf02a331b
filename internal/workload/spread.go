package workload

import (
	"iter"
	"math/rand/v2"
	"slices"
	"time"
)

// Spread gives the requests of w at times drawn uniformly from window, beginning where w has them, and in w's order. It undoes the
// rounding of a trace: Mooncake's are written in steps of 3 s, and played as they stand, all requests of 3 s arrive at once, which
// no router sees. A window that reaches into the next time of w is shortened.
func Spread(w Workload, window time.Duration, seed uint64) Workload {
	return &spread{w, max(window, 0), seed}
}

type spread struct {
	Workload
	window time.Duration
	seed   uint64
}

func (w *spread) Len() int {
	n, _ := Len(w.Workload)
	return n
}

func (w *spread) Requests() iter.Seq[Request] {
	return func(yield func(Request) bool) {
		draw := random(w.seed, streamSpread, 0)
		var same []Request // that w has at one time
		for r := range w.Workload.Requests() {
			if len(same) > 0 && r.At != same[0].At {
				if !emit(same, min(w.window, r.At-same[0].At), draw, yield) {
					return
				}
				clear(same)
				same = same[:0]
			}
			same = append(same, r)
		}
		emit(same, w.window, draw, yield)
	}
}

// emit gives requests of one time, spread over window. It reports false if nobody wants more.
func emit(same []Request, window time.Duration, draw *rand.Rand, yield func(Request) bool) bool {
	offsets := make([]time.Duration, len(same))
	for i := range offsets {
		offsets[i] = time.Duration(draw.Float64() * float64(window))
	}
	slices.Sort(offsets)
	for i, r := range same {
		r.At += offsets[i]
		if !yield(r) {
			return false
		}
	}
	return true
}
