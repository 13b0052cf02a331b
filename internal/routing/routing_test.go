package routing

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

// newFleet makes a fleet of n ready replicas that all have been ready for ever.
func newFleet(t testing.TB, n int) *fleet.Fleet {
	t.Helper()
	f := fleet.New(fleet.Options{})
	targets := make([]fleet.Target, n)
	for i := range targets {
		targets[i].URL = fmt.Sprintf("http://10.0.%d.%d:8000", i/250, i%250)
	}
	if errs := f.Apply(targets); errs != nil {
		t.Fatal(errs)
	}
	for _, r := range f.View().Replicas {
		f.SetHealth(r, true)
	}
	return f
}

// occupy gives a replica n requests in flight and returns a function that ends them.
func occupy(f *fleet.Fleet, r *fleet.Replica, n int) (end func()) {
	leases := make([]*fleet.Lease, n)
	for i := range leases {
		leases[i] = f.Acquire(func(*fleet.View) *fleet.Replica { return r })
	}
	return func() {
		for _, l := range leases {
			l.Release()
		}
	}
}

var testOptions = map[string]Options{NamePrefixAware: {PrefixLength: 1024, ConcurrencyThreshold: 4}}

func strategy(t testing.TB, name string) Strategy {
	t.Helper()
	s, err := New(name, testOptions[name])
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// everyStrategy runs a conformance test once for each registered strategy.
func everyStrategy(t *testing.T, test func(t *testing.T, s Strategy)) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) { test(t, strategy(t, name)) })
	}
	t.Run(NamePrefixAware+" of copies", func(t *testing.T) { test(t, siblingsFirst(t)) })
}

// siblingsFirst is PREFIX_AWARE for the copies of an inference component, with the threshold 4.
func siblingsFirst(t testing.TB) Strategy {
	t.Helper()
	o := testOptions[NamePrefixAware]
	o.SiblingsFirst = true
	s, err := New(NamePrefixAware, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func query(rng *rand.Rand) *Query {
	return &Query{Key: rng.Uint64(), HasKey: rng.IntN(4) > 0, Random: rng.Uint64(), Now: time.Unix(1000, 0)}
}

func ids(ranking []Candidate) []string {
	out := make([]string, len(ranking))
	for i, c := range ranking {
		out[i] = c.Replica.ID()
	}
	return out
}

func TestEveryStrategyRanksEachEligibleReplicaOnce(t *testing.T) {
	everyStrategy(t, func(t *testing.T, s Strategy) {
		f := newFleet(t, 7)
		v := f.View()
		rng := rand.New(rand.NewPCG(1, 2))
		defer occupy(f, v.Replicas[3], 9)()
		for range 200 {
			got := s.Rank(query(rng), v, nil)
			seen := ids(got)
			slices.Sort(seen)
			if len(slices.Compact(seen)) != len(v.Eligible) || len(got) != len(v.Eligible) {
				t.Fatalf("ranked %v of %d replicas", ids(got), len(v.Eligible))
			}
			for _, c := range got {
				if c.Reason == "" {
					t.Fatalf("%s has no reason", c.Replica.ID())
				}
			}
		}
	})
}

func TestEveryStrategyLeavesOutDrainingEjectedAndTried(t *testing.T) {
	everyStrategy(t, func(t *testing.T, s Strategy) {
		f := newFleet(t, 5)
		all := f.View().Replicas
		f.Drain(all[0].ID(), true)
		f.Eject(all[1])
		f.SetHealth(all[2], false)
		rng := rand.New(rand.NewPCG(3, 4))
		for range 100 {
			q := query(rng)
			q.Tried = []*fleet.Replica{all[3]}
			if got := ids(s.Rank(q, f.View(), nil)); !slices.Equal(got, []string{all[4].ID()}) {
				t.Fatalf("got %v, want only %s", got, all[4].ID())
			}
		}
	})
}

func TestEveryStrategyIsAFunctionOfItsInputs(t *testing.T) {
	everyStrategy(t, func(t *testing.T, s Strategy) {
		v := newFleet(t, 9).View()
		rng := rand.New(rand.NewPCG(5, 6))
		for range 100 {
			q := query(rng)
			if a, b := ids(s.Rank(q, v, nil)), ids(s.Rank(q, v, nil)); !slices.Equal(a, b) {
				t.Fatalf("one query, two rankings: %v and %v", a, b)
			}
		}
	})
}

func TestEveryStrategyWithALimitGivesTheHeadOfTheWholeRanking(t *testing.T) {
	everyStrategy(t, func(t *testing.T, s Strategy) {
		f := newFleet(t, 40)
		v := f.View()
		rng := rand.New(rand.NewPCG(7, 8))
		for _, r := range v.Replicas {
			defer occupy(f, r, rng.IntN(8))()
		}
		for limit := 1; limit < 12; limit++ {
			q := query(rng)
			whole := ids(s.Rank(q, v, nil))
			q.Limit = limit
			if got := ids(s.Rank(q, v, nil)); !slices.Equal(got, whole[:limit]) {
				t.Fatalf("limit %d: got %v, want %v", limit, got, whole[:limit])
			}
		}
	})
}

func TestEveryStrategyReachesEveryReplica(t *testing.T) {
	everyStrategy(t, func(t *testing.T, s Strategy) {
		v := newFleet(t, 8).View()
		rng := rand.New(rand.NewPCG(9, 10))
		first := map[string]int{}
		for range 4000 {
			first[s.Rank(query(rng), v, nil)[0].Replica.ID()]++
		}
		for _, r := range v.Replicas {
			if n := first[r.ID()]; n < 400 || n > 600 {
				t.Errorf("%s was first %d times of 4000, want about 500", r.ID(), n)
			}
		}
	})
}

func TestEveryStrategyAllocatesNothing(t *testing.T) {
	everyStrategy(t, func(t *testing.T, s Strategy) {
		v := newFleet(t, 64).View()
		rng := rand.New(rand.NewPCG(11, 12))
		q, out := query(rng), make([]Candidate, 0, 64)
		for _, q.HasKey = range []bool{true, false} {
			for _, q.Limit = range []int{0, 3} {
				if n := testing.AllocsPerRun(100, func() { out = s.Rank(q, v, out[:0]) }); n != 0 {
					t.Errorf("limit %d: %v allocations a ranking", q.Limit, n)
				}
			}
		}
	})
}

func TestEveryStrategySurvivesChurn(t *testing.T) {
	everyStrategy(t, func(t *testing.T, s Strategy) {
		f := newFleet(t, 6)
		var pickers sync.WaitGroup
		for worker := range 4 {
			pickers.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(worker), 1))
				out := make([]Candidate, 0, 8)
				for range 500 {
					q := query(rng)
					lease := f.Acquire(func(v *fleet.View) *fleet.Replica {
						if out = s.Rank(q, v, out[:0]); len(out) == 0 {
							return nil
						}
						return out[0].Replica
					})
					if lease != nil {
						lease.Release()
					}
				}
			})
		}
		rng := rand.New(rand.NewPCG(99, 1))
		for range 300 {
			n := rng.IntN(6)
			targets := make([]fleet.Target, n)
			for i := range targets {
				targets[i].URL = fmt.Sprintf("http://10.0.0.%d:8000", rng.IntN(8))
			}
			f.Apply(targets)
			for _, r := range f.View().Replicas {
				f.SetHealth(r, rng.IntN(4) > 0)
			}
		}
		pickers.Wait()
		for _, st := range f.Statuses() {
			if st.InFlight != 0 {
				t.Errorf("%s ends with %d in flight", st.Replica, st.InFlight)
			}
		}
	})
}

