package bench

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// Programs read these names; fields may be added and are never renamed.
func TestReportShape(t *testing.T) {
	rate := 0.81
	report := Report{Runs: []Run{
		{
			Strategy: "PREFIX_AWARE", Target: "http://127.0.0.1:8080", Knobs: Knobs{PrefixLength: 4096, ConcurrencyThreshold: 16},
			Requests: 2000, Failed: 1, Refused: 1, Errors: map[string]int{"broken": 1, "http_429": 1}, HitRate: &rate, OverflowShare: 0.03,
			TTFT: Quantiles{71.2, 210, 480.3}, E2E: Quantiles{1, 2, 3}, ITL: Quantiles{4, 5, 6},
			RequestsPerSecond: 41.7, OutputTokensPerSecond: 5210, TimeScale: 1, PerReplica: []Replica{{"r1", 500, &rate}},
			Seconds: 48, PromptTokens: 1000, CachedTokens: 810, OutputTokens: 500, SendDelay: Quantiles{0.1, 0.2, 0.3},
			Goodput: &Goodput{200, 0.9, 37.5}, Warmup: &WarmupResult{9, 2, 1},
		},
		{Strategy: "RANDOM", PerReplica: []Replica{}},
	}}
	got, err := json.Marshal(report, json.Deterministic(true), jsontext.Multiline(false))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"runs":[{"strategy":"PREFIX_AWARE","target":"http://127.0.0.1:8080","options":{"prefix_length":4096,"concurrency_threshold":16},` +
		`"requests":2000,"failed":1,"refused":1,"errors":{"broken":1,"http_429":1},"hit_rate":0.81,"overflow_share":0.03,` +
		`"ttft_ms":{"p50":71.2,"p90":210,"p99":480.3},"e2e_ms":{"p50":1,"p90":2,"p99":3},"itl_ms":{"p50":4,"p90":5,"p99":6},` +
		`"requests_per_second":41.7,"output_tokens_per_second":5210,"time_scale":1,"per_replica":[{"replica":"r1","requests":500,"hit_rate":0.81}],` +
		`"seconds":48,"prompt_tokens":1000,"cached_tokens":810,"output_tokens":500,"send_delay_ms":{"p50":0.1,"p90":0.2,"p99":0.3},` +
		`"goodput":{"ttft_objective_ms":200,"share":0.9,"requests_per_second":37.5},"warmup":{"requests":9,"failed":2,"refused":1}},` +
		`{"strategy":"RANDOM","target":"","options":{},"requests":0,"failed":0,"refused":0,"hit_rate":null,"overflow_share":0,` +
		`"ttft_ms":{"p50":0,"p90":0,"p99":0},"e2e_ms":{"p50":0,"p90":0,"p99":0},"itl_ms":{"p50":0,"p90":0,"p99":0},` +
		`"requests_per_second":0,"output_tokens_per_second":0,"time_scale":0,"per_replica":[],` +
		`"seconds":0,"prompt_tokens":0,"cached_tokens":0,"output_tokens":0,"send_delay_ms":{"p50":0,"p90":0,"p99":0}}]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}
