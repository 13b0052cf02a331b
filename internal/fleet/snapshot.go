package fleet

import (
	"slices"
	"strings"
	"time"
)

// State is what a replica is doing, in the words of metrics and the admin API.
type State string

// The states of a replica. Only ready replicas and the one trial of a half-open replica get requests while any is ready.
const (
	Starting  State = "starting"  // no probe has passed yet
	Ready     State = "ready"     // in rotation
	Unhealthy State = "unhealthy" // its probe fails
	Asleep    State = "asleep"    // its engine takes requests and leaves them waiting
	Ejected   State = "ejected"   // its answers failed; waits for its back-off
	HalfOpen  State = "half_open" // its back-off is over; one trial request may go there
	Draining  State = "draining"  // finishes what it has, gets nothing new
)

// condition is what health and discovery have said about a replica.
type condition struct {
	probed   bool // a probe has passed or failed for good
	healthy  bool
	asleep   bool // by its own account
	draining bool // by its source
	held     bool // drained by hand
	breaker  breaker
	since    time.Time // when it last turned healthy or was restored
}

// breaker is the passive circuit of one replica.
type breaker uint8

const (
	closed   breaker = iota // requests flow
	open                    // ejected
	halfOpen                // one trial may start
	trial                   // the trial is running
)

// state folds the facts into one word; the strongest reason not to be used wins.
func (c condition) state() State {
	switch {
	case c.draining || c.held:
		return Draining
	case !c.probed:
		return Starting
	case !c.healthy:
		return Unhealthy
	case c.asleep:
		return Asleep
	case c.breaker == open || c.breaker == trial:
		return Ejected
	case c.breaker == halfOpen:
		return HalfOpen
	}
	return Ready
}

// View is an immutable picture of a fleet. Strategies choose from Eligible.
type View struct {
	// Replicas holds every replica of the fleet, in the order of their identities.
	Replicas []*Replica
	// Eligible holds those a request may be sent to, in the same order. It is empty only if the fleet is.
	Eligible []*Replica
	// Degraded says that no replica is ready, and that Eligible holds the next best: those neither draining nor asleep, else all.
	Degraded bool
	// SlowStart is the window over which a joining replica takes a growing share of cold work; 0 = none.
	SlowStart time.Duration

	draining []*Replica
}

// Only narrows the view to one replica, for a request that belongs to it. A draining one still takes such a request; one that may not
// be asked now leaves nobody eligible.
func (v *View) Only(r *Replica) *View {
	narrow := &View{Replicas: v.Replicas, Degraded: v.Degraded, SlowStart: v.SlowStart}
	if slices.Contains(v.Eligible, r) || slices.Contains(v.draining, r) {
		narrow.Eligible = []*Replica{r}
	}
	return narrow
}

// build sorts the replicas and picks the eligible ones. A fleet in which nothing is ready still tries: a probe can be wrong
// for every replica at once (a path that an engine version lacks), and an error from an engine beats one from a router.
func build(all map[string]*Replica, slowStart time.Duration) *View {
	v := &View{Replicas: make([]*Replica, 0, len(all)), SlowStart: slowStart}
	for _, r := range all {
		v.Replicas = append(v.Replicas, r)
	}
	slices.SortFunc(v.Replicas, func(a, b *Replica) int { return strings.Compare(a.id, b.id) })
	v.draining = v.filter(func(s State) bool { return s == Draining })
	v.Eligible = v.filter(func(s State) bool { return s == Ready || s == HalfOpen })
	if len(v.Eligible) > 0 {
		return v
	}
	v.Degraded = true
	if v.Eligible = v.filter(func(s State) bool { return s != Draining && s != Asleep }); len(v.Eligible) == 0 {
		v.Eligible = v.Replicas
	}
	return v
}

func (v *View) filter(keep func(State) bool) []*Replica {
	var kept []*Replica
	for _, r := range v.Replicas {
		if keep(r.cond.state()) {
			kept = append(kept, r)
		}
	}
	return kept
}

// Status is one replica as metrics and the admin API show it.
type Status struct {
	Replica  string `json:"replica"`
	URL      string `json:"url"`
	State    State  `json:"state"`
	InFlight int64  `json:"in_flight"`
	Requests int64  `json:"requests"`
	// Removed says that the source no longer reports the replica and that it only finishes what it has.
	Removed bool `json:"removed,omitempty"`
	// Engine is what the replica's engine says of itself.
	Engine Signals `json:"engine,omitzero"`
}
