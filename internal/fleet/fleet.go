// Package fleet holds the replicas of a pool: who they are, what is known of their health, and how many requests each has in flight.
package fleet

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Target is one replica as a discovery source reports it.
type Target struct {
	URL string
	// Draining means that the engine finishes what it has and must get nothing new.
	Draining bool
}

// Options configure a Fleet.
type Options struct {
	// SlowStart is the window over which a replica that joins or returns takes a growing share of cold work; 0 = none.
	SlowStart time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Fleet is the set of replicas of one pool. The data plane reads its View through an atomic pointer; every change builds a
// new one.
type Fleet struct {
	now func() time.Time

	mu        sync.Mutex
	slowStart time.Duration
	current   map[string]*Replica
	retired   map[*Replica]struct{} // removed, with requests still in flight
	view      atomic.Pointer[View]
}

// New makes an empty fleet.
func New(o Options) *Fleet {
	f := &Fleet{now: o.Now, slowStart: o.SlowStart, current: map[string]*Replica{}, retired: map[*Replica]struct{}{}}
	if f.now == nil {
		f.now = time.Now
	}
	f.view.Store(build(f.current, f.slowStart))
	return f
}

// View returns the current picture. It never blocks.
func (f *Fleet) View() *View { return f.view.Load() }

// SetSlowStart changes the slow-start window, for a reloaded configuration.
func (f *Fleet) SetSlowStart(window time.Duration) {
	f.update(func() { f.slowStart = window })
}

// Apply makes the fleet hold exactly the targets: known replicas keep their object and counters, new ones start unprobed,
// those not named leave the rotation at once and finish what they have. Of two targets with one address, the replica is in
// use if either says so. Targets that are not valid URLs are left out and reported.
func (f *Fleet) Apply(targets []Target) []error {
	want := map[string]*Replica{}
	var errs []error
	for _, t := range targets {
		r, err := newReplica(t.URL)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r.cond.draining = t.Draining
		if twin, ok := want[r.id]; ok {
			r.cond.draining = r.cond.draining && twin.cond.draining
		}
		want[r.id] = r
	}
	f.update(func() {
		f.retireMissing(want)
		f.admit(want)
	})
	return errs
}

func (f *Fleet) retireMissing(want map[string]*Replica) {
	for id, r := range f.current {
		if w, ok := want[id]; ok && w.base.Scheme == r.base.Scheme {
			continue
		}
		delete(f.current, id)
		r.removed.Store(true)
		r.MarkLost()
		if r.inFlight.Load() > 0 {
			f.retired[r] = struct{}{}
		}
	}
}

func (f *Fleet) admit(want map[string]*Replica) {
	for id, w := range want {
		if r, ok := f.current[id]; ok {
			r.cond.draining = w.cond.draining
			continue
		}
		f.current[id] = w
	}
}

// update changes the fleet under its lock and publishes the new view.
func (f *Fleet) update(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	f.publish()
}

func (f *Fleet) publish() { f.view.Store(build(f.current, f.slowStart)) }

// Statuses lists every replica, those that only finish what they have last.
func (f *Fleet) Statuses() []Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]Status, 0, len(f.current)+len(f.retired))
	for _, r := range f.View().Replicas {
		out = append(out, r.status())
	}
	live := len(out)
	for r := range f.retired {
		out = append(out, r.status())
	}
	slices.SortFunc(out[live:], func(a, b Status) int { return strings.Compare(a.Replica, b.Replica) })
	return out
}

func (r *Replica) status() Status {
	s := Status{
		Replica: r.id, URL: r.base.String(), State: r.cond.state(), InFlight: r.InFlight(), Requests: r.Requests(),
		Removed: r.removed.Load(), Engine: r.Signals(),
	}
	if s.Removed {
		s.State = Draining
	}
	return s
}
