package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/warmpath/warmpath/internal/fleet"
)

// scrape returns the samples of the families whose names begin with prefix, histograms and summaries as their _count and _sum.
func scrape(t *testing.T, m *Metrics, prefix string) map[string]float64 {
	t.Helper()
	families, err := m.gather()
	if err != nil {
		t.Fatalf("gather: %v", err)
	}
	samples := map[string]float64{}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), prefix) {
			addSamples(samples, f)
		}
	}
	return samples
}

func addSamples(samples map[string]float64, f *dto.MetricFamily) {
	for _, metric := range f.GetMetric() {
		var labels []string
		for _, l := range metric.GetLabel() {
			labels = append(labels, l.GetName()+"="+l.GetValue())
		}
		id := f.GetName() + "{" + strings.Join(labels, ",") + "}"
		switch f.GetType() {
		case dto.MetricType_HISTOGRAM:
			samples[id+" count"] = float64(metric.GetHistogram().GetSampleCount())
			samples[id+" sum"] = metric.GetHistogram().GetSampleSum()
		case dto.MetricType_SUMMARY:
			samples[id+" count"] = float64(metric.GetSummary().GetSampleCount())
			samples[id+" sum"] = metric.GetSummary().GetSampleSum()
		case dto.MetricType_COUNTER:
			samples[id] = metric.GetCounter().GetValue()
		default:
			samples[id] = metric.GetGauge().GetValue()
		}
	}
}

// streamed is a request that went well, with every field set.
func streamed() Request {
	return Request{
		ID: "r-1", Method: "POST", Path: "/v1/chat/completions", API: "openai", Key: "team-a",
		Endpoint: "chat", Variant: "main", Replica: "10.0.0.1:8000", Strategy: "PREFIX_AWARE", Decision: "affinity",
		Status: 200, Outcome: OutcomeOK, Stream: true, Attempts: 1, Start: time.Unix(1e9, 0),
		Decide: 4 * time.Microsecond, Connect: 300 * time.Microsecond,
		Dispatched: 251 * time.Millisecond, FirstByte: 500 * time.Millisecond, FirstToken: time.Second,
		EngineDone: 2999 * time.Millisecond, Total: 3 * time.Second, Added: 80 * time.Microsecond,
		BytesIn: 2048, BytesOut: 4096, Chunks: 5, PromptTokens: 700, CachedTokens: 512, OutputTokens: 5, HasUsage: true,
		CachedKnown: true, PredictedHit: 0.75, Predicted: true,
		PrefixKey: 1 << 60, HasPrefixKey: true,
	}
}

func TestObserve(t *testing.T) {
	m := newChurn().Metrics
	r := streamed()
	m.Observe(&r)
	m.Observe(&r)
	const route = "{endpoint=chat,variant=main}"
	const replica = "{endpoint=chat,replica=10.0.0.1:8000,variant=main}"
	want := map[string]float64{
		"warmpath_requests_total{code=200,decision=affinity,endpoint=chat,replica=10.0.0.1:8000,variant=main}": 2,
		"warmpath_request_outcomes_total{endpoint=chat,outcome=ok,reason=,variant=main}":                       2,
		"warmpath_received_bytes_total" + route:                                                                4096,
		"warmpath_sent_bytes_total" + route:                                                                    8192,
		"warmpath_prompt_tokens_total" + replica:                                                               1400,
		"warmpath_cached_prompt_tokens_total" + replica:                                                        1024,
		"warmpath_output_tokens_total" + replica:                                                               10,
		"warmpath_predicted_hit_tokens_total" + replica:                                                        1050,
		"warmpath_actual_hit_tokens_total" + replica:                                                           1024,
		"warmpath_hit_error_tokens_total" + replica:                                                            26,
		"warmpath_mid_stream_errors_total" + replica:                                                           0,
		"warmpath_replica_first_byte_seconds" + replica + " count":                                             2,
		"warmpath_replica_first_byte_seconds" + replica + " sum":                                               0.498,
		"warmpath_prefix_keys" + route:                                                                         1,
		"warmpath_replica_prefix_keys" + replica:                                                               1,
	}
	want["warmpath_key_requests_total{endpoint=chat,key=team-a,outcome=ok}"] = 2
	want["warmpath_key_prompt_tokens_total{endpoint=chat,key=team-a}"] = 1400
	want["warmpath_key_output_tokens_total{endpoint=chat,key=team-a}"] = 10
	for name, seconds := range map[string]float64{
		"decision": 8e-6, "added": 160e-6, "ttft": 2, "inter_token": 1, "request": 6,
		"first_byte": 1, "first_byte_model": 0.498, "first_byte_overhead": 0.502, "model": 5.496, "overhead": 0.504,
	} {
		want["warmpath_"+name+"_seconds"+route+" count"] = 2
		want["warmpath_"+name+"_seconds"+route+" sum"] = seconds
	}
	got := scrape(t, m, "warmpath_")
	for id := range got {
		if _, ok := want[id]; !ok && strings.Contains(id, "endpoint") {
			t.Errorf("unexpected %s", id)
		}
	}
	for id, value := range want {
		if diff := got[id] - value; diff > 1e-12 || diff < -1e-12 {
			t.Errorf("%s = %v, want %v", id, got[id], value)
		}
	}
}

