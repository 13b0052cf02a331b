package telemetry

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/routing"
)

// learnt is a belief in which every figure differs.
func learnt() Belief {
	return Belief{Endpoint: "chat", Variant: "main", Learned: routing.Learned{
		Latency:        routing.Latency{Base: 12, Prefill: 0.5, Queue: 0.25, Request: 2},
		StepPerRequest: 0.125, StepPerToken: 0.0625, OutputTokens: 200, BytesPerToken: 4.5, IndexBytes: 4096, IndexBlocks: 7,
		Caches: []routing.Cache{{Replica: "a:1", Capacity: 1000, Held: 300}, {Replica: "b:1", Capacity: 2000}},
	}}
}

func TestBeliefsAreShown(t *testing.T) {
	m := NewMetrics("test")
	for _, prefix := range []string{"warmpath_learned", "warmpath_index", "warmpath_believed"} {
		if got := scrape(t, m, prefix); len(got) != 0 {
			t.Errorf("before WatchBeliefs: %v, want nothing", got)
		}
	}
	m.WatchBeliefs(func() []Belief { return []Belief{learnt()} })
	const variant = "{endpoint=chat,variant=main}"
	want := map[string]float64{
		"warmpath_learned_ttft_base_seconds" + variant:                                    12e-3,
		"warmpath_learned_prefill_seconds_per_token" + variant:                            0.5e-3,
		"warmpath_learned_queue_seconds_per_token" + variant:                              0.25e-3,
		"warmpath_learned_in_flight_seconds_per_request" + variant:                        2e-3,
		"warmpath_learned_step_seconds_per_request" + variant:                             0.125e-3,
		"warmpath_learned_step_seconds_per_token" + variant:                               0.0625e-3,
		"warmpath_learned_output_tokens" + variant:                                        200,
		"warmpath_learned_bytes_per_token" + variant:                                      4.5,
		"warmpath_index_bytes" + variant:                                                  4096,
		"warmpath_index_blocks" + variant:                                                 7,
		"warmpath_believed_cache_capacity_tokens{endpoint=chat,replica=a:1,variant=main}": 1000,
		"warmpath_believed_cache_capacity_tokens{endpoint=chat,replica=b:1,variant=main}": 2000,
		"warmpath_believed_cache_held_tokens{endpoint=chat,replica=a:1,variant=main}":     300,
		"warmpath_believed_cache_held_tokens{endpoint=chat,replica=b:1,variant=main}":     0,
	}
	got := map[string]float64{}
	for _, prefix := range []string{"warmpath_learned", "warmpath_index", "warmpath_believed"} {
		for id, value := range scrape(t, m, prefix) {
			got[id] = value
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("beliefs (-want +got):\n%s", diff)
	}
}

// TestBeliefsThatReadAlike holds that a scrape does not fail at two identities that become one label.
func TestBeliefsThatReadAlike(t *testing.T) {
	m := NewMetrics("test")
	m.WatchBeliefs(func() []Belief {
		return []Belief{{Learned: routing.Learned{Caches: []routing.Cache{{Replica: "a:1/\xff"}, {Replica: "a:1/\xfe"}}}}}
	})
	if got := scrape(t, m, "warmpath_believed_cache_held_tokens"); len(got) != 1 {
		t.Errorf("got %v, want one series", got)
	}
}
