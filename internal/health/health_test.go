package health

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/fleet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engines is the network of a test: what each host answers a probe. It is a RoundTripper.
type engines struct {
	mu      sync.Mutex
	answer  map[string]answer // by host:port, and pausedPath behind it
	probes  map[string][]time.Time
	running map[string]int
	overlap bool
}

// answer is how an engine treats a probe or a reading of its metrics: after a while it gives a status and a body, or an error.
type answer struct {
	after  time.Duration
	status int
	err    error
	body   string
}

// pausedPath is where engines say whether they are paused.
const pausedPath = "/is_paused"

var (
	passes  = answer{status: 200}
	loading = answer{status: 503}
	refuses = answer{err: dialError(syscall.ECONNREFUSED)}
	hangs   = answer{after: 100 * time.Hour}
)

func newEngines() *engines {
	return &engines{answer: map[string]answer{}, probes: map[string][]time.Time{}, running: map[string]int{}}
}

func (e *engines) set(host string, a answer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer[host] = a
}

// probed lists when the host has been probed since the last call.
func (e *engines) probed(host string) []time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	times := e.probes[host]
	e.probes[host] = nil
	return times
}

func (e *engines) RoundTrip(req *http.Request) (*http.Response, error) {
	host := req.URL.Host
	if req.URL.Path == pausedPath {
		host += pausedPath
	}
	a := e.begin(host)
	defer e.end(host)
	sleep(req.Context(), a.after)
	switch {
	case req.Context().Err() != nil:
		return nil, req.Context().Err()
	case a.err != nil:
		return nil, a.err
	}
	body := io.NopCloser(strings.NewReader(a.body))
	return &http.Response{StatusCode: a.status, Status: fmt.Sprint(a.status), Body: body, Request: req}, nil
}

func (e *engines) begin(host string) answer {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.probes[host] = append(e.probes[host], time.Now())
	e.running[host]++
	e.overlap = e.overlap || e.running[host] > 1
	return e.answer[host]
}

func (e *engines) end(host string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running[host]--
}

// targets are replicas on those hosts.
func targets(hosts ...string) []fleet.Target {
	out := make([]fleet.Target, len(hosts))
	for i, h := range hosts {
		out[i] = fleet.Target{URL: "http://" + h}
	}
	return out
}

// states is the state of every replica, in order, as "a:1=ready b:1=ejected".
func states(f *fleet.Fleet) string {
	var words []string
	for _, s := range f.Statuses() {
		words = append(words, s.Replica+"="+string(s.State))
	}
	return strings.Join(words, " ")
}

func wantStates(t *testing.T, f *fleet.Fleet, when, want string) {
	t.Helper()
	if got := states(f); got != want {
		t.Errorf("%s: %s, want %s", when, got, want)
	}
}

// lease sends a request to that host, whatever its state.
func lease(t *testing.T, f *fleet.Fleet, host string) *fleet.Lease {
	t.Helper()
	l := f.Acquire(func(v *fleet.View) *fleet.Replica {
		for _, r := range v.Replicas {
			if r.ID() == host {
				return r
			}
		}
		return nil
	})
	if l == nil {
		t.Fatalf("no replica %s", host)
	}
	return l
}

// half is the random number of tests: neither early nor late.
func half() float64 { return 0.5 }
