package routing

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/internal/fleet"
)

// newCopies makes a fleet of copies, so many on each host, that all have been ready for ever.
func newCopies(t testing.TB, perHost ...int) *fleet.Fleet {
	t.Helper()
	f := fleet.New(fleet.Options{})
	var targets []fleet.Target
	for host, n := range perHost {
		for i := range n {
			targets = append(targets, fleet.Target{URL: fmt.Sprintf("http://host-%d:%d", host, 8000+i)})
		}
	}
	if errs := f.Apply(targets); errs != nil {
		t.Fatal(errs)
	}
	for _, r := range f.View().Replicas {
		f.SetHealth(r, true)
	}
	return f
}

// siblingsOf lists the other copies on a copy's host, and the copies on other hosts, in the order of ranking.
func siblingsOf(copied *fleet.Replica, ranking []Candidate) (here, elsewhere []*fleet.Replica) {
	for _, c := range ranking {
		switch {
		case c.Replica == copied:
		case c.Replica.URL().Hostname() == copied.URL().Hostname():
			here = append(here, c.Replica)
		default:
			elsewhere = append(elsewhere, c.Replica)
		}
	}
	return here, elsewhere
}

func TestOverflowGoesToASiblingFirst(t *testing.T) {
	f := newCopies(t, 3, 3)
	s, q := siblingsFirst(t), &Query{Key: 7, HasKey: true}
	order := s.Rank(q, f.View(), nil)
	preferred := order[0].Replica
	here, elsewhere := siblingsOf(preferred, order)
	first := func(what string, want *fleet.Replica, reason Reason) {
		t.Helper()
		if got := s.Rank(q, f.View(), nil)[0]; got.Replica != want || got.Reason != reason {
			t.Errorf("%s: got %s, %s; want %s, %s", what, got.Replica.ID(), got.Reason, want.ID(), reason)
		}
	}
	defer occupy(f, preferred, 3)()
	first("below the threshold", preferred, Affinity)
	defer occupy(f, preferred, 1)()
	first("at the threshold, all others idle", here[0], Overflow)
	defer occupy(f, here[0], 3)()
	defer occupy(f, here[1], 2)()
	first("siblings that are busier than every other host", here[1], Overflow)
	defer occupy(f, here[1], 2)()
	first("one sibling at its threshold", here[0], Overflow)
	defer occupy(f, here[0], 1)()
	first("all of the host at the threshold", elsewhere[0], Overflow)
	defer occupy(f, elsewhere[0], 5)()
	defer occupy(f, elsewhere[1], 4)()
	defer occupy(f, elsewhere[2], 6)()
	defer occupy(f, preferred, 5)()
	defer occupy(f, here[0], 5)()
	defer occupy(f, here[1], 5)()
	first("everybody at the threshold", elsewhere[1], Overflow)
}

func TestOnlyCopiesPreferSiblings(t *testing.T) {
	f := newCopies(t, 2, 2)
	q := &Query{Key: 7, HasKey: true}
	order := strategy(t, NamePrefixAware).Rank(q, f.View(), nil)
	here, elsewhere := siblingsOf(order[0].Replica, order)
	defer occupy(f, order[0].Replica, 4)()
	defer occupy(f, here[0], 1)()
	if got := strategy(t, NamePrefixAware).Rank(q, f.View(), nil)[0].Replica; got != elsewhere[0] {
		t.Errorf("replicas that are no copies: got %s, want the least busy, %s", got.ID(), elsewhere[0].ID())
	}
}

func TestSlowStartWithholdsASibling(t *testing.T) {
	now := time.Unix(50_000, 0)
	f := fleet.New(fleet.Options{SlowStart: 10 * time.Second, Now: func() time.Time { return now }})
	f.Apply([]fleet.Target{{URL: "http://a:1"}, {URL: "http://a:2"}, {URL: "http://b:1"}})
	replicas := f.View().Replicas
	f.SetHealth(replicas[0], true)
	f.SetHealth(replicas[2], true)
	now = now.Add(time.Minute)
	f.SetHealth(replicas[1], true) // it joins now
	defer occupy(f, replicas[0], 4)()
	s, sibling, n := siblingsFirst(t), 0, 0
	for key := range uint64(6000) {
		q := &Query{Key: key, HasKey: true, Random: key * 0x9e3779b97f4a7c15, Now: now}
		switch got := s.Rank(q, f.View(), nil)[0]; {
		case got.Reason != Overflow:
		case got.Replica == replicas[1]:
			sibling++
			n++
		default:
			n++
		}
	}
	if share := float64(sibling) / float64(n); n < 1000 || share < 0.07 || share > 0.13 {
		t.Errorf("a sibling that has just joined gets %.3f of %d overflows, want a tenth", share, n)
	}
}

