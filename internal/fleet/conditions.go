package fleet

// SetHealth records the verdict of a replica's probe. A replica that turns healthy beside warm ones starts slowly.
func (f *Fleet) SetHealth(r *Replica, healthy bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.cond.probed && r.cond.healthy == healthy {
		return
	}
	r.cond.probed, r.cond.healthy = true, healthy
	if healthy {
		f.startSlowly(r)
	}
	f.publish()
}

// SetAsleep records whether a replica's engine says that it sleeps: it would let requests wait without a byte, as those do that it
// has already. They are told, by Awake. One that has woken starts slowly.
func (f *Fleet) SetAsleep(r *Replica, asleep bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.cond.asleep == asleep {
		return
	}
	r.cond.asleep = asleep
	if !asleep {
		f.startSlowly(r)
	}
	f.publish()
	if asleep {
		r.markAsleep()
	}
}

// Eject takes a replica out of rotation for its answers' sake, until HalfOpen or Restore.
func (f *Fleet) Eject(r *Replica) { f.setBreaker(r, open) }

// HalfOpen lets one trial request through to an ejected replica. It does nothing to others.
func (f *Fleet) HalfOpen(r *Replica) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.cond.breaker == open || r.cond.breaker == trial {
		r.cond.breaker = halfOpen
		r.trial.Store(nil)
		f.publish()
	}
}

// Restore ends an ejection; the replica starts slowly.
func (f *Fleet) Restore(r *Replica) { f.setBreaker(r, closed) }

func (f *Fleet) setBreaker(r *Replica, b breaker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.cond.breaker == b {
		return
	}
	r.cond.breaker = b
	r.trial.Store(nil)
	if b == closed {
		f.startSlowly(r)
	}
	f.publish()
}

// startSlowly begins r's slow start if another replica has been in rotation for a whole window: in a fleet that starts as a
// whole there is nobody to take the rest, and the first to pass its probe must not get everything.
func (f *Fleet) startSlowly(r *Replica) {
	now := f.now()
	r.cond.since = now
	r.warmSince.Store(0)
	for _, other := range f.current {
		if other != r && other.cond.state() == Ready && now.Sub(other.cond.since) >= f.slowStart {
			r.warmSince.Store(now.UnixNano())
			return
		}
	}
}

// Drain stops new requests to the replica of that identity until Drain is called with false, whatever its source says
// meanwhile, or the replica is removed. With false it also lifts a drain by the source, until the source next says otherwise.
// It reports whether there is such a replica.
func (f *Fleet) Drain(id string, draining bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, ok := f.current[id]
	if ok {
		r.cond.held = draining
		r.cond.draining = r.cond.draining && draining
		f.publish()
	}
	return ok
}
