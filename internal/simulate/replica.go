package simulate

import (
	"fmt"
	"time"

	"github.com/warmpath/warmpath/internal/emulator"
)

// replica is one engine and what is in flight on it.
type replica struct {
	index    int
	name     string
	core     *emulator.Core // nil while its process is dead
	life     int            // processes before this one
	factor   float64        // how many times slower than its cost says
	stepping bool           // a step is under way
	stepEnd  time.Duration  // of that step
	inFlight []*exchange
}

func newReplica(index int) *replica {
	return &replica{index: index, name: fmt.Sprintf("r%d", index+1), factor: 1}
}

// url is the address by which routers know the replica; its host is the name.
func (r *replica) url() string { return "http://" + r.name + ":8000" }

func (r *replica) start(core *emulator.Core, cost emulator.Cost) {
	r.core = core
	core.SetCost(cost.Scale(r.factor))
}

// pace makes the replica's engine, and those after it, factor times slower than cost.
func (r *replica) pace(factor float64, cost emulator.Cost) {
	r.factor = factor
	if r.core != nil {
		r.core.SetCost(cost.Scale(factor))
	}
}

// share makes the step that begins next crowding times slower than the replica is on a processor of its own.
func (r *replica) share(crowding float64, cost emulator.Cost) {
	r.core.SetCost(cost.Scale(r.factor * crowding))
}

// kill ends the replica's process and gives what was in flight on it.
func (r *replica) kill() []*exchange {
	lost := r.inFlight
	r.core, r.stepping, r.inFlight = nil, false, nil
	r.life++
	return lost
}

// submit gives the engine an exchange's sequences. It reports false, and takes none, if one is longer than the cache.
func (r *replica) submit(x *exchange) bool {
	for i, q := range x.sequences {
		if r.core.Submit(q) == nil {
			continue
		}
		for _, earlier := range x.sequences[:i] {
			r.core.Cancel(earlier)
		}
		return false
	}
	x.place = len(r.inFlight)
	r.inFlight = append(r.inFlight, x)
	return true
}

// forget takes an exchange out of those in flight.
func (r *replica) forget(x *exchange) {
	if x.place >= len(r.inFlight) || r.inFlight[x.place] != x {
		return
	}
	last := len(r.inFlight) - 1
	moved := r.inFlight[last]
	r.inFlight[x.place], moved.place = moved, x.place
	r.inFlight[last] = nil
	r.inFlight = r.inFlight[:last]
}
