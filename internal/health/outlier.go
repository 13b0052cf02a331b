package health

import (
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

// OutlierOptions configure an Outlier.
type OutlierOptions struct {
	// ConsecutiveErrors is how many server faults in a row eject a replica, at least 1. One failed connection always does.
	ConsecutiveErrors int
	// BaseTime is the back-off after a replica's first ejection. It doubles with each that follows soon, up to MaxTime, which
	// is also how long a replica must stay in rotation for its ejections to be forgotten.
	BaseTime, MaxTime time.Duration
	// OnEject is told of every ejection, for a metric: the replica's identity and the name of the outcome that caused it. It
	// must not block or call the Outlier. nil = nobody is told.
	OnEject func(replica, cause string)
	// Rand returns a number in [0, 1) and is safe for concurrent use; nil means math/rand/v2.
	Rand func() float64
	// Log gets one line for every change; nil = no log.
	Log *slog.Logger
}

// DefaultOutlierOptions are for a fleet whose replicas are also probed.
var DefaultOutlierOptions = OutlierOptions{ConsecutiveErrors: 5, BaseTime: time.Second, MaxTime: 30 * time.Second}

// Outlier watches how replicas answer and takes those that fail out of rotation for a while. All its methods are safe for
// concurrent use.
type Outlier struct {
	fleet *fleet.Fleet
	o     OutlierOptions

	// suspected is len(records), so that an answer costs one atomic load while nothing is wrong.
	suspected atomic.Int64

	mu      sync.Mutex
	records map[*fleet.Replica]*record
	stopped bool
}

// record is what counts against one replica. A replica without a record has a clean one.
type record struct {
	faults    int     // server faults in a row
	ejections int     // ejections in a row, for the back-off
	out       bool    // ejected, half-open or on trial
	cause     Outcome // of the last ejection
	timer     *time.Timer
}

// NewOutlier watches the replicas of f, none of which may be ejected. The caller must Stop it.
func NewOutlier(f *fleet.Fleet, o OutlierOptions) *Outlier {
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Outlier{fleet: f, o: o, records: map[*fleet.Replica]*record{}}
}

// Observe takes the outcome of the attempt that holds l. The request path calls it once for every attempt, before or after
// it releases the lease.
func (x *Outlier) Observe(l *fleet.Lease, out Outcome) {
	r := l.Replica()
	if out == Refused {
		r.MarkLost()
	}
	if !out.accuses() && x.suspected.Load() == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.stopped || r.Removed():
	case l.Trial():
		x.judge(r, out)
	case out.answered():
		x.forgive(r)
	case out == ServerFault:
		x.countFault(r)
	case out.accuses():
		x.disconnect(r, out)
	}
}

// Answering ends a trial at the first of the answer's content: a stream may go on for minutes, and the replica need not wait
// for its end. It does nothing to other requests. What becomes of the rest is still to be observed.
func (x *Outlier) Answering(l *fleet.Lease) {
	if x.suspected.Load() > 0 && l.Trial() {
		x.Observe(l, Success)
	}
}

// ProbeSucceeded ends an ejection whose cause was the connection: the replica can be reached again. An ejection for its
// answers waits for its back-off, since an engine may pass its probes while it fails its requests.
func (x *Outlier) ProbeSucceeded(r *fleet.Replica) {
	if x.suspected.Load() == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if c := x.records[r]; c != nil && c.out && c.cause != ServerFault {
		x.restore(r, c)
	}
}

// ProbeRefused says that the replica's process is gone. What it did is not held against the one that takes its place: the
// first probe that passes ends the ejection.
func (x *Outlier) ProbeRefused(r *fleet.Replica) {
	if x.suspected.Load() == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if c := x.records[r]; c != nil {
		c.faults, c.cause = 0, Refused
	}
}

// Sync forgets replicas that have left the fleet. It is to be called after fleet.Apply; a Prober's Sync does so.
func (x *Outlier) Sync() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for r := range x.records {
		if r.Removed() {
			x.drop(r)
		}
	}
}

// Stop ends every ejection and all watching. The fleet can then be given to another Outlier.
func (x *Outlier) Stop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stopped = true
	for r, c := range x.records {
		if c.out {
			x.fleet.Restore(r)
		}
		x.drop(r)
	}
}

// judge lets the trial request of a half-open replica decide.
func (x *Outlier) judge(r *fleet.Replica, out Outcome) {
	c := x.recordOf(r)
	switch {
	case out.answered():
		x.restore(r, c)
	case out.accuses():
		x.eject(r, c, out)
	default:
		x.fleet.HalfOpen(r)
	}
}

