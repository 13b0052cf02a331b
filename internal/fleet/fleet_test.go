package fleet

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// apply is Apply of URLs that must all be good.
func apply(t *testing.T, f *Fleet, urls ...string) {
	t.Helper()
	targets := make([]Target, len(urls))
	for i, u := range urls {
		targets[i] = Target{URL: u}
	}
	if errs := f.Apply(targets); errs != nil {
		t.Fatalf("Apply(%v): %v", urls, errs)
	}
}

// ready is a fleet of those replicas, all in rotation and warm.
func ready(t *testing.T, urls ...string) *Fleet {
	t.Helper()
	f := New(Options{})
	apply(t, f, urls...)
	for _, r := range f.View().Replicas {
		f.SetHealth(r, true)
	}
	return f
}

func ids(replicas []*Replica) []string {
	out := []string{}
	for _, r := range replicas {
		out = append(out, r.ID())
	}
	return out
}

func find(t *testing.T, f *Fleet, id string) *Replica {
	t.Helper()
	i := slices.IndexFunc(f.View().Replicas, func(r *Replica) bool { return r.ID() == id })
	if i < 0 {
		t.Fatalf("no replica %s in %v", id, ids(f.View().Replicas))
	}
	return f.View().Replicas[i]
}

// take acquires that very replica.
func take(f *Fleet, r *Replica) *Lease {
	return f.Acquire(func(*View) *Replica { return r })
}

func states(f *Fleet) map[string]State {
	out := map[string]State{}
	for _, s := range f.Statuses() {
		out[s.Replica] = s.State
	}
	return out
}

func TestIdentity(t *testing.T) {
	tests := []struct{ name, url, want string }{
		{"plain", "http://10.0.0.1:8000", "10.0.0.1:8000"},
		{"default port", "http://engine", "engine:80"},
		{"default port of https", "https://engine/", "engine:443"},
		{"upper case", "HTTP://Engine.Internal:8000", "engine.internal:8000"},
		{"base path", "http://engine:8000/v/a/", "engine:8000/v/a"},
		{"IPv6", "http://[::1]:8000", "[::1]:8000"},
		{"IPv6 written long", "http://[0:0:0:0:0:0:0:1]:8000", "[::1]:8000"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := New(Options{})
			apply(t, f, tt.url)
			if diff := cmp.Diff([]string{tt.want}, ids(f.View().Replicas)); diff != "" {
				t.Errorf("identity of %s (-want +got):\n%s", tt.url, diff)
			}
			if u := f.View().Replicas[0].URL(); u.Scheme != "http" && u.Scheme != "https" {
				t.Errorf("base URL: got %s", u)
			}
		})
	}
}

func TestApplyReportsBadURLsAndUsesTheRest(t *testing.T) {
	f := New(Options{})
	bad := []string{"", "engine:8000", "ftp://engine", "http://", "http://:8000", "http://a b", "http://engine:port"}
	targets := []Target{{URL: "http://good:1"}}
	for _, u := range bad {
		targets = append(targets, Target{URL: u})
	}
	if errs := f.Apply(targets); len(errs) != len(bad) {
		t.Errorf("got %d errors for %d bad URLs: %v", len(errs), len(bad), errs)
	}
	if diff := cmp.Diff([]string{"good:1"}, ids(f.View().Replicas)); diff != "" {
		t.Errorf("replicas (-want +got):\n%s", diff)
	}
}

// TestC008_RecreatedReplicaStartsAtZero removes a replica with requests in flight and adds it again under its name.
func TestC008_RecreatedReplicaStartsAtZero(t *testing.T) {
	f := ready(t, "http://r1:1", "http://r2:1")
	old := find(t, f, "r1:1")
	var leases []*Lease
	for range 10 {
		leases = append(leases, take(f, old))
	}
	apply(t, f, "http://r2:1")
	apply(t, f, "http://r1:1", "http://r2:1")
	fresh := find(t, f, "r1:1")
	if fresh == old {
		t.Fatal("a replica that was removed and added again is the same object")
	}
	f.SetHealth(fresh, true)
	last := take(f, fresh)
	for i, l := range leases {
		l.Release()
		if got := fresh.InFlight(); got != 1 {
			t.Fatalf("after %d releases of the old replica's requests: new replica has %d in flight, want 1", i+1, got)
		}
	}
	if got := old.InFlight(); got != 0 {
		t.Errorf("old replica: %d in flight, want 0", got)
	}
	if got := len(f.Statuses()); got != 2 {
		t.Errorf("%d replicas listed after the old one's last request, want 2", got)
	}
	last.Release()
	if got := fresh.InFlight(); got != 0 {
		t.Errorf("new replica: %d in flight, want 0", got)
	}
}

