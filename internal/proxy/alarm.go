package proxy

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	alarmTick = time.Second     // how late a long alarm may ring
	exactly   = 5 * time.Second // alarms for less than this ring on time
	never     = math.MaxInt64
)

// alarms runs the long time limits of many requests on one timer. Nearly every request sets several, for minutes, and none rings: a
// timer of the runtime for each, on a process that is mostly idle, wakes a thread every time it is set.
type alarms struct {
	epoch time.Time

	mu    sync.Mutex
	set   map[*alarm]struct{}
	armed bool
	used  bool // since the last tick
}

func newAlarms() *alarms {
	return &alarms{epoch: time.Now(), set: map[*alarm]struct{}{}}
}

// alarm calls ring once when its time has come. Its methods are for one goroutine at a time; ring runs in another, and may do so
// while reset or stop is under way.
type alarm struct {
	owner *alarms
	ring  func()
	at    atomic.Int64 // nanoseconds after the owner's epoch
	known bool         // to the owner
	exact *time.Timer
}

// reset makes the alarm ring in d from now, or never if d is 0.
func (a *alarm) reset(d time.Duration) {
	short := d > 0 && d < exactly
	if a.exact != nil && !short {
		a.exact.Stop()
	}
	switch {
	case short && a.exact != nil:
		a.at.Store(never)
		a.exact.Reset(d)
	case short:
		a.at.Store(never)
		a.exact = time.AfterFunc(d, a.ring)
	case d <= 0:
		a.at.Store(never)
	default:
		a.at.Store(int64(time.Since(a.owner.epoch) + d))
		if !a.known {
			a.known = true
			a.owner.add(a)
		}
	}
}

// stop ends the alarm.
func (a *alarm) stop() {
	if a.exact != nil {
		a.exact.Stop()
	}
	if a.known {
		a.owner.remove(a)
	}
}

func (s *alarms) add(a *alarm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set[a] = struct{}{}
	s.used = true
	if !s.armed {
		s.armed = true
		time.AfterFunc(alarmTick, s.tick)
	}
}

func (s *alarms) remove(a *alarm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.set, a)
}

// tick rings what is due and comes again for as long as there are requests.
func (s *alarms) tick() {
	for _, a := range s.due() {
		a.ring()
	}
}

func (s *alarms) due() (due []*alarm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := int64(time.Since(s.epoch))
	for a := range s.set {
		if a.at.Load() <= now {
			due = append(due, a)
			delete(s.set, a)
		}
	}
	if s.armed = len(s.set) > 0 || s.used; s.armed {
		time.AfterFunc(alarmTick, s.tick)
	}
	s.used = false
	return due
}
