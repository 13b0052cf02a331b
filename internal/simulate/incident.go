package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Incident is something that happens to the fleet.
type Incident struct {
	Kind    IncidentKind
	At      time.Duration // from the workload's beginning
	For     time.Duration // after which it is over; 0 = it never is
	Replica int           // counted from 1; those that join count on. Not for Join
	Factor  float64       // how many times slower, 0.001 to 1000. For Slow alone
}

const maxFactor = 1000.0

// IncidentKind is the kind of an Incident.
type IncidentKind string

// The kinds of incidents.
const (
	// Fail ends a replica's process. Routers know at once, as they do from refused and broken connections. Requests that it has
	// not begun to answer are sent elsewhere, others break. When it is over, the replica comes back with a cold cache.
	Fail IncidentKind = "fail"
	// Join adds a replica with a cold cache. It has no end.
	Join IncidentKind = "join"
	// Slow makes a replica slower, from its next step on.
	Slow IncidentKind = "slow"
)

// change is the beginning or the end of an incident.
type change struct {
	at      time.Duration
	to      to
	replica int // from 0
	factor  float64
}

// to is what a change turns a replica into.
type to uint8

const (
	present to = iota
	dead
	alive
	paced
)

// schedule turns incidents into changes by time, for a fleet of that many replicas at the start.
func schedule(incidents []Incident, replicas int) ([]change, error) {
	incidents = slices.Clone(incidents)
	slices.SortStableFunc(incidents, func(a, b Incident) int { return cmp.Compare(a.At, b.At) })
	var changes []change
	for _, i := range incidents {
		if i.Kind == Join {
			changes = append(changes, change{at: i.At, to: present, replica: replicas})
			replicas++
		}
		if err := i.validate(replicas); err != nil {
			return nil, err
		}
		changes = append(changes, i.changes()...)
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	return changes, nil
}

// validate checks an incident against the number of replicas that there are by then.
func (i Incident) validate(replicas int) error {
	switch {
	case i.At < 0 || i.For < 0:
		return fmt.Errorf("%s: at and for must not be negative", i.Kind)
	case i.Kind == Join && (i.For != 0 || i.Replica != 0 || i.Factor != 0):
		return fmt.Errorf("%s: it takes nothing but at; a replica that leaves again is a fail", i.Kind)
	case i.Kind == Join:
		return nil
	case i.Kind != Fail && i.Kind != Slow:
		return fmt.Errorf("incident: %q is unknown; use %s, %s or %s", i.Kind, Fail, Join, Slow)
	case i.Replica < 1 || i.Replica > replicas:
		return fmt.Errorf("%s: there is no replica %d at %v; use 1 to %d", i.Kind, i.Replica, i.At, replicas)
	case i.Kind == Slow && !(i.Factor >= 1/maxFactor && i.Factor <= maxFactor):
		return fmt.Errorf("%s: factor must be %g to %g; 2 is half as fast", i.Kind, 1/maxFactor, maxFactor)
	case i.Kind == Fail && i.Factor != 0:
		return fmt.Errorf("%s: factor belongs to %s", i.Kind, Slow)
	}
	return nil
}

// changes are what a Fail or Slow comes to.
func (i Incident) changes() []change {
	begin := change{at: i.At, replica: i.Replica - 1, to: dead}
	end := change{at: i.At + i.For, replica: i.Replica - 1, to: alive}
	switch i.Kind {
	case Join:
		return nil
	case Slow:
		begin.to, begin.factor = paced, i.Factor
		end.to, end.factor = paced, 1
	}
	if i.For == 0 {
		return []change{begin}
	}
	return []change{begin, end}
}

// apply makes a change happen.
func (s *simulation) apply(c change, now time.Duration) error {
	for _, r := range s.routers {
		r.now = now
	}
	switch c.to {
	case present:
		s.replicas = append(s.replicas, newReplica(c.replica))
		if err := s.boot(s.replicas[c.replica]); err != nil {
			return err
		}
		for _, r := range s.routers {
			r.learn(s.replicas)
		}
	case dead:
		s.kill(s.replicas[c.replica], now)
	case alive:
		return s.revive(s.replicas[c.replica])
	case paced:
		s.replicas[c.replica].pace(c.factor, s.o.Cost)
	}
	return nil
}

// kill ends a replica's process; what it had begun to answer breaks, the rest goes elsewhere.
func (s *simulation) kill(r *replica, now time.Duration) {
	s.setHealth(r, false)
	for _, x := range r.kill() {
		if x.begun {
			s.end(x, failedBroken, now)
			continue
		}
		x.abandon(now)
		s.dispatch(x, now)
	}
}

// revive starts a dead replica again.
func (s *simulation) revive(r *replica) error {
	if r.core != nil {
		return nil
	}
	if err := s.boot(r); err != nil {
		return err
	}
	s.setHealth(r, true)
	return nil
}

func (s *simulation) setHealth(r *replica, healthy bool) {
	for _, router := range s.routers {
		if !healthy {
			router.members[r.index].MarkLost()
		}
		router.fleet.SetHealth(router.members[r.index], healthy)
	}
}
