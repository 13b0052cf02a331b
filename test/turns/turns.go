// Package turns measures what proxies cost in front of the same engine, in turns, so that a machine whose speed drifts slows all alike.
package turns

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Shape is one kind of request.
type Shape struct {
	Name   string
	Body   int  // bytes
	Stream bool // the answer is an event stream
}

// Contender is a way to the engine.
type Contender struct {
	Name string
	URL  string
	PID  int // its processes are this one and those that it has started; 0 = none
}

// Pace is how much is sent and for how long.
type Pace struct {
	Rate   float64       // requests a second
	Round  time.Duration // length of one contender's turn
	Rounds int           // turns of each contender, 1 or more
}

// Result is what one contender needed, over one round or several.
type Result struct {
	CPU time.Duration // of its processes, per request, a mean: ticks are too long for one round; 0 where there is no /proc
	P50 time.Duration // from the intended start to the end of the answer; of several rounds the median
	// Broken counts answers that did not come whole. The bare proxy breaks some streams: Go's server closes a request body that
	// has not been read to its end when the answer begins.
	Broken int
}

// Compete lets the contenders take turns over one shape and sums up what each needed. Broken answers are added up. The error is
// that of ctx, if it ended before.
func Compete(ctx context.Context, contenders []Contender, s Shape, p Pace) ([]Result, error) {
	for _, c := range contenders {
		measure(ctx, c, s, p.Rate, min(p.Round, time.Second)) // warm-up
	}
	rounds := make([][]Result, len(contenders))
	for range p.Rounds {
		for i, c := range contenders {
			rounds[i] = append(rounds[i], measure(ctx, c, s, p.Rate, p.Round))
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	out := make([]Result, len(contenders))
	for i, all := range rounds {
		slices.SortFunc(all, func(a, b Result) int { return cmp.Compare(a.P50, b.P50) })
		out[i].P50 = all[len(all)/2].P50
		for _, r := range all {
			out[i].CPU += r.CPU / time.Duration(len(all))
			out[i].Broken += r.Broken
		}
	}
	return out, nil
}
