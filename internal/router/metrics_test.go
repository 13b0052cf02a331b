package router_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/warmpath/warmpath/internal/fleet"
)

// meter gives an engine a metrics page that a test changes.
func meter(e *engine, page string) (change func(page string)) { return e.serve("/metrics", page) }

// serve gives an engine a page that a test changes.
func (e *engine) serve(path, page string) (change func(page string)) {
	var current atomic.Value
	current.Store(page)
	answer := e.Config.Handler
	e.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == path {
			_, _ = io.WriteString(w, current.Load().(string))
			return
		}
		answer.ServeHTTP(w, r)
	})
	return func(page string) { current.Store(page) }
}

// metered is onePool with engines whose metrics are read often.
func metered(source, keys, strategy string) string {
	return strings.Replace(onePool(source, strategy), "p: {", fmt.Sprintf("p: {%s, ", keys), 1)
}

const readOften = "engine: vllm, metrics: {interval: 100ms, timeout: 30s}"

const loaded = `vllm:num_requests_running 99
vllm:num_requests_waiting 50
vllm:kv_cache_usage_perc 0.99
vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1
`

// TestC058_ALoadThatWasReadDoesNotMislead has one engine report to be overloaded, and waits until that is known.
func TestC058_ALoadThatWasReadDoesNotMislead(t *testing.T) {
	t.Parallel()
	engines := []*engine{newEngine(t), newEngine(t), newEngine(t)}
	meter(engines[0], loaded)
	meter(engines[1], strings.Replace(loaded, "99", "0", 1))
	s := start(t, metered(static(engines...), readOften, leastOutstanding))
	s.ready(t, engines...)
	for _, e := range engines[:2] {
		eventually(t, "its metrics are read", func() bool { return s.status(t, e.address()).Engine.Running.Known })
	}
	s.hold(t, 30)
	for _, e := range engines {
		if st := s.status(t, e.address()); st.InFlight != 10 || st.State != fleet.Ready {
			t.Errorf("%s: got %d in flight, %s; want 10, ready", e.address(), st.InFlight, st.State)
		}
	}
}

func TestMetricsAreReadAsThePoolSays(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	meter(e, loaded)
	s := start(t, metered(static(e), readOften, leastOutstanding))
	size := func() int64 { return s.status(t, e.address()).Engine.CacheTokens }
	eventually(t, "the size of the cache is known", func() bool { return size() == 1600 })
	if got := s.sum(t, "warmpath_engine_cache_tokens{"); got != 1600 {
		t.Errorf("metric: got %g tokens, want 1600", got)
	}

	s.reload(t, metered(static(e), "engine: vllm, metrics: {enabled: false}", leastOutstanding))
	if got := size(); got != 0 {
		t.Errorf("turned off: got %d tokens, want none", got)
	}
	s.reload(t, metered(static(e), "engine: generic, metrics: {path: /metrics, interval: 100ms, timeout: 30s}", leastOutstanding))
	eventually(t, "a path makes a generic engine's be read", func() bool { return size() == 1600 })
	s.reload(t, metered(static(e), "engine: llamacpp, metrics: {interval: 100ms, timeout: 30s}", leastOutstanding))
	eventually(t, "a page without the engine's names is a failure", func() bool { return s.sum(t, "warmpath_engine_scrape_failures_total{") > 0 })
	if got := size(); got != 0 {
		t.Errorf("another engine's page: got %d tokens, want none", got)
	}
}

func TestSleeperGetsNothingUntilItIsAwake(t *testing.T) {
	t.Parallel()
	sleeper, other := newEngine(t), newEngine(t)
	const page = "vllm:num_requests_running 0\nvllm:engine_sleep_state{sleep_state=\"awake\"} %d\n"
	change := meter(sleeper, fmt.Sprintf(page, 0))
	meter(other, fmt.Sprintf(page, 1))
	s := start(t, metered(static(sleeper, other), readOften, leastOutstanding))
	s.becomes(t, sleeper.address(), fleet.Asleep)
	before := sleeper.requests.Load()
	s.mustPost(t, 20)
	if got := sleeper.requests.Load() - before; got != 0 {
		t.Errorf("the sleeper got %d requests, want none", got)
	}
	change(fmt.Sprintf(page, 1))
	s.becomes(t, sleeper.address(), fleet.Ready)
	eventually(t, "it gets a request", func() bool {
		s.mustPost(t, 1)
		return sleeper.requests.Load() > before
	})
}

func TestPausedGetsNothingUntilItIsResumed(t *testing.T) {
	t.Parallel()
	paused, other := newEngine(t), newEngine(t)
	meter(paused, "vllm:num_requests_running 0\n")
	meter(other, "vllm:num_requests_running 0\n")
	change := paused.serve("/is_paused", `{"is_paused":true}`)
	s := start(t, metered(static(paused, other), readOften, leastOutstanding))
	s.becomes(t, paused.address(), fleet.Asleep)
	change(`{"is_paused":false}`)
	s.becomes(t, paused.address(), fleet.Ready)
}

func TestDeadEnginesRequestsGoElsewhere(t *testing.T) {
	t.Parallel()
	dead, other := newEngine(t), newEngine(t)
	answer := dead.Config.Handler
	dead.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, `{"error":{"message":"EngineCore encountered an issue.","code":500}}`)
			return
		}
		answer.ServeHTTP(w, r)
	})
	s := start(t, metered(static(dead, other), readOften, leastOutstanding))
	s.ready(t, dead, other)
	s.mustPost(t, 20)
	if s.sum(t, "warmpath_retries_total{") == 0 {
		t.Error("no request met the dead engine")
	}
}