// TestC096_PortsAreIdentities keeps the engines of one host apart.
func TestC096_PortsAreIdentities(t *testing.T) {
	urls := []string{"http://pod:8000", "http://pod:8001", "http://pod:8002", "http://pod:8003"}
	f := ready(t, urls...)
	hashes := map[uint64]bool{}
	for _, r := range f.View().Replicas {
		hashes[r.Hash()] = true
		defer take(f, r).Release()
	}
	if len(hashes) != 4 {
		t.Errorf("%d hashes for four ports", len(hashes))
	}
	before := f.View().Replicas
	f.SetHealth(before[1], false)
	apply(t, f, urls[0], urls[1], urls[3])
	want := map[string]State{"pod:8000": Ready, "pod:8001": Unhealthy, "pod:8002": Draining, "pod:8003": Ready}
	if diff := cmp.Diff(want, states(f)); diff != "" {
		t.Errorf("states after removing one port (-want +got):\n%s", diff)
	}
	kept := []*Replica{before[0], before[1], before[3]}
	if !slices.Equal(kept, f.View().Replicas) {
		t.Errorf("removing one port changed the others' objects: %v", ids(f.View().Replicas))
	}
	for _, r := range kept {
		if r.InFlight() != 1 {
			t.Errorf("%s: %d in flight, want 1", r.ID(), r.InFlight())
		}
	}
}

