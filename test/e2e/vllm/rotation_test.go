//go:build e2evllm

package vllm

import (
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

// sleepers takes an engine out that passes its probes and answers nothing. The requests that it got before that was seen go elsewhere.
func (r *rig) sleepers(t *testing.T) {
	for _, way := range []struct{ name, down, up string }{
		{"asleep", "/sleep?level=1", "/wake_up"},
		{"paused", "/pause", "/resume"},
		{"paused, and keeps its requests", "/pause?mode=keep", "/resume"},
	} {
		t.Run(way.name, func(t *testing.T) {
			r.first.control(t, way.down)
			early := r.burst(t, 4)
			r.becomes(t, r.first, fleet.Asleep)
			late := r.burst(t, 4)
			r.answered(t, r.second, append(early, late...), "a request beside an engine that is "+way.name)
			if code := get(t, r.first.url()+"/health").status; code != 200 {
				t.Errorf("the engine's health is %d: it can be seen by that now", code)
			}
			for _, c := range late {
				if c.decision() == "retry" {
					t.Error("a request was sent to the engine after it was known")
				}
			}
			r.first.control(t, way.up)
			r.becomes(t, r.first, fleet.Ready)
			r.servedBy(t, r.first)
		})
	}
}

// burst sends so many short requests at once, spread over the engines.
func (r *rig) burst(t *testing.T, n int) []*call {
	t.Helper()
	all := make([]*call, n)
	for i := range all {
		all[i] = begin(t, "POST", r.url+balanced+"/v1/completions", completion("short", 4))
	}
	return all
}

// servedBy waits until an engine answers what is sent to the pool.
func (r *rig) servedBy(t *testing.T, e *engine) {
	t.Helper()
	until(t, settleLimit, e.address()+" answers again", func() bool {
		a := post(t, r.url+balanced+"/v1/completions", completion("short", 4))
		return a.status == 200 && a.replica() == e.address()
	})
}

// only lets an engine have all requests until the returned function is called.
func (r *rig) only(t *testing.T, e *engine) (all func()) {
	t.Helper()
	other := r.first
	if e == r.first {
		other = r.second
	}
	r.drain(t, other, true)
	return func() { r.drain(t, other, false) }
}

// streams opens so many long streams on an engine and returns once all have begun.
func (r *rig) streams(t *testing.T, e *engine, n, tokens int) []*call {
	t.Helper()
	defer r.only(t, e)()
	all := make([]*call, n)
	for i := range all {
		all[i] = begin(t, "POST", r.url+balanced+"/v1/completions", completion("long", tokens, stream))
	}
	for _, c := range all {
		until(t, settleLimit, "the streams have begun", c.hasBegun)
	}
	return all
}

// pausedStream holds that a stream whose engine is paused is left to the engine, which goes on with it.
func (r *rig) pausedStream(t *testing.T) {
	c := r.streams(t, r.first, 1, 400)[0]
	r.first.control(t, "/pause?mode=keep")
	r.becomes(t, r.first, fleet.Asleep)
	r.first.control(t, "/resume")
	a := c.endsWithin(t, callLimit, "the stream")
	if a.err != nil || a.replica() != r.first.address() || !strings.HasSuffix(a.body, "data: [DONE]\n\n") || strings.Contains(a.body, `"error"`) {
		t.Errorf("by %q, %v, ends with: %s", a.replica(), a.err, last(a.body))
	}
	r.becomes(t, r.first, fleet.Ready)
}

// last is the end of an answer.
func last(body string) string { return body[max(0, len(body)-600):] }

// fullQueue fills an engine's queue past Warmpath, which cannot know of it.
func (r *rig) fullQueue(t *testing.T) {
	for range room {
		defer begin(t, "POST", r.first.url()+"/v1/completions", completion("long", 4000, stream)).leave()
	}
	until(t, settleLimit, "the queue is full", func() bool {
		return r.first.figure(t, "vllm:num_requests_running{")+r.first.figure(t, "vllm:num_requests_waiting{") == room
	})
	if a := post(t, r.first.url()+"/v1/completions", completion("short", 4)); a.status != 503 {
		t.Fatalf("the engine itself answered %d, want 503: %s", a.status, a.body)
	}
	retries, ejections := r.sum(t, "warmpath_retries_total{", `"status_503"`), r.sum(t, "warmpath_ejections_total{")
	r.answered(t, r.second, r.burst(t, 8), "a request beside a full queue")
	if got := r.sum(t, "warmpath_retries_total{", `"status_503"`) - retries; got == 0 {
		t.Error("no request was sent again because of 503: none met the full queue")
	}
	if got := r.sum(t, "warmpath_ejections_total{") - ejections; got != 0 || r.status(t, r.first).State != fleet.Ready {
		t.Errorf("%g ejections, state %s: an engine whose queue is full is not broken", got, r.status(t, r.first).State)
	}
}

// becomesIdle waits for Warmpath to have nothing in flight.
func (r *rig) becomesIdle(t *testing.T) {
	t.Helper()
	until(t, settleLimit, "nothing is in flight", func() bool { return r.sum(t, "warmpath_in_flight{") == 0 })
}

// refuses waits for an engine's port to close and tells when it did.
func (e *engine) refuses(t *testing.T) time.Time {
	t.Helper()
	until(t, settleLimit, e.address()+" refuses connections", func() bool { return get(t, e.url()+"/health").status == 0 })
	return time.Now()
}
