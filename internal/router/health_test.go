package router_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/fleet"
)

func TestC061_AReplicaThatWasDownForLongIsInUseWhenItReturns(t *testing.T) {
	t.Parallel()
	gone, other := newEngine(t), newEngine(t)
	s := start(t, onePool(static(gone, other), "RANDOM"))
	address := gone.address()
	gone.kill()
	s.becomes(t, address, fleet.Unhealthy)
	answered := other.probes.Load()
	eventually(t, "every threshold has passed several times over", func() bool { return other.probes.Load() >= answered+8 })
	s.mustPost(t, 20)

	back := newEngineAt(t, address)
	eventually(t, "the returned replica gets a request", func() bool {
		s.mustPost(t, 1)
		return back.requests.Load() > 0
	})
}

func TestC062_NoRequestBeforeTheFirstGoodProbe(t *testing.T) {
	t.Parallel()
	ready, loading := newEngine(t), newEngine(t)
	loading.sick.Store(true) // it accepts connections and would answer requests
	s := start(t, onePool(static(ready, loading), "RANDOM"))
	eventually(t, "the loading replica has been probed", func() bool { return loading.probes.Load() >= 3 })
	s.mustPost(t, 50)
	if n := loading.requests.Load(); n != 0 {
		t.Errorf("the loading replica got %d requests, want none", n)
	}
	loading.sick.Store(false)
	s.becomes(t, loading.address(), fleet.Ready)
	eventually(t, "the loaded replica gets a request", func() bool {
		s.mustPost(t, 1)
		return loading.requests.Load() > 0
	})
}

func TestC062_ANewReplicaFromAReloadWaitsForItsProbe(t *testing.T) {
	t.Parallel()
	ready, loading := newEngine(t), newEngine(t)
	loading.sick.Store(true)
	s := start(t, onePool(static(ready), leastOutstanding))
	s.reload(t, onePool(static(ready, loading), leastOutstanding))
	s.mustPost(t, 50)
	if n := loading.requests.Load(); n != 0 {
		t.Errorf("the loading replica got %d requests, want none", n)
	}
}

func TestC062_TheHealthPathIsTheEnginesUnlessSet(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, keys, want string
	}{
		{"the engine's own", "engine: vllm, metrics: {enabled: false}", "/health"},
		{"set", "engine: vllm, metrics: {enabled: false}, health: {path: /ready, interval: 100ms}", "/ready"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := make(chan string, 1<<10)
			e := newEngine(t)
			e.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path })
			start(t, fmt.Sprintf("pools: {p: {%s, %s}}\nendpoints: {e: {variants: [{pool: p}]}}\n", static(e), tt.keys))
			if got := <-asked; got != tt.want {
				t.Errorf("probed %s, want %s", got, tt.want)
			}
		})
	}
}

func TestC105_RequestsMoveWhenTheirReplicaIsRemoved(t *testing.T) {
	t.Parallel()
	frozen, other := newEngine(t), newEngine(t)
	frozen.silent.Store(true)
	s := start(t, onePool(static(frozen), leastOutstanding))

	const waiting = 10
	answers := make(chan string, waiting)
	for range waiting {
		go func() {
			resp, err := s.client.Post(s.data.URL+"/v1/chat/completions", "application/json", strings.NewReader(chatBody))
			if err != nil {
				answers <- err.Error()
				return
			}
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body)
			answers <- resp.Status + " from " + resp.Header.Get("X-Warmpath-Replica")
		}()
	}
	eventually(t, "all wait on the frozen replica", func() bool { return frozen.requests.Load() == waiting })
	stream := s.open(t)

	s.reload(t, onePool(static(frozen, other), leastOutstanding))
	s.becomes(t, other.address(), fleet.Ready)
	s.reload(t, onePool(static(other), leastOutstanding))
	for range waiting {
		if got, want := <-answers, "200 OK from "+other.address(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	close(frozen.goOn)
	if text, err := stream(); err != nil || !strings.HasSuffix(text, "[DONE]\n\n") {
		t.Errorf("the stream that had begun was cut: %q, %v", text, err)
	}
	eventually(t, "nothing is in flight", func() bool { return s.sum(t, "warmpath_in_flight{") == 0 })
}

func TestC096_OnePortIsOneReplica(t *testing.T) {
	t.Parallel()
	engines := []*engine{newEngine(t), newEngine(t), newEngine(t), newEngine(t)}
	s := start(t, onePool(static(engines...), leastOutstanding))
	s.ready(t, engines...)
	var streams []func() (string, error)
	for range 8 {
		streams = append(streams, s.open(t))
	}
	for _, e := range engines {
		if st := s.status(t, e.address()); st.InFlight != 2 || st.State != fleet.Ready {
			t.Errorf("%s: got %d in flight, %s; want 2, ready", e.address(), st.InFlight, st.State)
		}
	}
	engines[0].sick.Store(true)
	s.becomes(t, engines[0].address(), fleet.Unhealthy)
	s.reload(t, onePool(static(engines[1:]...), leastOutstanding))
	for _, e := range engines[1:] {
		if st := s.status(t, e.address()); st.InFlight != 2 || st.State != fleet.Ready {
			t.Errorf("after another port went, %s: got %d in flight, %s; want 2, ready", e.address(), st.InFlight, st.State)
		}
	}
	for _, e := range engines {
		close(e.goOn)
	}
	for _, read := range streams {
		if text, err := read(); err != nil || !strings.HasSuffix(text, "[DONE]\n\n") {
			t.Errorf("stream: %q, %v", text, err)
		}
	}
}

func TestProbesCarryThePoolsKey(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	text := func(key string) string {
		return fmt.Sprintf("pools: {p: {%s, api_key: %s, %s}}\nendpoints: {e: {variants: [{pool: p}]}}\n", static(e), key, quick)
	}
	s := start(t, text("first"))
	s.mustPost(t, 1)
	for _, key := range e.keysSeen() {
		if !strings.HasSuffix(key, " Bearer first") {
			t.Errorf("got %q, want the pool's key", key)
		}
	}
	s.reload(t, text("second"))
	s.mustPost(t, 1)
	if !slices.Contains(e.keysSeen(), "POST Bearer second") {
		t.Errorf("after the reload: got %q, want a request with the new key", e.keysSeen())
	}
	eventually(t, "probes carry the new key", func() bool { // one with the old key may be on its way still
		keys := e.keysSeen()
		last := keys[max(0, len(keys)-4):]
		return !slices.ContainsFunc(last, func(key string) bool { return key != "GET Bearer second" })
	})
}
