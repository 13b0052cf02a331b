package proxy

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

// Why a call was ended from this side: the causes of its context.
var (
	errLost   = errors.New("replica: its port refuses connections or it was removed")
	errSilent = errors.New("replica: sent nothing within the time limit")
	errLate   = errors.New("request: over its total time limit")
)

const (
	// lostGrace is how long a stream from a replica whose port refuses may stay silent. An engine that shuts down in order still
	// sends the tokens of its open streams; one that hangs sends nothing (vLLM, SIGTERM without --shutdown-timeout).
	lostGrace = 2 * time.Second
	// lostPatience is how long a request that has not begun waits on a lost replica when there is no other to move to.
	lostPatience = 10 * time.Second
)

// watchdog ends a call whose replica is silent for too long or lost, whose client does not read, or whose request is late. There are
// no other time limits: a stream may last for ever as long as it moves.
type watchdog struct {
	cancel context.CancelCauseFunc
	hangUp func()        // ends a write to the client
	idle   time.Duration // longest silence of the replica once it has begun to answer, and longest wait for the client; 0 = any
	late   *time.Timer   // ends the call when the request's time is up; nil = never

	mu       sync.Mutex
	silence  alarm
	stopLost func() bool
	begun    bool // the answer has
	writing  bool // it is the client that is waited for
	removed  bool // the replica is no longer in its fleet
	lost     bool // the replica's port refuses
	over     bool // the call has ended
}

// start begins to watch. The limit on the first byte is the endpoint's own, or that on any silence.
func (w *watchdog) start(c *call) {
	limits := c.x.plan.endpoint.Timeouts
	w.cancel, w.idle = c.cancel, limits.Idle
	w.hangUp = func() { _ = c.x.rc.SetWriteDeadline(time.Unix(1, 0)) }
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silence.owner, w.silence.ring = c.x.alarms, w.bark
	w.silence.reset(cmp.Or(limits.FirstByte, limits.Idle))
	if limits.Total > 0 {
		w.late = time.AfterFunc(limits.Total-c.x.Now().Sub(c.x.rec.Start), func() { w.cancel(errLate) })
	}
	// The callback may outlive the attempt; it works on what it is given here.
	pool, tried := c.x.plan.variant.Pool.Fleet, slices.Clip(c.x.tried)
	movable := !c.x.bound() && c.x.rec.Attempts < c.x.plan.endpoint.MaxAttempts
	w.stopLost = context.AfterFunc(c.lost, func() {
		w.mourn(movable && hasAnotherAddress(pool, tried), c.replica)
	})
}

// hasAnotherAddress says whether the fleet has a replica to offer at an address not among those tried. One that was removed and is
// back under its address does not count: it is likely to be the engine that has the request still. Compare hasAnotherReplica.
func hasAnotherAddress(f *fleet.Fleet, tried []*fleet.Replica) bool {
	return slices.ContainsFunc(f.View().Eligible, func(r *fleet.Replica) bool {
		return !slices.ContainsFunc(tried, func(t *fleet.Replica) bool { return t.ID() == r.ID() })
	})
}

func (w *watchdog) bark() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over:
	case w.writing:
		w.hangUp()
	case w.lost:
		w.cancel(errLost)
	default:
		w.cancel(errSilent)
	}
}

// heard resets the watch: the replica has sent something, and now the client is to take it.
func (w *watchdog) heard() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun, w.writing = true, true
	w.silence.reset(w.idle)
}

// listen resets the watch: it is the replica's turn again.
func (w *watchdog) listen() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing = false
	if w.lost {
		w.silence.reset(lostGrace)
		return
	}
	w.silence.reset(w.idle)
}

// mourn acts on a lost replica. A request that has not begun moves to another replica at once; one that has may go on while
// it moves. A replica that was only removed from its fleet is likely to finish what it has, unless it is then found dead.
func (w *watchdog) mourn(another bool, r *fleet.Replica) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over:
	case !w.begun && another:
		w.cancel(errLost)
	case r.Removed() && !w.removed:
		w.removed = true
		w.stopLost = context.AfterFunc(r.Lost(), func() { w.mourn(another, r) })
	default:
		w.lost = true
		if !w.begun {
			w.silence.reset(lostPatience)
		} else if !w.writing {
			w.silence.reset(lostGrace)
		}
	}
}

func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.stopLost()
	if w.late != nil {
		w.late.Stop()
	}
	w.silence.stop()
}
