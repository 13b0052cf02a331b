package fleet

import "sync/atomic"

// Lease is one request's hold on a replica: one unit of its in-flight count.
type Lease struct {
	fleet    *Fleet
	replica  *Replica
	released atomic.Bool
}

// Acquire asks pick for a replica of the current view and counts the request there, in one step: a burst of requests sees its
// own effect. pick runs under the fleet's lock, so it must not block or call the fleet; it returns nil for none. Acquire
// returns nil if pick did.
func (f *Fleet) Acquire(pick func(*View) *Replica) *Lease {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := pick(f.View())
	if r == nil {
		return nil
	}
	r.inFlight.Add(1)
	r.requests.Add(1)
	l := &Lease{fleet: f, replica: r}
	if r.cond.breaker == halfOpen {
		r.trial.Store(l)
		r.cond.breaker = trial
		f.publish()
	}
	return l
}

// Replica is the object the lease counts on.
func (l *Lease) Replica() *Replica { return l.replica }

// Trial says that this request is the one that decides whether a half-open replica returns. It is false again once the
// replica has been judged, or another trial has begun.
func (l *Lease) Trial() bool { return l.replica.trial.Load() == l }

// Release ends the hold. Only the first call counts. A trial that ends without a verdict makes way for another.
func (l *Lease) Release() {
	if l.released.Swap(true) {
		return
	}
	if l.Trial() {
		l.fleet.abandon(l)
	}
	left := l.replica.inFlight.Add(-1)
	if left == 0 && l.replica.removed.Load() {
		l.fleet.forget(l.replica)
	}
}

// abandon lets another trial begin. The lease stays the trial until then, so that a verdict which comes late still counts.
func (f *Fleet) abandon(l *Lease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := l.replica; l.Trial() && r.cond.breaker == trial {
		r.cond.breaker = halfOpen
		f.publish()
	}
}

func (f *Fleet) forget(r *Replica) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.inFlight.Load() == 0 {
		delete(f.retired, r)
	}
}
