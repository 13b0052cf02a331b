// Package emulator is an inference engine without a model: it schedules, caches and answers as vLLM does wherever a
// router can see it, and computes nothing.
package emulator

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// MaxTimeScale bounds Options.TimeScale.
const MaxTimeScale = 1000000

// Options describe an emulated server. The zero value is a usable 70B engine.
type Options struct {
	Models    []string // names it serves; the first is the default; "emulated" when empty
	Config    Config   // scheduler, cache and cost model
	TimeScale float64  // how many times faster than the modelled engine, up to MaxTimeScale; 0 means 1
	Faults    []Fault  // in force from the start
	// Sessions is how long a stateful session lasts that /invocations opens, as SageMaker's containers do; 0 means there are none.
	Sessions time.Duration
	Rand     *rand.Rand // decides faults with a probability; a fixed seed when nil
}

func (o Options) withDefaults() (Options, error) {
	if len(o.Models) == 0 {
		o.Models = []string{"emulated"}
	}
	o.TimeScale = orDefault(o.TimeScale, 1)
	if !(o.TimeScale > 0 && o.TimeScale <= MaxTimeScale) {
		return o, fmt.Errorf("time scale: %g is out of range; use a number above 0, at most %d", o.TimeScale, MaxTimeScale)
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(1, 2))
	}
	if o.Sessions < 0 {
		return o, fmt.Errorf("sessions: %s is out of range; use 0 or more", o.Sessions)
	}
	for i, f := range o.Faults {
		if err := f.validate(); err != nil {
			return o, fmt.Errorf("fault %d: %w", i+1, err)
		}
	}
	return o, nil
}
