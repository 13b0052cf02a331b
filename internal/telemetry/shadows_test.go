package telemetry

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/fleet"
)

func TestShadowsAreCountedApart(t *testing.T) {
	m := NewMetrics("test")
	r := streamed()
	m.ObserveShadow(&r)
	refused := Request{Endpoint: "chat", Variant: "main", Outcome: OutcomeRefused, Code: "no_replica", Total: time.Second}
	m.ObserveShadow(&refused)
	m.ShadowDropped("chat", "main", "memory")
	const route = "{endpoint=chat,variant=main}"
	want := map[string]float64{
		"warmpath_shadow_requests_total{endpoint=chat,outcome=ok,reason=,variant=main}":                1,
		"warmpath_shadow_requests_total{endpoint=chat,outcome=refused,reason=no_replica,variant=main}": 1,
		"warmpath_shadow_dropped_total{endpoint=chat,limit=memory,variant=main}":                       1,
		"warmpath_shadow_prompt_tokens_total" + route:                                                  700,
		"warmpath_shadow_cached_prompt_tokens_total" + route:                                           512,
		"warmpath_shadow_output_tokens_total" + route:                                                  5,
		"warmpath_shadow_ttft_seconds" + route + " count":                                              1,
		"warmpath_shadow_ttft_seconds" + route + " sum":                                                1,
		"warmpath_shadow_request_seconds" + route + " count":                                           1,
		"warmpath_shadow_request_seconds" + route + " sum":                                             3,
	}
	if diff := cmp.Diff(want, scrape(t, m, "warmpath_shadow_")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, prefix := range []string{"warmpath_request", "warmpath_key_", "warmpath_ttft", "warmpath_prompt"} {
		if got := scrape(t, m, prefix); len(got) > 0 {
			t.Errorf("copies count among the clients' requests: %v", got)
		}
	}
}

// A copy can end long after its endpoint has gone, with everything that was counted of it.
func TestShadowsOfAnEndpointThatIsGoneGo(t *testing.T) {
	m := NewMetrics("test")
	now := time.Unix(1e9, 0)
	m.roster.now = func() time.Time { return now }
	m.Watch(func() map[string][]fleet.Status { return nil })
	m.WatchEndpoints(func() map[string][]string { return nil })
	r := streamed()
	m.ObserveShadow(&r)
	if got := scrape(t, m, "warmpath_shadow_"); len(got) == 0 {
		t.Error("what was counted is gone at once")
	}
	now = now.Add(grace)
	scrape(t, m, "warmpath_shadow_") // sweeps
	if got := scrape(t, m, "warmpath_shadow_"); len(got) > 0 {
		t.Errorf("still there after the grace: %v", got)
	}
}

func TestShadowsAreLoggedForDebuggersAlone(t *testing.T) {
	r := streamed()
	r.Shadow, r.Outcome, r.Status = true, OutcomeUpstreamError, 502
	for level, want := range map[string]string{"info": "", "debug": "level=DEBUG msg=request"} {
		var out bytes.Buffer
		log, err := NewLogger(&out, "text", level)
		if err != nil {
			t.Fatal(err)
		}
		Access(log, &r)
		if got := out.String(); !strings.Contains(got, want) || (got == "") != (want == "") || want != "" && !strings.Contains(got, "variant=main shadow=true") {
			t.Errorf("%s: %q", level, got)
		}
	}
}
