package telemetry

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/fleet"
)

// TestUnknownIsNoSeries holds that nothing that an engine does not say is shown, and that a zero it says is.
func TestUnknownIsNoSeries(t *testing.T) {
	m := NewMetrics("test")
	m.Watch(func() map[string][]fleet.Status {
		return map[string][]fleet.Status{"p": {
			{Replica: "silent:1", State: fleet.Ready},
			{Replica: "idle:1", State: fleet.Asleep, Engine: fleet.Signals{Running: fleet.Read(0), Waiting: fleet.Read(0), CacheUsage: fleet.Read(0)}},
			{Replica: "warm:1", State: fleet.Ready, Engine: fleet.Signals{
				Running: fleet.Read(3), CacheUsage: fleet.Read(0.25), CacheTokens: 131072, QueryTokens: fleet.Read(99192), HitTokens: fleet.Read(28288),
			}},
			{Replica: "warm:1", State: fleet.Draining, Removed: true},
		}}
	})
	want := map[string]float64{
		"warmpath_engine_running_requests{pool=p,replica=idle:1}":                0,
		"warmpath_engine_waiting_requests{pool=p,replica=idle:1}":                0,
		"warmpath_engine_kv_cache_usage_ratio{pool=p,replica=idle:1}":            0,
		"warmpath_engine_running_requests{pool=p,replica=warm:1}":                3,
		"warmpath_engine_kv_cache_usage_ratio{pool=p,replica=warm:1}":            0.25,
		"warmpath_engine_cache_tokens{pool=p,replica=warm:1}":                    131072,
		"warmpath_engine_prefix_cache_query_tokens_total{pool=p,replica=warm:1}": 99192,
		"warmpath_engine_prefix_cache_hit_tokens_total{pool=p,replica=warm:1}":   28288,
	}
	if diff := cmp.Diff(want, scrape(t, m, "warmpath_engine_")); diff != "" {
		t.Errorf("engine series (-want +got):\n%s", diff)
	}
	if got := scrape(t, m, "warmpath_replica_state"); got["warmpath_replica_state{pool=p,replica=idle:1,state=asleep}"] != 1 {
		t.Errorf("states: %v, want idle:1 asleep", got)
	}
}
