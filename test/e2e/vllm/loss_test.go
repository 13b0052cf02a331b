//go:build e2evllm

package vllm

import (
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

// remembered is a prompt that the first engine has in its cache when it dies.
var remembered = completion(strings.Repeat(passage, 5), 4)

// cachedTokensOf asks one engine, by way of KV_AWARE, and tells how much of the prompt was believed to be cached there, and was.
func (r *rig) cachedTokensOf(t *testing.T, e *engine, body string) (believed, found float64) {
	t.Helper()
	defer r.only(t, e)()
	believed = r.believed(t, e, body)
	before := r.sum(t, "warmpath_cached_prompt_tokens_total{", e.address())
	requests := r.sum(t, "warmpath_requests_total{", e.address())
	if a := post(t, r.url+"/v1/completions", body); a.status != 200 || a.replica() != e.address() {
		t.Fatalf("answered by %q with %d: %s", a.replica(), a.status, a.body)
	}
	until(t, settleLimit, "it is counted", func() bool { return r.sum(t, "warmpath_requests_total{", e.address()) > requests })
	return believed, r.sum(t, "warmpath_cached_prompt_tokens_total{", e.address()) - before
}

// killedCore kills the part of an engine that computes. What its API server then sends is passed on as it is, and held against it.
func (r *rig) killedCore(t *testing.T) {
	r.cachedTokensOf(t, r.first, remembered)
	if believed, found := r.cachedTokensOf(t, r.first, remembered); believed < 1000 || found < 1000 {
		t.Fatalf("%g tokens believed and %g found in the cache, want nearly all of 1760", believed, found)
	}
	open := r.streams(t, r.first, batch, 4000)
	queued := r.queued(t, r.first, 4)
	broken := r.sum(t, "warmpath_mid_stream_errors_total{", r.first.address())
	r.first.killCore(t)
	for _, c := range open {
		a := c.endsWithin(t, settleLimit, "a stream of a killed engine core")
		if a.status != 200 || a.err != nil || !strings.Contains(a.body, `data: {"error":`) || !strings.HasSuffix(a.body, "data: [DONE]\n\n") {
			t.Errorf("%d, %v, ends with: %s", a.status, a.err, last(a.body))
		}
	}
	until(t, settleLimit, "each stream counts as broken", func() bool {
		return r.sum(t, "warmpath_mid_stream_errors_total{", r.first.address())-broken == batch
	})
	r.answered(t, r.second, queued, "a request that waited")
	r.becomes(t, r.first, fleet.Unhealthy)
	r.answered(t, r.second, r.burst(t, 4), "a request beside a dead engine")
}

// restarted starts the killed engine again under its address. Its cache is empty, and known to be.
func (r *rig) restarted(t *testing.T) {
	r.first.stop()
	r.first.start(r.whole)
	r.first.loaded(t)
	answered := time.Now()
	r.becomes(t, r.first, fleet.Ready)
	if took := time.Since(answered); took > 4*time.Second { // a probe a second, and what a busy machine adds
		t.Errorf("in rotation %v after it answered, want within about 1 s", took)
	}
	if believed, found := r.cachedTokensOf(t, r.first, remembered); believed != 0 || found != 0 {
		t.Errorf("after the restart %g tokens are believed and %g found in the cache, want none", believed, found)
	}
	if believed, found := r.cachedTokensOf(t, r.first, remembered); believed < 1000 || found < 1000 {
		t.Errorf("then %g tokens are believed and %g found in the cache, want nearly all of 1760", believed, found)
	}
}

// queued sends so many short requests that must wait in an engine whose batch is full.
func (r *rig) queued(t *testing.T, e *engine, n int) []*call {
	t.Helper()
	defer r.only(t, e)()
	all := r.burst(t, n)
	until(t, settleLimit, "requests wait in the engine", func() bool { return e.figure(t, "vllm:num_requests_waiting{") == float64(n) })
	return all
}

// answered waits for requests to be answered by an engine.
func (r *rig) answered(t *testing.T, by *engine, all []*call, what string) {
	t.Helper()
	for _, c := range all {
		if a := c.endsWithin(t, settleLimit, what); a.status != 200 || a.err != nil || a.replica() != by.address() {
			t.Errorf("%s: answered by %q with %d %v: %.300s", what, a.replica(), a.status, a.err, a.body)
		}
	}
}

// terminated ends an engine in order while it streams and others wait. What comes of them is chance: it ends them as aborted, or says that
// its core is dead, or nothing more and does not end them either, for as long as they wait.
func (r *rig) terminated(t *testing.T) {
	open := r.streams(t, r.second, batch, 4000)
	queued := r.queued(t, r.second, 4)
	r.second.terminate()
	terminated := time.Now()
	refused := r.second.refuses(t)
	r.answered(t, r.first, queued, "a request that waited")
	var longest time.Duration
	ends := map[string]int{}
	for _, c := range open {
		a := c.endsWithin(t, settleLimit, "an open stream")
		switch {
		case a.err != nil:
			ends["hung"]++
		case strings.Contains(a.body, `data: {"error":`):
			ends["dead"]++
		case strings.Contains(a.body, `"finish_reason":"abort"`):
			ends["aborted"]++
		default:
			t.Errorf("an open stream looks whole, ends with: %s", last(a.body))
		}
		longest = max(longest, c.ended.Sub(refused))
	}
	t.Logf("port closed %v after SIGTERM; streams: %v; the last ended %v after the port closed",
		refused.Sub(terminated).Round(time.Millisecond), ends, longest.Round(time.Millisecond))
	if longest > 2*time.Second {
		t.Errorf("the last stream was broken off %v after the port refused, want within 2 s", longest)
	}
	r.becomesIdle(t)
}
