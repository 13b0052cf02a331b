package health

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/fleet"
)

// ward is a fleet of healthy replicas and its outlier, inside a synctest bubble.
type ward struct {
	*testing.T
	fleet   *fleet.Fleet
	outlier *Outlier
	ejected []string // "replica cause" of every ejection
}

func newWard(t *testing.T, hosts ...string) *ward {
	w := &ward{T: t, fleet: fleet.New(fleet.Options{})}
	w.outlier = NewOutlier(w.fleet, OutlierOptions{
		ConsecutiveErrors: 3, BaseTime: 10 * time.Second, MaxTime: time.Minute, Rand: func() float64 { return 0 },
		OnEject: func(replica, cause string) { w.ejected = append(w.ejected, replica+" "+cause) },
	})
	w.fleet.Apply(targets(hosts...))
	for _, r := range w.fleet.View().Replicas {
		w.fleet.SetHealth(r, true)
	}
	return w
}

// request sends requests with those outcomes to the host, one after the other.
func (w *ward) request(host string, outcomes ...Outcome) {
	w.Helper()
	for _, out := range outcomes {
		l := lease(w.T, w.fleet, host)
		w.outlier.Observe(l, out)
		l.Release()
	}
}

func (w *ward) want(when, want string) {
	w.Helper()
	wantStates(w.T, w.fleet, when, want)
}

// wait lets virtual time pass, timers that are due included.
func (w *ward) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestOutcomesEject(t *testing.T) {
	faults := func(n int) []Outcome { return slices.Repeat([]Outcome{ServerFault}, n) }
	tests := []struct {
		name     string
		outcomes []Outcome
		ejected  bool
	}{
		{"successes", []Outcome{Success, Success, Success, Success}, false},
		{"too few faults", faults(2), false},
		{"faults in a row", faults(3), true},
		{"faults with a success between", []Outcome{ServerFault, ServerFault, Success, ServerFault, ServerFault}, false},
		{"faults with a client's fault between", []Outcome{ServerFault, ServerFault, ClientFault, ServerFault, ServerFault}, false},
		{"faults with an overload between", []Outcome{ServerFault, ServerFault, Overloaded, ServerFault}, true},
		{"faults with a cancelled request between", []Outcome{ServerFault, ServerFault, Cancelled, ServerFault}, true},
		{"overload", slices.Repeat([]Outcome{Overloaded}, 50), false},
		{"clients that leave", slices.Repeat([]Outcome{Cancelled}, 50), false},
		{"no ports left here", slices.Repeat([]Outcome{LocalFault}, 50), false},
		{"one refused connection", []Outcome{Refused}, true},
		{"one connection not made", []Outcome{Unreachable}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWard(t, "a:1", "b:1")
				defer w.outlier.Stop()
				w.request("a:1", tt.outcomes...)
				want := "a:1=ready b:1=ready"
				if tt.ejected {
					want = "a:1=ejected b:1=ready"
				}
				w.want("after the requests", want)
			})
		})
	}
}

// TestC033_ClientFaultsNeverEject answers 50 requests with each client's fault, then one well.
func TestC033_ClientFaultsNeverEject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, "a:1", "b:1")
		defer w.outlier.Stop()
		for _, code := range []int{400, 401, 404, 413, 422} {
			w.request("a:1", slices.Repeat([]Outcome{OfStatus(code)}, 50)...)
			w.request("b:1", slices.Repeat([]Outcome{OfStatus(code)}, 50)...)
		}
		w.request("a:1", OfStatus(200))
		w.want("after 500 client faults", "a:1=ready b:1=ready")
		if w.ejected != nil || w.outlier.suspected.Load() != 0 {
			t.Errorf("ejections %v, suspected %d; want none", w.ejected, w.outlier.suspected.Load())
		}
	})
}