func TestMidStreamErrors(t *testing.T) {
	for _, test := range []struct {
		name    string
		outcome string
		code    string
		status  int
		want    float64
	}{
		{"whole", OutcomeOK, "", 200, 0},
		{"broken off", OutcomeUpstreamAborted, "", 200, 1},
		{"silent", OutcomeTimeout, "", 200, 1},
		{"an error inside the stream", OutcomeUpstreamError, "", 200, 1},
		{"an error from the start", OutcomeUpstreamError, "", 503, 0},
		{"wrapped by an invocation", OutcomeUpstreamError, "", 424, 0},
		{"silent from the start", OutcomeTimeout, "upstream_timeout", 504, 0},
		{"the client left", OutcomeClientCancelled, "", 200, 0},
		{"nothing was sent", OutcomeUpstreamError, "", 0, 0},
	} {
		m := NewMetrics("test")
		r := streamed()
		r.Outcome, r.Code, r.Status = test.outcome, test.code, test.status
		m.Observe(&r)
		if got := scrape(t, m, "warmpath_mid_stream_errors_total"); got["warmpath_mid_stream_errors_total{endpoint=chat,replica=10.0.0.1:8000,variant=main}"] != test.want || len(got) != 1 {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestPrefixKeysByPlace sends three keys, of which one overflows.
func TestPrefixKeysByPlace(t *testing.T) {
	c := newChurn()
	for i, decision := range []string{"affinity", "affinity", "overflow", "affinity", "retry"} {
		r := streamed()
		r.Start, r.Decision, r.PrefixKey = c.clock, decision, hashed(uint64(i%3))
		c.Observe(&r)
	}
	want := map[string]float64{"warmpath_prefix_keys{endpoint=chat,variant=main}": 3}
	replica := map[string]float64{"warmpath_replica_prefix_keys{endpoint=chat,replica=10.0.0.1:8000,variant=main}": 2}
	if diff := cmp.Diff(want, scrape(t, c.Metrics, "warmpath_prefix_keys")) + cmp.Diff(replica, scrape(t, c.Metrics, "warmpath_replica_prefix_keys")); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	c.clock = c.clock.Add(10*time.Minute + slotTime*time.Second)
	for id, keys := range scrape(t, c.Metrics, "warmpath_prefix_keys") {
		if keys != 0 {
			t.Errorf("%s = %v ten minutes later", id, keys)
		}
	}
}

func TestObserveCountsOnlyWhatHappened(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Request)
		absent string // a histogram without observation, or a counter at 0
	}{
		{"no token", func(r *Request) { r.FirstToken = 0 }, "warmpath_ttft_seconds"},
		{"no token, so no gaps", func(r *Request) { r.FirstToken = 0 }, "warmpath_inter_token_seconds"},
		{"one chunk", func(r *Request) { r.Chunks = 1 }, "warmpath_inter_token_seconds"},
		{"clock ran backwards", func(r *Request) { r.Total = time.Millisecond }, "warmpath_inter_token_seconds"},
		{"never sent", func(r *Request) { r.Attempts = 0 }, "warmpath_request_seconds"},
		{"no answer", func(r *Request) { r.FirstByte = 0 }, "warmpath_first_byte"},
		{"no answer, so no times", func(r *Request) { r.FirstByte = 0 }, "warmpath_model_seconds"},
		{"not heard to its end", func(r *Request) { r.EngineDone = 0 }, "warmpath_overhead_seconds"},
		{"before it was sent", func(r *Request) { r.FirstByte = 1 }, "warmpath_replica_first_byte_seconds"},
		{"no prefix key", func(r *Request) { r.HasPrefixKey = false }, "warmpath_prefix_keys"},
		{"not by its key", func(r *Request) { r.Decision = "overflow" }, "warmpath_replica_prefix_keys"},
		{"no usage", func(r *Request) { r.HasUsage = false }, "warmpath_prompt_tokens_total"},
		{"no prediction", func(r *Request) { r.Predicted = false }, "warmpath_actual_hit_tokens_total"},
		{"cached tokens unknown", func(r *Request) { r.CachedKnown = false }, "warmpath_predicted_hit_tokens_total"},
		{"nonsense to compare", func(r *Request) { r.CachedTokens = -1 }, "warmpath_hit_error_tokens_total"},
		{"nonsense usage", func(r *Request) { r.CachedTokens = -1 }, "warmpath_cached_prompt_tokens_total"},
		{"nonsense size", func(r *Request) { r.BytesIn = -1 }, "warmpath_received_bytes_total"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := NewMetrics("test")
			r := streamed()
			test.change(&r)
			m.Observe(&r)
			for id, value := range scrape(t, m, test.absent) {
				if value != 0 {
					t.Errorf("%s = %v, want 0", id, value)
				}
			}
		})
	}
}

