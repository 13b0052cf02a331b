package simulate

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/emulator"
	"github.com/warmpath/warmpath/internal/engine"
	"github.com/warmpath/warmpath/internal/fleet"
)

// simulation is one run: a state machine that the agenda leads from moment to moment.
type simulation struct {
	o           *Options
	blockTokens int // of the workload
	random      *rand.Rand
	agenda      agenda
	intake      *intake
	coming      *exchange // the next to arrive; nil if there is none
	changes     []change  // what the incidents come to
	replicas    []*replica
	routers     []*router
	tally       *bench.Tally
	arrivals    int              // so far
	events      []emulator.Event // reused
}

// streamRouting keeps the chance of routing apart from that of a workload with the same seed.
const streamRouting = 0x726f757465

func newSimulation(o *Options) (*simulation, error) {
	s := &simulation{o: o, random: rand.New(rand.NewPCG(o.Seed, streamRouting)), tally: bench.NewTally(o.Objective)}
	var err error
	if s.changes, err = schedule(o.Incidents, o.Replicas); err != nil {
		return nil, err
	}
	for i, c := range s.changes {
		s.agenda.add(moment{at: c.at, kind: fleetChange, index: i})
	}
	for range o.Routers {
		r, err := newRouter(o)
		if err != nil {
			return nil, err
		}
		s.routers = append(s.routers, r)
	}
	return s, nil
}

// play goes from moment to moment until nothing is in flight and nothing arrives any more.
func (s *simulation) play(ctx context.Context, in *intake) error {
	s.intake, s.coming = in, <-in.exchanges
	if s.coming == nil {
		return in.err
	}
	s.blockTokens = in.blockTokens
	if err := s.build(); err != nil {
		return err
	}
	s.open()
	for m, ok := s.agenda.next(); ok; m, ok = s.agenda.next() {
		switch m.kind {
		case fleetChange:
			if err := s.apply(s.changes[m.index], m.at); err != nil {
				return err
			}
		case stepEnd:
			s.step(s.replicas[m.index], m)
		case arrival:
			if ctx.Err() != nil {
				return fmt.Errorf("ended before the workload did: %w", context.Cause(ctx))
			}
			s.admit(m.at)
		}
	}
	return in.err
}

// open lets the first requests come: one at its time, or as many as a closed loop keeps open.
func (s *simulation) open() {
	if s.o.Concurrency == 0 {
		s.agenda.add(moment{at: s.coming.intended, kind: arrival})
	}
	for range s.o.Concurrency {
		s.agenda.add(moment{kind: arrival})
	}
}

// admit lets the request arrive that has come, and says when the next one will.
func (s *simulation) admit(now time.Duration) {
	x := s.coming
	if x == nil {
		return
	}
	s.coming = <-s.intake.exchanges
	if s.o.Concurrency > 0 {
		x.intended = now
	} else if s.coming != nil {
		s.agenda.add(moment{at: max(s.coming.intended, now), kind: arrival})
	}
	x.counted = s.o.Warmup.Over(s.arrivals, x.intended)
	s.arrivals++
	s.arrive(x, now)
}

// build makes the fleet as it is at the start.
func (s *simulation) build() error {
	for range s.o.Replicas {
		s.replicas = append(s.replicas, newReplica(len(s.replicas)))
		if err := s.boot(s.replicas[len(s.replicas)-1]); err != nil {
			return err
		}
	}
	for _, r := range s.routers {
		r.signals = s.signals()
		r.learn(s.replicas)
	}
	return nil
}

// signals is what the engines say of themselves on their metrics pages. Of whole prompts none says how many it keeps.
func (s *simulation) signals() fleet.Signals {
	if s.o.Published < 0 || engine.WholePrompts(s.o.Engine) {
		return fleet.Signals{}
	}
	return fleet.Signals{CacheTokens: int64(cmp.Or(s.o.Published, s.o.CacheTokens)), BlockTokens: int64(s.blockTokens)}
}

// boot starts a replica's engine, cold.
func (s *simulation) boot(r *replica) error {
	core, err := emulator.NewCore(s.o.engine(s.blockTokens))
	if err != nil {
		return err
	}
	r.start(core, s.o.Cost)
	return nil
}

// arrive hands an exchange to one of the routers.
func (s *simulation) arrive(x *exchange, now time.Duration) {
	x.router = s.routers[0]
	if len(s.routers) > 1 {
		x.router = s.routers[s.random.IntN(len(s.routers))]
	}
	x.query.Random = s.random.Uint64()
	if len(x.sequences) == 0 {
		s.end(x, failedInvalid, now)
		return
	}
	s.dispatch(x, now)
}

// dispatch sends an exchange to one replica after another until one takes it, as the proxy does.
func (s *simulation) dispatch(x *exchange, now time.Duration) {
	for len(x.query.Tried) < maxAttempts && x.router.acquire(x, now) {
		if x.replica.core == nil {
			x.abandon(now)
			continue
		}
		if !x.replica.submit(x) {
			s.end(x, failedInvalid, now)
			return
		}
		s.begin(x.replica, now)
		return
	}
	if len(x.query.Tried) == 0 {
		s.end(x, failedNoReplica, now)
		return
	}
	s.end(x, failedEverywhere, now)
}

// begin starts a replica's next step if it has something to compute. The step under way may end earlier for those who have come.
func (s *simulation) begin(r *replica, now time.Duration) {
	if !r.stepping && s.o.Processors > 0 {
		r.share(s.crowding(), s.o.Cost)
	}
	end, busy := r.core.Begin(now)
	if r.stepping && busy && end == r.stepEnd {
		return
	}
	r.stepEnd = end
	if r.stepping = busy; busy {
		s.agenda.add(moment{at: end, kind: stepEnd, index: r.index, life: r.life})
	}
}

// crowding is how many times longer a step takes that begins now, on processors that the engines share.
func (s *simulation) crowding() float64 {
	computing := 1
	for _, r := range s.replicas {
		if r.stepping {
			computing++
		}
	}
	return max(1, float64(computing)/float64(s.o.Processors))
}

// step ends a replica's step: sequences advance, finished ones leave, and the next step begins.
func (s *simulation) step(r *replica, m moment) {
	if m.life != r.life || !r.stepping || m.at != r.stepEnd {
		return // it has died, or its step ended earlier
	}
	r.stepping = false
	s.events = r.core.Finish(s.events[:0])
	for _, event := range s.events {
		x := event.Request.Data.(*exchange)
		x.advance(event.Generated, m.at)
		if event.Finished {
			if x.open--; x.open == 0 {
				s.end(x, answered, m.at)
			}
		}
	}
	clear(s.events)
	s.begin(r, m.at)
}

// end closes an exchange for good.
func (s *simulation) end(x *exchange, failure string, now time.Duration) {
	if x.counted {
		s.tally.Add(x.outcome(failure, now))
	}
	x.release(failure == answered, now)
	if s.o.Concurrency > 0 {
		s.agenda.add(moment{at: now, kind: arrival})
	}
	if s.o.Ended != nil {
		s.o.Ended()
	}
}