func TestRefusedConnectionTellsThoseWhoWait(t *testing.T) {
	tests := map[Outcome]bool{Refused: true, Unreachable: false, ServerFault: false, Success: false}
	for out, want := range tests {
		t.Run(out.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWard(t, "a:1", "b:1")
				defer w.outlier.Stop()
				waiting := w.fleet.View().Replicas[0].Lost()
				w.request("a:1", out)
				if got := waiting.Err() != nil; got != want {
					t.Errorf("waiting requests told: %v, want %v", got, want)
				}
			})
		})
	}
}

func TestBackOffGrowsAndIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, "a:1", "b:1")
		defer w.outlier.Stop()
		w.request("a:1", ServerFault, ServerFault, ServerFault)
		for _, backOff := range []time.Duration{10, 20, 40, 60, 60} {
			backOff *= time.Second
			w.wait(backOff - time.Millisecond)
			w.want(fmt.Sprint("just before ", backOff), "a:1=ejected b:1=ready")
			w.wait(time.Millisecond)
			w.want(fmt.Sprint("after ", backOff), "a:1=half_open b:1=ready")
			w.request("a:1", ServerFault)
		}
		w.wait(time.Minute)
		w.request("a:1", Success)
		w.want("after a trial that succeeds", "a:1=ready b:1=ready")

		w.wait(59 * time.Second)
		w.request("a:1", Refused)
		w.wait(59 * time.Second)
		w.want("ejected again soon", "a:1=ejected b:1=ready")
		w.wait(time.Second)
		w.request("a:1", Success)

		w.wait(time.Minute)
		if got := w.outlier.suspected.Load(); got != 0 {
			t.Errorf("after a minute in rotation %d replicas are suspected, want 0", got)
		}
		w.request("a:1", Refused)
		w.wait(10 * time.Second)
		w.want("ejected again late, after the first back-off", "a:1=half_open b:1=ready")
	})
}

func TestBackOffIsSpread(t *testing.T) {
	x := NewOutlier(fleet.New(fleet.Options{}), DefaultOutlierOptions)
	seen := map[time.Duration]bool{}
	for range 1000 {
		for n, full := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 6: 30 * time.Second, 1000: 30 * time.Second} {
			got := x.backOff(n)
			if got > full || got < full*8/10 {
				t.Fatalf("back-off %d: %v, want within a fifth below %v", n, got, full)
			}
			seen[got] = true
		}
	}
	if len(seen) < 1000 {
		t.Errorf("only %d different back-offs of 5000", len(seen))
	}
}

func TestTrialDecides(t *testing.T) {
	tests := []struct {
		outcome Outcome
		want    string
	}{
		{Success, "ready"},
		{ClientFault, "ready"},
		{Cancelled, "half_open"},
		{LocalFault, "half_open"},
		{Overloaded, "half_open"},
		{ServerFault, "ejected"},
		{Unreachable, "ejected"},
		{Refused, "ejected"},
	}
	for _, tt := range tests {
		t.Run(tt.outcome.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWard(t, "a:1", "b:1")
				defer w.outlier.Stop()
				w.request("a:1", Refused)
				w.wait(10 * time.Second)
				trial := lease(t, w.fleet, "a:1")
				if !trial.Trial() {
					t.Fatal("the first request to a half-open replica is no trial")
				}
				w.want("during the trial", "a:1=ejected b:1=ready")
				w.outlier.Observe(trial, tt.outcome)
				w.want("after the verdict", "a:1="+tt.want+" b:1=ready")
				trial.Release()
				w.want("after the release", "a:1="+tt.want+" b:1=ready")
			})
		})
	}
}

func TestTrialIsNeverStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, "a:1", "b:1")
		defer w.outlier.Stop()
		w.request("a:1", Refused)
		w.wait(10 * time.Second)

		lease(t, w.fleet, "a:1").Release()
		w.want("released without a verdict", "a:1=half_open b:1=ready")

		late := lease(t, w.fleet, "a:1")
		late.Release()
		w.outlier.Observe(late, Success)
		w.want("verdict after the release", "a:1=ready b:1=ready")
	})
}

func TestTrialEndsAtTheFirstContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, "a:1", "b:1")
		defer w.outlier.Stop()
		ordinary := lease(t, w.fleet, "a:1")
		w.request("a:1", Refused)
		w.outlier.Answering(ordinary)
		w.want("after an older request's content", "a:1=ejected b:1=ready")
		w.wait(10 * time.Second)
		trial := lease(t, w.fleet, "a:1")
		w.outlier.Answering(trial)
		w.want("after the trial's first content", "a:1=ready b:1=ready")
		w.outlier.Observe(trial, ServerFault)
		w.want("after its stream broke", "a:1=ready b:1=ready")
		w.request("a:1", ServerFault, ServerFault)
		w.want("after two more faults", "a:1=ejected b:1=ready")
	})
}

// TestOldRequestsDoNotJudge ends requests that were sent before the ejection while the replica is out.
func TestOldRequestsDoNotJudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, "a:1", "b:1")
		defer w.outlier.Stop()
		var old []*fleet.Lease
		for range 6 {
			old = append(old, lease(t, w.fleet, "a:1"))
		}
		w.request("a:1", ServerFault, ServerFault, ServerFault)
		w.outlier.Observe(old[0], Success)
		w.outlier.Observe(old[1], ServerFault)
		w.outlier.Observe(old[2], Cancelled)
		w.want("while ejected", "a:1=ejected b:1=ready")
		w.wait(10 * time.Second)
		w.outlier.Observe(old[3], Success)
		w.outlier.Observe(old[4], ServerFault)
		w.outlier.Observe(old[5], Overloaded)
		w.want("while half-open", "a:1=half_open b:1=ready")
		if got := len(w.ejected); got != 1 {
			t.Errorf("%d ejections, want 1", got)
		}
	})
}

func TestServerFaultsLeaveEnoughReplicas(t *testing.T) {
	tests := []struct {
		hosts, down int // replicas, of which so many refuse connections before
		ejected     int // for their answers, at most
	}{
		{1, 0, 0}, {2, 0, 1}, {3, 0, 1}, {4, 0, 2}, {5, 0, 2}, {8, 0, 4},
		{2, 1, 0}, {4, 2, 1}, {4, 3, 0}, {4, 4, 0},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d of which %d down", tt.hosts, tt.down), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hosts []string
				for i := range tt.hosts {
					hosts = append(hosts, fmt.Sprintf("r%d:1", i))
				}
				w := newWard(t, hosts...)
				defer w.outlier.Stop()
				for _, host := range hosts[:tt.down] {
					w.request(host, Refused)
				}
				for range 10 {
					for _, host := range hosts {
						w.request(host, ServerFault)
					}
				}
				want := tt.down + tt.ejected
				if got := strings.Count(states(w.fleet), "=ejected"); got != want {
					t.Errorf("%d ejected, want %d: %s", got, want, states(w.fleet))
				}
			})
		})
	}
}

func TestHeldReplicaIsEjectedWhenOthersAreBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, "a:1", "b:1")
		defer w.outlier.Stop()
		w.request("a:1", Refused)
		w.request("b:1", ServerFault, ServerFault, ServerFault, ServerFault)
		w.want("the last one", "a:1=ejected b:1=ready")
		w.outlier.ProbeSucceeded(w.fleet.View().Replicas[0])
		w.request("b:1", ServerFault)
		w.want("another is back", "a:1=ready b:1=ejected")
	})
}

func TestProbesEndEjectionsByCause(t *testing.T) {
	tests := []struct {
		name     string
		outcomes []Outcome
		gone     bool // a probe is refused meanwhile
		want     string
	}{
		{"refused", []Outcome{Refused}, false, "ready"},
		{"unreachable", []Outcome{Unreachable}, false, "ready"},
		{"server faults", []Outcome{ServerFault, ServerFault, ServerFault}, false, "ejected"},
		{"server faults, then gone", []Outcome{ServerFault, ServerFault, ServerFault, Refused}, false, "ready"},
		{"server faults, then found gone by a probe", []Outcome{ServerFault, ServerFault, ServerFault}, true, "ready"},
		{"some faults, then gone", []Outcome{ServerFault, ServerFault}, true, "ready"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWard(t, "a:1", "b:1")
				defer w.outlier.Stop()
				a := w.fleet.View().Replicas[0]
				w.request("a:1", tt.outcomes...)
				if tt.gone {
					w.outlier.ProbeRefused(a)
				}
				w.outlier.ProbeSucceeded(a)
				w.want("after a probe that passes", "a:1="+tt.want+" b:1=ready")
			})
		})
	}
}