// Whatever runs where: a request never goes to a copy at its threshold while a sibling of it is below, nor to another host than its
// own while a copy there is below.
func TestOverflowLeavesNoSiblingIdle(t *testing.T) {
	s := siblingsFirst(t)
	rapid.Check(t, func(r *rapid.T) {
		f := newCopies(t, rapid.SliceOfN(rapid.IntRange(1, 4), 1, 4).Draw(r, "copies on hosts")...)
		v := f.View()
		for _, each := range v.Replicas {
			defer occupy(f, each, rapid.IntRange(0, 6).Draw(r, "in flight"))()
		}
		q := &Query{Key: rapid.Uint64().Draw(r, "key"), HasKey: true, Random: rapid.Uint64().Draw(r, "random"), Limit: rapid.IntRange(0, 3).Draw(r, "limit")}
		for _, each := range v.Replicas {
			if rapid.IntRange(0, 5).Draw(r, "tried") == 0 {
				q.Tried = append(q.Tried, each)
			}
		}
		got := s.Rank(q, v, nil)
		preferred := preferredOf(q, v)
		if preferred == nil {
			if len(got) > 0 {
				r.Fatalf("got %v, but all have been tried", ids(got))
			}
			return
		}
		chosen := got[0].Replica
		below := func(on *fleet.Replica) bool {
			return slices.ContainsFunc(v.Eligible, func(each *fleet.Replica) bool {
				return !slices.Contains(q.Tried, each) && each.InFlight() < 4 && each.URL().Hostname() == on.URL().Hostname()
			})
		}
		switch {
		case preferred.InFlight() < 4 && chosen != preferred:
			r.Errorf("%s was chosen, but %s has room", chosen.ID(), preferred.ID())
		case chosen.InFlight() >= 4 && below(chosen):
			r.Errorf("%s was chosen at its threshold, but a sibling has room", chosen.ID())
		case chosen.URL().Hostname() != preferred.URL().Hostname() && below(preferred):
			r.Errorf("%s was chosen, but a copy on the host of %s has room", chosen.ID(), preferred.ID())
		}
	})
}

// preferredOf is the first of the key's own order that the request has not tried.
func preferredOf(q *Query, v *fleet.View) (best *fleet.Replica) {
	for _, r := range v.Eligible {
		if !slices.Contains(q.Tried, r) && (best == nil || Score(q.Key, r.Hash()) > Score(q.Key, best.Hash())) {
			best = r
		}
	}
	return best
}

// Placement without overflow is that of replicas which are no copies: a key has one order.
func TestCopiesKeepTheKeysOrder(t *testing.T) {
	v := newCopies(t, 3, 1, 4).View()
	rng := rand.New(rand.NewPCG(21, 22))
	for range 500 {
		q := query(rng)
		if a, b := ids(strategy(t, NamePrefixAware).Rank(q, v, nil)), ids(siblingsFirst(t).Rank(q, v, nil)); !slices.Equal(a, b) {
			t.Fatalf("key %d: %v, of copies %v", q.Key, a, b)
		}
	}
}

func TestOverflowOfCopiesAllocatesNothing(t *testing.T) {
	f := newCopies(t, 4, 4)
	s, q, out := siblingsFirst(t), &Query{Key: 7, HasKey: true, Limit: 1}, make([]Candidate, 0, 8)
	defer occupy(f, s.Rank(q, f.View(), nil)[0].Replica, 4)()
	v := f.View()
	if n := testing.AllocsPerRun(100, func() { out = s.Rank(q, v, out[:0]) }); n != 0 || out[0].Reason != Overflow {
		t.Errorf("%v allocations for %s", n, out[0].Reason)
	}
}