func TestApplyKeepsObjectsAndOrder(t *testing.T) {
	f := ready(t, "http://c:1", "http://a:1", "http://b:1")
	before := f.View().Replicas
	if diff := cmp.Diff([]string{"a:1", "b:1", "c:1"}, ids(before)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	apply(t, f, "http://B:1/", "http://a:1", "http://c:1")
	if !slices.Equal(before, f.View().Replicas) {
		t.Error("the same set, written differently, made new objects")
	}
	apply(t, f, "https://a:1", "http://b:1", "http://c:1")
	if f.View().Replicas[0] == before[0] || !before[0].Removed() {
		t.Error("a replica that moved to https kept its object")
	}
}

func TestTwinsDrainOnlyTogether(t *testing.T) {
	tests := []struct {
		name  string
		twins []Target
		want  State
	}{
		{"both in use", []Target{{URL: "http://a:1"}, {URL: "http://a:1/"}}, Ready},
		{"first drains", []Target{{URL: "http://a:1", Draining: true}, {URL: "http://A:1"}}, Ready},
		{"second drains", []Target{{URL: "http://a:1"}, {URL: "http://a:1", Draining: true}}, Ready},
		{"both drain", []Target{{URL: "http://a:1", Draining: true}, {URL: "http://a:1", Draining: true}}, Draining},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := New(Options{})
			f.Apply(tt.twins)
			f.SetHealth(f.View().Replicas[0], true)
			if diff := cmp.Diff(map[string]State{"a:1": tt.want}, states(f)); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStates(t *testing.T) {
	f := ready(t, "http://a:1", "http://b:1")
	a := find(t, f, "a:1")
	steps := []struct {
		name     string
		do       func()
		want     State
		eligible []string
	}{
		{"healthy", func() {}, Ready, []string{"a:1", "b:1"}},
		{"probe fails", func() { f.SetHealth(a, false) }, Unhealthy, []string{"b:1"}},
		{"and is ejected", func() { f.Eject(a) }, Unhealthy, []string{"b:1"}},
		{"probe passes", func() { f.SetHealth(a, true) }, Ejected, []string{"b:1"}},
		{"back-off over", func() { f.HalfOpen(a) }, HalfOpen, []string{"a:1", "b:1"}},
		{"drained by hand", func() { f.Drain("a:1", true) }, Draining, []string{"b:1"}},
		{"undrained", func() { f.Drain("a:1", false) }, HalfOpen, []string{"a:1", "b:1"}},
		{"restored", func() { f.Restore(a) }, Ready, []string{"a:1", "b:1"}},
		{"half-open is for the ejected", func() { f.HalfOpen(a) }, Ready, []string{"a:1", "b:1"}},
	}
	for _, s := range steps {
		s.do()
		if got := states(f)["a:1"]; got != s.want {
			t.Errorf("%s: state %s, want %s", s.name, got, s.want)
		}
		if diff := cmp.Diff(s.eligible, ids(f.View().Eligible)); diff != "" {
			t.Errorf("%s: eligible (-want +got):\n%s", s.name, diff)
		}
	}
	if f.Drain("nobody:1", true) {
		t.Error("Drain of an unknown replica reports success")
	}
}

func TestDrainByHandOutlastsItsSource(t *testing.T) {
	f := ready(t, "http://a:1")
	steps := []struct {
		name string
		do   func()
		want State
	}{
		{"drained by hand", func() { f.Drain("a:1", true) }, Draining},
		{"its source looks again", func() { apply(t, f, "http://a:1", "http://b:1") }, Draining},
		{"used again", func() { f.Drain("a:1", false) }, Ready},
		{"its source drains it", func() { f.Apply([]Target{{URL: "http://a:1", Draining: true}}) }, Draining},
		{"used again all the same", func() { f.Drain("a:1", false) }, Ready},
		{"its source says so again", func() { f.Apply([]Target{{URL: "http://a:1", Draining: true}}) }, Draining},
		{"its source has changed its mind", func() { apply(t, f, "http://a:1") }, Ready},
	}
	for _, s := range steps {
		s.do()
		if got := states(f)["a:1"]; got != s.want {
			t.Errorf("%s: state %s, want %s", s.name, got, s.want)
		}
	}
}

func TestNothingReadyStillTries(t *testing.T) {
	f := New(Options{})
	if v := f.View(); len(v.Eligible) != 0 || !v.Degraded {
		t.Errorf("empty fleet: eligible %v, degraded %v", ids(v.Eligible), v.Degraded)
	}
	apply(t, f, "http://a:1", "http://b:1", "http://c:1")
	f.SetHealth(find(t, f, "a:1"), false)
	f.Drain("c:1", true)
	if v := f.View(); !v.Degraded || !slices.Equal(ids(v.Eligible), []string{"a:1", "b:1"}) {
		t.Errorf("none ready: eligible %v, degraded %v; want those not draining", ids(v.Eligible), v.Degraded)
	}
	f.Drain("a:1", true)
	f.Drain("b:1", true)
	if v := f.View(); !v.Degraded || len(v.Eligible) != 3 {
		t.Errorf("all draining: eligible %v, degraded %v; want all", ids(v.Eligible), v.Degraded)
	}
}

func TestRemovedReplicaIsListedUntilItsLastRequestEnds(t *testing.T) {
	f := ready(t, "http://a:1", "http://b:1")
	a := find(t, f, "a:1")
	lease, lost := take(f, a), a.Lost()
	apply(t, f, "http://b:1")
	if lost.Err() == nil {
		t.Error("requests of a removed replica are not told")
	}
	got := f.Statuses()
	want := []Status{
		{Replica: "b:1", URL: "http://b:1", State: Ready},
		{Replica: "a:1", URL: "http://a:1", State: Draining, InFlight: 1, Requests: 1, Removed: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	lease.Release()
	if diff := cmp.Diff(want[:1], f.Statuses()); diff != "" {
		t.Errorf("statuses after the last request (-want +got):\n%s", diff)
	}
}

func TestLeaseIsReleasedOnce(t *testing.T) {
	f := ready(t, "http://a:1")
	a := find(t, f, "a:1")
	first, second := take(f, a), take(f, a)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(first.Release)
	}
	wg.Wait()
	if got := a.InFlight(); got != 1 {
		t.Errorf("one of two leases released many times: %d in flight, want 1", got)
	}
	second.Release()
	if a.InFlight() != 0 || a.Requests() != 2 {
		t.Errorf("in flight %d, requests %d; want 0, 2", a.InFlight(), a.Requests())
	}
}

func TestAcquireOfNone(t *testing.T) {
	if l := New(Options{}).Acquire(func(*View) *Replica { return nil }); l != nil {
		t.Errorf("lease %v for no replica", l)
	}
}

func TestBurstSeesItself(t *testing.T) {
	f := ready(t, "http://a:1", "http://b:1", "http://c:1", "http://d:1")
	idlest := func(v *View) *Replica {
		return slices.MinFunc(v.Eligible, func(a, b *Replica) int { return int(a.InFlight() - b.InFlight()) })
	}
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { f.Acquire(idlest) })
	}
	wg.Wait()
	for _, r := range f.View().Replicas {
		if got := r.InFlight(); got != 25 {
			t.Errorf("%s: %d of 100 requests, want 25", r.ID(), got)
		}
	}
}

func TestHalfOpenAdmitsOneTrial(t *testing.T) {
	f := ready(t, "http://a:1", "http://b:1")
	a := find(t, f, "a:1")
	f.Eject(a)
	f.HalfOpen(a)
	prefersA := func(v *View) *Replica { return v.Eligible[0] }
	trials := make(chan *Lease, 50)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if l := f.Acquire(prefersA); l.Replica() == a {
				trials <- l
			}
		})
	}
	wg.Wait()
	close(trials)
	if len(trials) != 1 {
		t.Fatalf("%d requests reached a half-open replica, want 1", len(trials))
	}
	if l := <-trials; !l.Trial() {
		t.Error("the request that reached it is not the trial")
	}
	if got := states(f)["a:1"]; got != Ejected {
		t.Errorf("state during the trial: %s, want %s", got, Ejected)
	}
}