// forgive ends a row of server faults. An answer from a replica that is out began before it was ejected, or was a last
// resort: neither is a trial.
func (x *Outlier) forgive(r *fleet.Replica) {
	c := x.records[r]
	if c == nil || c.out {
		return
	}
	c.faults = 0
	if c.ejections == 0 {
		x.drop(r)
	}
}

// countFault ejects the replica if the row is long enough and others can take over.
func (x *Outlier) countFault(r *fleet.Replica) {
	c := x.recordOf(r)
	if c.out {
		return
	}
	c.faults++
	if c.faults < x.o.ConsecutiveErrors {
		return
	}
	if x.expendable(r) {
		x.eject(r, c, ServerFault)
	} else if c.faults == x.o.ConsecutiveErrors {
		x.o.Log.Warn("replica keeps failing but stays in rotation: too few others are left", "replica", r.ID(), "errors_in_a_row", c.faults)
	}
}

// disconnect ejects a replica that cannot be reached, however few are left: an attempt costs a client time and can only fail.
func (x *Outlier) disconnect(r *fleet.Replica, out Outcome) {
	c := x.recordOf(r)
	if c.out {
		c.cause = out
		return
	}
	x.eject(r, c, out)
}

// expendable says that r may be ejected for its answers. One request that every replica fails on, sent again and again,
// must not take the fleet down: another replica stays ready and at most half of them are out for their answers' sake.
func (x *Outlier) expendable(r *fleet.Replica) bool {
	view := x.fleet.View()
	if view.Degraded {
		return false
	}
	faulty := 1
	for _, c := range x.records {
		if c.out && c.cause == ServerFault {
			faulty++
		}
	}
	return 2*faulty <= len(view.Replicas) && x.othersReady(view, r)
}

func (x *Outlier) othersReady(view *fleet.View, r *fleet.Replica) bool {
	for _, other := range view.Eligible {
		if c := x.records[other]; other != r && (c == nil || !c.out) {
			return true
		}
	}
	return false
}

func (x *Outlier) eject(r *fleet.Replica, c *record, cause Outcome) {
	c.faults = 0
	c.ejections++
	c.out, c.cause = true, cause
	x.fleet.Eject(r)
	wait := x.backOff(c.ejections)
	x.after(c, wait, func() { x.fleet.HalfOpen(r) })
	x.o.Log.Warn("replica ejected", "replica", r.ID(), "cause", cause.String(), "back_off", wait, "ejections_in_a_row", c.ejections)
	if x.o.OnEject != nil {
		x.o.OnEject(r.ID(), cause.String())
	}
}

// backOff is BaseTime * 2^(ejections-1), at most MaxTime, less up to a fifth so that replicas ejected together are not all
// tried together.
func (x *Outlier) backOff(ejections int) time.Duration {
	wait := x.o.BaseTime
	for i := 1; i < ejections && wait < x.o.MaxTime; i++ {
		wait *= 2
	}
	return time.Duration(float64(min(wait, x.o.MaxTime)) * (1 - 0.2*x.o.Rand()))
}

// restore puts the replica back in rotation and forgets its ejections once it has stayed there for MaxTime.
func (x *Outlier) restore(r *fleet.Replica, c *record) {
	c.out = false
	x.fleet.Restore(r)
	x.after(c, x.o.MaxTime, func() {
		c.ejections = 0
		if c.faults == 0 {
			x.drop(r)
		}
	})
	x.o.Log.Info("replica back in rotation", "replica", r.ID())
}

// after calls then, under the lock, unless the record's timer has been set anew or dropped by that time.
func (x *Outlier) after(c *record, wait time.Duration, then func()) {
	c.cancelTimer()
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		if c.timer == timer {
			then()
		}
	})
	c.timer = timer
}

func (c *record) cancelTimer() {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

func (x *Outlier) recordOf(r *fleet.Replica) *record {
	c := x.records[r]
	if c == nil {
		c = &record{}
		x.records[r] = c
		x.suspected.Add(1)
	}
	return c
}

func (x *Outlier) drop(r *fleet.Replica) {
	x.records[r].cancelTimer()
	delete(x.records, r)
	x.suspected.Add(-1)
}

// isOut says that r is ejected, half-open or on trial.
func (x *Outlier) isOut(r *fleet.Replica) bool {
	if x.suspected.Load() == 0 {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	c := x.records[r]
	return c != nil && c.out
}
