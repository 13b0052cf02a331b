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
	if believed, found := r.cachedTokensOf(t, r.first, remembered); believed < 1500 || found < 1500 {
		t.Fatalf("%g tokens believed and %g found in the cache, want nearly all of 1760", believed, found)
	}
	open := r.streams(t, r.first, batch, 4000)
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
	r.becomes(t, r.first, fleet.Unhealthy)
	for _, c := range r.burst(t, 6) {
		if a := c.endsWithin(t, settleLimit, "a request beside a dead engine"); a.status != 200 || a.replica() != r.second.address() {
			t.Errorf("answered by %q with %d: %.300s", a.replica(), a.status, a.body)
		}
	}
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
	for i, want := range []struct{ least, most float64 }{{0, 0}, {1500, 1760}} {
		believed, found := r.cachedTokensOf(t, r.first, remembered)
		if believed < want.least || believed > want.most || found < want.least || found > want.most {
			t.Errorf("request %d after the restart: %g tokens believed and %g found in the cache, want %g to %g", i+1, believed, found, want.least, want.most)
		}
	}
}

// terminated ends an engine in order while it streams and others wait. It closes its port then, and leaves its requests without
// another byte and without an end.
func (r *rig) terminated(t *testing.T) {
	const waiting = 6
	open := r.streams(t, r.second, batch, 4000)
	all := r.only(t, r.second)
	queued := r.burst(t, waiting)
	until(t, settleLimit, "requests wait in the engine", func() bool { return r.second.figure(t, "vllm:num_requests_waiting{") == waiting })
	all()
	r.second.terminate()
	terminated := time.Now()
	refused := r.second.refuses(t)
	for _, c := range queued {
		a := c.endsWithin(t, settleLimit, "a request that waited")
		if a.status != 200 || a.err != nil || a.replica() != r.first.address() {
			t.Errorf("a request that waited: answered by %q with %d %v: %.300s", a.replica(), a.status, a.err, a.body)
		}
	}
	var longest time.Duration
	for _, c := range open {
		a := c.endsWithin(t, settleLimit, "an open stream")
		if a.err == nil || strings.Contains(a.body, "[DONE]") {
			t.Errorf("an open stream looks whole: %v, ends with: %s", a.err, last(a.body))
		}
		longest = max(longest, c.ended.Sub(refused))
	}
	t.Logf("port closed %v after SIGTERM; the last stream was broken off %v after that", refused.Sub(terminated).Round(time.Millisecond), longest.Round(time.Millisecond))
	if longest > 2*time.Second {
		t.Errorf("the last stream was broken off %v after the port refused, want within 2 s", longest)
	}
	r.becomesIdle(t)
}
