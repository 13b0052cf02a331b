// Package turns measures what proxies cost in front of the same engine, in turns, so that a machine whose speed drifts slows all alike.
package turns

import (
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

// Result is what one contender needed, over one round or as medians of several.
type Result struct {
	CPU time.Duration // of its processes, per request; 0 where there is no /proc to read it from
	P50 time.Duration // from the intended start to the end of the answer
	// Broken counts answers that did not come whole. The bare proxy breaks some streams: Go's server closes a request body that
	// has not been read to its end when the answer begins.
	Broken int
}

// Compete lets the contenders take turns over one shape and gives each one's medians. Broken answers are added up. The error is
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
		out[i] = Result{
			CPU: median(all, func(r Result) time.Duration { return r.CPU }),
			P50: median(all, func(r Result) time.Duration { return r.P50 }),
		}
		for _, r := range all {
			out[i].Broken += r.Broken
		}
	}
	return out, nil
}

func median(all []Result, of func(Result) time.Duration) time.Duration {
	values := make([]time.Duration, len(all))
	for i, r := range all {
		values[i] = of(r)
	}
	slices.Sort(values)
	return values[len(values)/2]
}