func TestEveryStrategyRanksAnEmptyFleet(t *testing.T) {
	everyStrategy(t, func(t *testing.T, s Strategy) {
		if got := s.Rank(&Query{HasKey: true}, fleet.New(fleet.Options{}).View(), nil); len(got) != 0 {
			t.Errorf("got %v of an empty fleet", ids(got))
		}
	})
}

func TestEveryStrategyWithholdsColdWorkFromASlowStarter(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(50_000, 0)
			s := strategy(t, name)
			f := fleet.New(fleet.Options{SlowStart: 10 * time.Second, Now: func() time.Time { return now }})
			f.Apply([]fleet.Target{{URL: "http://a:1"}, {URL: "http://b:1"}})
			a, b := f.View().Replicas[0], f.View().Replicas[1]
			f.SetHealth(a, true)
			now = now.Add(10 * time.Second)
			f.SetHealth(b, true)
			for _, age := range []float64{0, 5, 10} {
				got := shareOf(s, f.View(), b, now.Add(time.Duration(age*float64(time.Second))))
				// Of two idle replicas, the one with warmth w takes half of the share w that is not withheld from it.
				if want := max(0.1, age/10) / 2; math.Abs(got-want) > 0.03 {
					t.Errorf("after %gs: share of cold work %.3f, want %.3f", age, got, want)
				}
			}
		})
	}
}

// shareOf is how many of unkeyed requests go to r.
func shareOf(s Strategy, v *fleet.View, r *fleet.Replica, now time.Time) float64 {
	rng := rand.New(rand.NewPCG(13, 14))
	n := 0
	for range 4000 {
		if s.Rank(&Query{Random: rng.Uint64(), Now: now, Limit: 1}, v, nil)[0].Replica == r {
			n++
		}
	}
	return float64(n) / 4000
}

func TestNewSaysWhatIsWrong(t *testing.T) {
	tests := []struct {
		name, strategy string
		options        Options
		want           string
	}{
		{"unknown", "ROUND_ROBIN", Options{}, "use one of KV_AWARE, LEAST_OUTSTANDING_REQUESTS, PREFIX_AWARE, RANDOM"},
		{"missing length", NamePrefixAware, Options{ConcurrencyThreshold: 4}, "needs prefix_length, 1024 to 65536"},
		{"missing threshold", NamePrefixAware, Options{PrefixLength: 4096}, "needs concurrency_threshold, 1 to 1024"},
		{"short", NamePrefixAware, Options{PrefixLength: 100, ConcurrencyThreshold: 4}, "Value '100' at 'prefix_length' failed to satisfy constraint: Member must have value greater than or equal to 1024"},
		{"long", NamePrefixAware, Options{PrefixLength: 65537, ConcurrencyThreshold: 4}, "less than or equal to 65536"},
		{"threshold", NamePrefixAware, Options{PrefixLength: 1024, ConcurrencyThreshold: 1025}, "less than or equal to 1024"},
		{"options of another", NameRandom, Options{PrefixLength: 1024}, "belong to PREFIX_AWARE"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := New(tt.strategy, tt.options); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}
