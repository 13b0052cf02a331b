package telemetry

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKeys(t *testing.T) {
	m := NewMetrics("test")
	r := streamed()
	m.Observe(&r)
	r.Key = ""
	m.Observe(&r)
	m.Observe(&Request{Key: "team-a", Outcome: OutcomeRefused, Status: 403})
	want := map[string]float64{
		"warmpath_key_requests_total{endpoint=chat,key=team-a,outcome=ok}":  1,
		"warmpath_key_requests_total{endpoint=,key=team-a,outcome=refused}": 1,
		"warmpath_key_prompt_tokens_total{endpoint=chat,key=team-a}":        700,
		"warmpath_key_output_tokens_total{endpoint=chat,key=team-a}":        5,
	}
	if diff := cmp.Diff(want, scrape(t, m, "warmpath_key_")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