func TestStatusLabel(t *testing.T) {
	for status, want := range map[int]string{
		200: "200", 404: "404", 429: "429", 499: "499", 503: "503", 511: "511",
		299: "2xx", 490: "4xx", 529: "5xx", 599: "5xx", 0: "other", 99: "other", 600: "other", -1: "other",
	} {
		if got := statusLabel(status); got != want {
			t.Errorf("statusLabel(%d) = %q, want %q", status, got, want)
		}
	}
}

func TestEvents(t *testing.T) {
	m := NewMetrics("1.2.3")
	m.Retry("chat", "main", "connect")
	m.Retry("chat", "main", "connect")
	m.Ejected("p", "a:1", "refused")
	m.Reload(false, time.Unix(50, 0))
	m.Reload(true, time.Unix(100, 0))
	m.Reload(false, time.UnixMilli(150500))
	m.ScrapeFailed("p", "a:1")
	m.ScrapeFailed("p", "a:1")
	m.Discovery("p", true)
	m.Discovery("p", false)
	m.Discovery("q", false)
	m.Discovery("q", true)
	got := scrape(t, m, "warmpath_")
	for id, want := range map[string]float64{
		"warmpath_retries_total{endpoint=chat,reason=connect,variant=main}": 2,
		"warmpath_ejections_total{cause=refused,pool=p,replica=a:1}":        1,
		"warmpath_engine_scrape_failures_total{pool=p,replica=a:1}":         2,
		"warmpath_config_reloads_total{result=failure}":                     2,
		"warmpath_config_reloads_total{result=success}":                     1,
		"warmpath_config_last_reload_success{}":                             0,
		"warmpath_config_last_reload_timestamp_seconds{}":                   150.5,
		"warmpath_discovery_errors_total{pool=p}":                           1,
		"warmpath_discovery_errors_total{pool=q}":                           1,
		"warmpath_discovery_up{pool=p}":                                     0,
		"warmpath_discovery_up{pool=q}":                                     1,
	} {
		if value, ok := got[id]; !ok || value != want {
			t.Errorf("%s = %v (present: %v), want %v", id, value, ok, want)
		}
	}
	if build := scrape(t, m, "warmpath_build_info"); len(build) != 1 {
		t.Errorf("build info = %v, want one series", build)
	}
}

func TestWatchShowsReplicas(t *testing.T) {
	m := NewMetrics("test")
	if got := scrape(t, m, "warmpath_replica"); len(got) != 0 {
		t.Errorf("before Watch: %v, want nothing", got)
	}
	m.Watch(func() map[string][]fleet.Status {
		return map[string][]fleet.Status{
			"p": {
				{Replica: "a:1", State: fleet.Ready, InFlight: 2, Requests: 3},
				{Replica: "b:1", State: fleet.Ejected, InFlight: 1, Requests: 9},
				{Replica: "a:1", State: fleet.Draining, InFlight: 5, Requests: 100, Removed: true},
				{Replica: "c:1", State: fleet.Draining, InFlight: 4, Requests: 8, Removed: true},
			},
			"empty": nil,
		}
	})
	want := map[string]float64{
		"warmpath_replica_state{pool=p,replica=a:1,state=ready}":    1,
		"warmpath_replica_state{pool=p,replica=b:1,state=ejected}":  1,
		"warmpath_replica_state{pool=p,replica=c:1,state=draining}": 1,
		"warmpath_replica_requests_total{pool=p,replica=a:1}":       3,
		"warmpath_replica_requests_total{pool=p,replica=b:1}":       9,
		"warmpath_replica_requests_total{pool=p,replica=c:1}":       8,
		"warmpath_in_flight{pool=p,replica=a:1}":                    7,
		"warmpath_in_flight{pool=p,replica=b:1}":                    1,
		"warmpath_in_flight{pool=p,replica=c:1}":                    4,
		"warmpath_ready_replicas{pool=p}":                           1,
		"warmpath_ready_replicas{pool=empty}":                       0,
	}
	got := scrape(t, m, "warmpath_replica")
	for _, prefix := range []string{"warmpath_in_flight", "warmpath_ready"} {
		maps.Copy(got, scrape(t, m, prefix))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("replica series (-want +got):\n%s", diff)
	}
}