// TestC064_RemovedReplicasLeaveNothing ejects replicas, removes them, and looks for what stays.
func TestC064_RemovedReplicasLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, "stays:1")
		defer w.outlier.Stop()
		for i := range 500 {
			host := fmt.Sprintf("r%d:1", i)
			w.fleet.Apply(targets("stays:1", host))
			l := lease(t, w.fleet, host)
			w.outlier.Observe(l, Refused)
			w.fleet.Apply(targets("stays:1"))
			w.outlier.Sync()
			w.outlier.Observe(l, ServerFault)
			l.Release()
		}
		if got := len(w.outlier.records); got != 0 || w.outlier.suspected.Load() != 0 {
			t.Errorf("%d records, %d suspected; want none", got, w.outlier.suspected.Load())
		}
		w.want("at the end", "stays:1=ready")
	})
}

func TestStopEndsEjections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, "a:1", "b:1")
		w.request("a:1", Refused)
		w.outlier.Stop()
		w.want("after Stop", "a:1=ready b:1=ready")
		w.request("b:1", Refused)
		w.wait(time.Hour)
		w.want("long after Stop", "a:1=ready b:1=ready")
		if diff := cmp.Diff([]string{"a:1 refused"}, w.ejected); diff != "" {
			t.Errorf("ejections (-want +got):\n%s", diff)
		}
	})
}

func TestObserveCostsNothingWhileNothingIsWrong(t *testing.T) {
	w := newWard(t, "a:1")
	l := lease(t, w.fleet, "a:1")
	w.outlier.mu.Lock() // an Observe that needs the lock would hang
	defer w.outlier.mu.Unlock()
	for _, out := range []Outcome{Success, ClientFault, Cancelled, LocalFault, Overloaded} {
		if got := testing.AllocsPerRun(100, func() { w.outlier.Observe(l, out) }); got != 0 {
			t.Errorf("%s: %v allocations, want 0", out, got)
		}
	}
	w.outlier.Answering(l)
	w.outlier.ProbeSucceeded(l.Replica())
	w.outlier.ProbeRefused(l.Replica())
}

// TestObserveAtOnce reports from many goroutines while replicas come and go; the race detector and the end state judge.
func TestObserveAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, "a:1", "b:1", "c:1")
		outcomes := []Outcome{Success, ClientFault, Cancelled, LocalFault, Overloaded, ServerFault, Unreachable, Refused}
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				for i := range 200 {
					l := w.fleet.Acquire(func(v *fleet.View) *fleet.Replica { return v.Eligible[i%len(v.Eligible)] })
					w.outlier.Answering(l)
					w.outlier.Observe(l, outcomes[(i*7+worker)%len(outcomes)])
					l.Release()
					<-time.After(time.Duration(worker) * 100 * time.Millisecond)
				}
			})
		}
		wg.Go(func() {
			for range 50 {
				w.fleet.Apply(targets("a:1", "c:1"))
				w.outlier.Sync()
				<-time.After(time.Second)
				w.fleet.Apply(targets("a:1", "b:1", "c:1"))
				<-time.After(time.Second)
			}
		})
		wg.Wait()
		w.wait(2 * time.Minute)
		for _, r := range w.fleet.View().Replicas {
			w.fleet.SetHealth(r, true)
			w.request(r.ID(), Success)
		}
		w.wait(2 * time.Minute)
		w.want("when all is well again", "a:1=ready b:1=ready c:1=ready")
		if got := w.outlier.suspected.Load(); got != 0 {
			t.Errorf("%d suspected at the end, want 0", got)
		}
		w.outlier.Stop()
	})
}
