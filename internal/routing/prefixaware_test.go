package routing

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/internal/fleet"
)

func TestPrefixAwareKeepsAKeyUntilTheThreshold(t *testing.T) {
	f := newFleet(t, 4)
	s := strategy(t, NamePrefixAware) // threshold 4
	v := f.View()
	q := &Query{Key: 42, HasKey: true, Random: 7}
	order := s.Rank(q, v, nil)
	preferred := order[0].Replica
	defer occupy(f, order[1].Replica, 2)()
	defer occupy(f, order[2].Replica, 1)()
	defer occupy(f, order[3].Replica, 3)()

	defer occupy(f, preferred, 3)()
	if got := s.Rank(q, v, nil)[0]; got.Replica != preferred || got.Reason != Affinity {
		t.Errorf("below the threshold: got %s, %s; want affinity to %s", got.Replica.ID(), got.Reason, preferred.ID())
	}
	defer occupy(f, preferred, 1)()
	got := s.Rank(q, v, nil)
	if got[0].Replica != order[2].Replica || got[0].Reason != Overflow {
		t.Errorf("at the threshold: got %s, %s; want overflow to the least busy, %s", got[0].Replica.ID(), got[0].Reason, order[2].Replica.ID())
	}
	if last := got[3]; last.Replica != preferred || last.Reason != Affinity {
		t.Errorf("the replica at its threshold: got %s, %s in last place", last.Replica.ID(), last.Reason)
	}
}

func TestPrefixAwareWithEveryoneAtTheThresholdTakesTheLeastBusy(t *testing.T) {
	f := newFleet(t, 3)
	s := strategy(t, NamePrefixAware)
	q := &Query{Key: 42, HasKey: true}
	order := s.Rank(q, f.View(), nil)
	for i, n := range []int{5, 8, 6} {
		defer occupy(f, order[i].Replica, n)()
	}
	if got := s.Rank(q, f.View(), nil)[0]; got.Replica != order[0].Replica {
		t.Errorf("got %s with %d in flight, want the one with 5", got.Replica.ID(), got.Replica.InFlight())
	}
}

func TestPrefixAwareBreaksOverflowTiesByTheKeysOrder(t *testing.T) {
	f := newFleet(t, 6)
	s := strategy(t, NamePrefixAware)
	for key := range uint64(50) {
		q := &Query{Key: key, HasKey: true, Random: key * 977}
		order := s.Rank(q, f.View(), nil)
		end := occupy(f, order[0].Replica, 4)
		if got := s.Rank(q, f.View(), nil)[0]; got.Replica != order[1].Replica {
			t.Errorf("key %d: overflow to %s, want the next in its order, %s", key, got.Replica.ID(), order[1].Replica.ID())
		}
		end()
	}
}

func TestPrefixAwareIsANoOpWithOneReplica(t *testing.T) {
	f := newFleet(t, 1)
	defer occupy(f, f.View().Replicas[0], 50)()
	if got := strategy(t, NamePrefixAware).Rank(&Query{Key: 1, HasKey: true}, f.View(), nil); len(got) != 1 || got[0].Reason != Affinity {
		t.Errorf("got %v", got)
	}
}

// 200 replicas, 60 concurrent requests of which a quarter share a prefix: the threshold is a count, not a share of a mean below
// one, so the shared prefix keeps its replica up to the threshold and then spreads.
func TestC025_LowMeanLoadDoesNotFillReplicas(t *testing.T) {
	f := newFleet(t, 200)
	s := strategy(t, NamePrefixAware)
	rng := rand.New(rand.NewPCG(3, 3))
	hot := map[*fleet.Replica]int{}
	for i := range 60 {
		q := &Query{Key: rng.Uint64(), HasKey: true, Random: rng.Uint64(), Limit: 1}
		if i%4 == 0 {
			q.Key = 4711
		}
		lease := f.Acquire(func(v *fleet.View) *fleet.Replica { return s.Rank(q, v, nil)[0].Replica })
		if q.Key == 4711 {
			hot[lease.Replica()]++
		}
	}
	if len(hot) < 5 {
		t.Errorf("15 requests of one prefix, threshold 4, went to %d replicas only", len(hot))
	}
	for r, n := range hot {
		if n > 4 {
			t.Errorf("%s got %d of the shared prefix, over the threshold of 4", r.ID(), n)
		}
	}
}

// Requests without a key must not all go to "the first".
func TestC054_RequestsWithoutAKeyGoByLoad(t *testing.T) {
	f := newFleet(t, 4)
	s := strategy(t, NamePrefixAware)
	rng := rand.New(rand.NewPCG(4, 4))
	for range 1000 {
		q := &Query{Random: rng.Uint64(), Limit: 1}
		f.Acquire(func(v *fleet.View) *fleet.Replica {
			c := s.Rank(q, v, nil)[0]
			if c.Reason != Fallback {
				t.Fatalf("reason %s, want fallback", c.Reason)
			}
			return c.Replica
		})
	}
	for _, r := range f.View().Replicas {
		if r.InFlight() != 250 {
			t.Errorf("%s got %d of 1000", r.ID(), r.InFlight())
		}
	}
}

func TestC053_PlacementIsStable(t *testing.T) {
	const keys = 10_000
	owners := func(targets []fleet.Target) []string {
		f := fleet.New(fleet.Options{})
		f.Apply(targets)
		for _, r := range f.View().Replicas {
			f.SetHealth(r, true)
		}
		s, out := strategy(t, NamePrefixAware), make([]string, keys)
		for i := range out {
			out[i] = s.Rank(&Query{Key: uint64(i), HasKey: true, Limit: 1}, f.View(), nil)[0].Replica.ID()
		}
		return out
	}
	targets := func(n int) []fleet.Target {
		out := make([]fleet.Target, n)
		for i := range out {
			out[i].URL = fmt.Sprintf("http://vllm-%d:8000", i)
		}
		return out
	}
	ten := owners(targets(10))
	shuffled := targets(10)
	slices.Reverse(shuffled)
	if !slices.Equal(ten, owners(shuffled)) {
		t.Error("the order of the list moved keys")
	}
	for i, owner := range owners(targets(11)) {
		if owner != ten[i] && owner != "vllm-10:8000" {
			t.Fatalf("adding a replica moved key %d from %s to %s", i, ten[i], owner)
		}
	}
	moved := 0
	for i, owner := range owners(slices.Delete(targets(10), 3, 4)) {
		if ten[i] != "vllm-3:8000" && owner != ten[i] {
			t.Fatalf("removing another replica moved key %d from %s to %s", i, ten[i], owner)
		}
		if owner != ten[i] {
			moved++
		}
	}
	if moved < keys/12 || moved > keys/8 {
		t.Errorf("removing one of ten moved %d of %d keys", moved, keys)
	}
}