// churn is a Metrics on a clock that the test moves, watching replicas that the test changes.
type churn struct {
	*Metrics
	clock time.Time
	pools map[string][]fleet.Status
}

func newChurn() *churn {
	c := &churn{Metrics: NewMetrics("test"), clock: time.Unix(1e9, 0), pools: map[string][]fleet.Status{}}
	c.roster = newRoster(func() time.Time { return c.clock })
	c.Watch(func() map[string][]fleet.Status { return c.pools })
	return c
}

// touch makes a series of every kind that carries the replica's name.
func (c *churn) touch(replica string) {
	r := streamed()
	r.Replica, r.Start = replica, c.clock
	c.Observe(&r)
	r.Decision, r.Status, r.Outcome = "overflow", 502, OutcomeUpstreamError
	c.Observe(&r)
	c.Ejected("p", replica, "refused")
	c.Ejected("p", replica, "refused")
	c.ScrapeFailed("p", replica)
}

func TestC059_RemovedReplicasLeaveNoSeries(t *testing.T) {
	c := newChurn()
	survivor := fleet.Status{Replica: "survivor:1", State: fleet.Ready}
	c.pools["p"] = []fleet.Status{survivor}
	c.touch("survivor:1")
	before := scrape(t, c.Metrics, "warmpath_")
	for i := range 1000 {
		replica := fmt.Sprintf("10.0.%d.%d:8000", i/250, i%250)
		c.pools["p"] = []fleet.Status{survivor, {Replica: replica, State: fleet.Ready, InFlight: 1}}
		c.touch(replica)
		c.touch("survivor:1")
		c.clock = c.clock.Add(time.Second)
	}
	c.pools["p"] = []fleet.Status{survivor}
	scrape(t, c.Metrics, "warmpath_")
	c.clock = c.clock.Add(grace)
	after := scrape(t, c.Metrics, "warmpath_")
	for id, value := range before {
		if after[id] < value {
			t.Errorf("survivor's %s went from %v to %v", id, value, after[id])
		}
		delete(after, id)
	}
	if len(after) != 0 {
		t.Errorf("%d series were left behind: %v", len(after), after)
	}
	if len(c.series) != 2 || len(c.roster.owned) != 2 || len(c.roster.absent) != 0 {
		t.Errorf("memory left behind: %d series, %d owners, %d absent; want 2, 2, 0", len(c.series), len(c.roster.owned), len(c.roster.absent))
	}
}

func TestC059_LastValuesStayForTheGracePeriod(t *testing.T) {
	const id = "warmpath_requests_total{code=200,decision=affinity,endpoint=chat,replica=a:1,variant=main}"
	c := newChurn()
	c.pools["p"] = []fleet.Status{{Replica: "a:1", State: fleet.Ready}}
	c.touch("a:1")
	c.pools["p"] = nil
	for _, step := range []struct {
		after time.Duration
		want  float64
	}{{0, 1}, {grace - 1, 1}, {1, 0}} {
		c.clock = c.clock.Add(step.after)
		if got := scrape(t, c.Metrics, "warmpath_requests_total")[id]; got != step.want {
			t.Errorf("after another %v: %v, want %v", step.after, got, step.want)
		}
	}
}