func TestTrialEndsWithItsRequestOrItsVerdict(t *testing.T) {
	f := ready(t, "http://a:1", "http://b:1")
	a := find(t, f, "a:1")
	f.Eject(a)
	f.HalfOpen(a)

	first := take(f, a)
	first.Release()
	if got := states(f)["a:1"]; got != HalfOpen {
		t.Fatalf("after a trial without a verdict: %s, want %s", got, HalfOpen)
	}
	if !first.Trial() {
		t.Error("a verdict right after the release no longer counts")
	}
	second := take(f, a)
	if first.Trial() || !second.Trial() {
		t.Errorf("with a new trial: first %v, second %v; want false, true", first.Trial(), second.Trial())
	}
	f.Restore(a)
	if second.Trial() {
		t.Error("the trial outlives its verdict")
	}
	second.Release()
	if got := states(f)["a:1"]; got != Ready {
		t.Errorf("after the verdict: %s, want %s", got, Ready)
	}
}

func TestLost(t *testing.T) {
	f := ready(t, "http://a:1")
	a := find(t, f, "a:1")
	before := a.Lost()
	a.MarkLost()
	if before.Err() == nil {
		t.Error("requests that wait on a lost replica are not told")
	}
	if a.Lost().Err() != nil {
		t.Error("a replica that was lost once is lost for good")
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(a.MarkLost)
	}
	wg.Wait()
	if a.Lost().Err() != nil {
		t.Error("marked lost by several at once, the replica stays lost")
	}
}

func TestSlowStart(t *testing.T) {
	const window = 10 * time.Second
	now := time.Unix(1_000_000, 0)
	f := New(Options{SlowStart: window, Now: func() time.Time { return now }})
	warmth := func(id string) float64 { return find(t, f, id).Warmth(now, f.View().SlowStart) }

	apply(t, f, "http://a:1", "http://b:1", "http://c:1")
	for _, r := range f.View().Replicas {
		f.SetHealth(r, true)
		now = now.Add(time.Second)
	}
	for _, id := range []string{"a:1", "b:1", "c:1"} {
		if got := warmth(id); got != 1 {
			t.Errorf("a fleet that starts as a whole: warmth of %s %v, want 1", id, got)
		}
	}

	now = now.Add(time.Minute)
	apply(t, f, "http://a:1", "http://b:1", "http://c:1", "http://d:1")
	f.SetHealth(find(t, f, "d:1"), true)
	f.Eject(find(t, f, "a:1"))
	f.Restore(find(t, f, "a:1"))
	for _, tt := range []struct {
		after time.Duration
		want  float64
	}{{0, 0.1}, {500 * time.Millisecond, 0.1}, {5 * time.Second, 0.5}, {window, 1}, {time.Hour, 1}} {
		at := now.Add(tt.after)
		for _, id := range []string{"a:1", "d:1"} {
			if got := find(t, f, id).Warmth(at, window); got != tt.want {
				t.Errorf("warmth of %s after %v: %v, want %v", id, tt.after, got, tt.want)
			}
		}
		if got := find(t, f, "b:1").Warmth(at, window); got != 1 {
			t.Errorf("warmth of a replica that was there all the time: %v, want 1", got)
		}
	}
	f.SetSlowStart(0)
	if got := warmth("d:1"); got != 1 {
		t.Errorf("warmth without slow start: %v, want 1", got)
	}
}

