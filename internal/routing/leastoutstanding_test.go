package routing

import (
	"math/rand/v2"
	"testing"

	"github.com/warmpath/warmpath/internal/fleet"
)

func TestLeastOutstandingTakesTheFewest(t *testing.T) {
	f := newFleet(t, 4)
	v := f.View()
	for i, r := range v.Replicas {
		defer occupy(f, r, []int{3, 1, 2, 5}[i])()
	}
	got := ids(strategy(t, NameLeastOutstanding).Rank(&Query{Random: 1}, v, nil))
	for i, want := range []int{1, 2, 0, 3} {
		if got[i] != v.Replicas[want].ID() {
			t.Errorf("place %d: got %s, want %s", i, got[i], v.Replicas[want].ID())
		}
	}
}

// One request at a time over idle replicas: a deterministic tie-break would send all 400 to one of them.
func TestC026_IdleTiesSpread(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, name := range Names() {
		f := newFleet(t, 4)
		s := strategy(t, name)
		count := map[*fleet.Replica]int{}
		for range 400 {
			q := &Query{Random: rng.Uint64(), Limit: 1}
			lease := f.Acquire(func(v *fleet.View) *fleet.Replica { return s.Rank(q, v, nil)[0].Replica })
			count[lease.Replica()]++
			lease.Release()
		}
		for r, n := range count {
			if n < 70 || n > 130 {
				t.Errorf("%s: %s got %d of 400, want about 100", name, r.ID(), n)
			}
		}
	}
}

// A burst sees its own effect: the pick and the count are one step.
func TestLeastOutstandingLevelsABurst(t *testing.T) {
	f := newFleet(t, 5)
	s := strategy(t, NameLeastOutstanding)
	rng := rand.New(rand.NewPCG(2, 2))
	for range 100 {
		q := &Query{Random: rng.Uint64(), Limit: 1}
		f.Acquire(func(v *fleet.View) *fleet.Replica { return s.Rank(q, v, nil)[0].Replica })
	}
	for _, r := range f.View().Replicas {
		if r.InFlight() != 20 {
			t.Errorf("%s has %d of 100 in flight, want 20", r.ID(), r.InFlight())
		}
	}
}