func TestC059_ReplicaThatReturnsKeepsItsCounters(t *testing.T) {
	const id = "warmpath_requests_total{code=200,decision=affinity,endpoint=chat,replica=a:1,variant=main}"
	c := newChurn()
	there := []fleet.Status{{Replica: "a:1", State: fleet.Ready}}
	c.pools["p"] = there
	c.touch("a:1")
	for range 3 { // each absence shorter than the grace period, their sum longer
		c.pools["p"] = nil
		scrape(t, c.Metrics, "warmpath_")
		c.clock = c.clock.Add(grace - 1)
		c.pools["p"] = there
		if got := scrape(t, c.Metrics, "warmpath_requests_total")[id]; got != 1 {
			t.Fatalf("%s = %v, want 1", id, got)
		}
	}
}

func TestC059_RemovedPoolLeavesNoSeries(t *testing.T) {
	c := newChurn()
	c.pools["p"], c.pools["q"] = nil, nil
	c.Discovery("p", false)
	c.Discovery("q", true)
	delete(c.pools, "p")
	scrape(t, c.Metrics, "warmpath_")
	c.clock = c.clock.Add(grace)
	want := map[string]float64{"warmpath_discovery_errors_total{pool=q}": 0, "warmpath_discovery_up{pool=q}": 1}
	if diff := cmp.Diff(want, scrape(t, c.Metrics, "warmpath_discovery")); diff != "" {
		t.Errorf("discovery series (-want +got):\n%s", diff)
	}
}

func TestC059_ChurnWithoutScrapesIsBounded(t *testing.T) {
	c := newChurn()
	for i := range 1000 {
		replica := fmt.Sprintf("replica-%d:8000", i)
		c.pools["p"] = []fleet.Status{{Replica: replica, State: fleet.Ready}}
		c.touch(replica)
		c.clock = c.clock.Add(10 * time.Second)
	}
	if got, limit := len(c.roster.owned), 3*int(grace/(10*time.Second)); got > limit {
		t.Errorf("series of %d replicas are kept, want at most %d", got, limit)
	}
}

func TestC059_RemovedEndpointsLeaveNoSeries(t *testing.T) {
	c := newChurn()
	present := map[string][]string{"chat": {"main"}}
	c.WatchEndpoints(func() map[string][]string { return present })
	c.pools["p"] = []fleet.Status{{Replica: "a:1", State: fleet.Ready}}
	call := func(endpoint string) {
		r := streamed()
		r.Endpoint, r.Replica = endpoint, "a:1"
		c.Observe(&r)
		c.Retry(endpoint, "main", "dial")
	}
	call("chat")
	before := scrape(t, c.Metrics, "warmpath_")
	for i := range 300 {
		made := fmt.Sprintf("made-%d", i)
		present = map[string][]string{"chat": {"main"}, made: {"main"}}
		call(made)
		c.clock = c.clock.Add(time.Second)
	}
	present = map[string][]string{"chat": {"main"}}
	scrape(t, c.Metrics, "warmpath_")
	c.clock = c.clock.Add(grace - 1)
	const last = "warmpath_requests_total{code=200,decision=affinity,endpoint=made-299,replica=a:1,variant=main}"
	if scrape(t, c.Metrics, "warmpath_requests_total")[last] != 1 {
		t.Error("the last values of the last endpoint do not stay for its grace period")
	}
	c.clock = c.clock.Add(1)
	if diff := cmp.Diff(before, scrape(t, c.Metrics, "warmpath_")); diff != "" {
		t.Errorf("after the removed endpoints' grace period (-before +after):\n%s", diff)
	}
	if len(c.series) != 1 {
		t.Errorf("memory left behind: %d series, want 1", len(c.series))
	}
	call("chat")
	if got := scrape(t, c.Metrics, "warmpath_key_requests_total"); got["warmpath_key_requests_total{endpoint=chat,key=team-a,outcome=ok}"] != 2 {
		t.Errorf("got %v, want the survivor to count on", got)
	}
}