// TestChurn changes everything at once under the race detector: nothing is counted below zero and nothing is left over.
func TestChurn(t *testing.T) {
	f := New(Options{SlowStart: time.Second})
	urls := make([]string, 6)
	for i := range urls {
		urls[i] = fmt.Sprintf("http://r%d:1", i)
	}
	var wg sync.WaitGroup
	for worker := range uint64(8) {
		wg.Go(func() { churn(f, urls, rand.New(rand.NewPCG(worker, 1))) })
	}
	wg.Wait()
	for _, s := range f.Statuses() {
		if s.InFlight != 0 || s.Removed {
			t.Errorf("left over: %+v", s)
		}
	}
}

func churn(f *Fleet, urls []string, random *rand.Rand) {
	for range 300 {
		switch random.IntN(4) {
		case 0:
			var targets []Target
			for _, u := range urls {
				if random.IntN(2) == 0 {
					targets = append(targets, Target{URL: u, Draining: random.IntN(4) == 0})
				}
			}
			f.Apply(targets)
		case 1:
			shake(f, random)
		default:
			l := f.Acquire(func(v *View) *Replica { return anyOf(v.Eligible, random) })
			f.Statuses()
			if l != nil {
				l.Release()
			}
		}
	}
}

// shake does one thing to the condition of one replica.
func shake(f *Fleet, random *rand.Rand) {
	r := anyOf(f.View().Replicas, random)
	if r == nil {
		return
	}
	acts := []func(){
		func() { f.SetHealth(r, random.IntN(2) == 0) },
		func() { f.Eject(r) },
		func() { f.HalfOpen(r) },
		func() { f.Restore(r) },
		func() { f.Drain(r.ID(), random.IntN(2) == 0) },
		r.MarkLost,
	}
	acts[random.IntN(len(acts))]()
}

func anyOf(replicas []*Replica, random *rand.Rand) *Replica {
	if len(replicas) == 0 {
		return nil
	}
	return replicas[random.IntN(len(replicas))]
}

func FuzzNewReplica(f *testing.F) {
	for _, seed := range []string{
		"http://10.0.0.1:8000", "https://engine", "http://[::1]:8000/v1/", "http://[fe80::1%25eth0]:1", "HTTP://A:080", "http://:80", "ftp://a", "http://a/%2F", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		r, err := newReplica(raw)
		if err != nil {
			return
		}
		if r.ID() == "" || r.URL().Hostname() == "" || r.URL().Port() == "" {
			t.Fatalf("newReplica(%q): identity %q, URL %s", raw, r.ID(), r.URL())
		}
		if _, err := url.Parse(r.URL().String()); err != nil {
			t.Fatalf("newReplica(%q) made a URL that does not parse: %v", raw, err)
		}
		again, err := newReplica(r.URL().String())
		if err != nil || again.ID() != r.ID() {
			t.Fatalf("newReplica(%q) is %q; read back it is %v, %v", raw, r.ID(), again, err)
		}
	})
}

func TestOnlyOneOfAView(t *testing.T) {
	f := New(Options{})
	f.Apply([]Target{{URL: "http://a:1"}, {URL: "http://b:1"}, {URL: "http://c:1", Draining: true}, {URL: "http://d:1"}})
	all := f.View().Replicas
	for _, r := range all[:3] {
		f.SetHealth(r, true)
	}
	for i, want := range []bool{true, true, true, false} { // ready, ready, draining, starting
		narrow := f.View().Only(all[i])
		if got := len(narrow.Eligible) == 1 && narrow.Eligible[0] == all[i]; got != want || len(narrow.Eligible) > 1 || len(narrow.Replicas) != 4 {
			t.Errorf("%s: eligible %v, want %t", all[i].ID(), narrow.Eligible, want)
		}
	}
	f.Apply([]Target{{URL: "http://b:1"}, {URL: "http://d:1"}})
	if narrow := f.View().Only(all[0]); len(narrow.Eligible) != 0 {
		t.Error("a removed replica is eligible")
	}
	f.SetHealth(all[1], false)
	if narrow := f.View().Only(all[1]); !narrow.Degraded || len(narrow.Eligible) != 1 {
		t.Error("where nothing is ready, the session's replica is not tried")
	}
}