// Inference components come and go by API while their endpoint stays.
func TestC059_RemovedVariantsLeaveNoSeries(t *testing.T) {
	c := newChurn()
	present := map[string][]string{"chat": {"main/kept"}}
	c.WatchEndpoints(func() map[string][]string { return present })
	c.pools["p"] = []fleet.Status{{Replica: "a:1", State: fleet.Ready}}
	call := func(variant string) {
		r := streamed()
		r.Endpoint, r.Variant, r.Replica = "chat", variant, "a:1"
		c.Observe(&r)
		c.Retry("chat", variant, "dial")
	}
	call("main/kept")
	call("") // refused before a variant was known
	const key = "warmpath_key_"
	before := scrape(t, c.Metrics, "warmpath_")
	for i := range 300 {
		made := fmt.Sprintf("main/made-%d", i)
		present["chat"] = []string{"main/kept", made}
		call(made)
		c.clock = c.clock.Add(time.Second)
	}
	present["chat"] = []string{"main/kept"}
	scrape(t, c.Metrics, "warmpath_")
	c.clock = c.clock.Add(grace)
	after := scrape(t, c.Metrics, "warmpath_")
	for _, counted := range []map[string]float64{before, after} { // keys are counted by endpoint, whatever the variant
		maps.DeleteFunc(counted, func(series string, _ float64) bool { return strings.HasPrefix(series, key) })
	}
	if diff := cmp.Diff(before, after); diff != "" || len(c.series) != 2 {
		t.Errorf("%d series in memory, want 2; after the removed variants' grace period (-before +after):\n%s", len(c.series), diff)
	}
}

func TestLabelsThatAreNotUTF8(t *testing.T) {
	m := NewMetrics("v\xff")
	m.Watch(func() map[string][]fleet.Status {
		return map[string][]fleet.Status{"p\xff": {{Replica: "a:1/\xff", State: fleet.Ready}, {Replica: "a:1/\xfe", State: fleet.Ready}}}
	})
	r := streamed()
	r.Replica, r.Endpoint, r.Code = "a:1/\xff", "e\xff", "c\xff"
	m.Observe(&r)
	m.Retry("e\xff", "v\xff", "r\xff")
	m.Ejected("p\xff", "a:1/\xff", "c\xff")
	m.Discovery("p\xff", false)
	if got := scrape(t, m, "warmpath_in_flight"); len(got) != 1 {
		t.Errorf("in-flight series = %v, want the two that read alike as one", got)
	}
}

func TestHandlerServesTextFormat(t *testing.T) {
	m := NewMetrics("test")
	r := streamed()
	m.Observe(&r)
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`warmpath_decision_seconds_bucket{endpoint="chat",variant="main",le="5e-06"} 1`,
		`warmpath_request_seconds_bucket{endpoint="chat",variant="main",le="3600"} 1`,
		"go_goroutines ", "process_start_time_seconds ", `warmpath_build_info{go_version="go`,
	} {
		if rec.Code != 200 || !strings.Contains(rec.Body.String(), want) {
			t.Errorf("status %d, body lacks %q", rec.Code, want)
		}
	}
}

func TestMetricsAreWellNamed(t *testing.T) {
	families, err := sample(t).gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, namespace) {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	m := NewMetrics("test")
	f := fleet.New(fleet.Options{})
	m.Watch(func() map[string][]fleet.Status { return map[string][]fleet.Status{"p": f.Statuses()} })
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 200 {
				url := fmt.Sprintf("http://10.0.%d.%d:80", w, i%8)
				f.Apply([]fleet.Target{{URL: url}})
				r := streamed()
				r.Replica, r.Status = url, 200+i%3
				m.Observe(&r)
				m.Ejected("p", url, "refused")
				m.Discovery("p", i%2 == 0)
				Access(slog.New(slog.NewTextHandler(io.Discard, nil)), &r)
				if i%50 == 0 {
					m.gather()
				}
			}
		})
	}
	wg.Wait()
	var total float64
	for _, value := range scrape(t, m, "warmpath_requests_total") {
		total += value
	}
	if total != 800 {
		t.Errorf("requests counted = %v, want 800", total)
	}
}

func TestObserveAllocatesNothing(t *testing.T) {
	m := NewMetrics("test")
	r := streamed()
	m.Observe(&r)
	if got := testing.AllocsPerRun(100, func() { m.Observe(&r) }); got != 0 {
		t.Errorf("allocations per request = %v, want 0", got)
	}
}

func BenchmarkObserve(b *testing.B) {
	m := NewMetrics("bench")
	r := streamed()
	b.ReportAllocs()
	for b.Loop() {
		m.Observe(&r)
	}
}

func BenchmarkScrape1000Replicas(b *testing.B) {
	m := NewMetrics("bench")
	var statuses []fleet.Status
	for i := range 1000 {
		r := streamed()
		r.Replica = fmt.Sprintf("replica-%d:8000", i)
		m.Observe(&r)
		statuses = append(statuses, fleet.Status{Replica: r.Replica, State: fleet.Ready})
	}
	m.Watch(func() map[string][]fleet.Status { return map[string][]fleet.Status{"p": statuses} })
	for b.Loop() {
		m.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
	}
}
