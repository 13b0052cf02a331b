package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/emulator"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/workload"
)

// rows is a workload that is known in full.
type rows struct {
	list []workload.Request
	err  error
}

func (w rows) Requests() iter.Seq[workload.Request] { return slices.Values(w.list) }
func (w rows) Err() error                           { return w.err }
func (w rows) Name() string                         { return "rows" }

var (
	random      = Strategy{Name: routing.NameRandom}
	outstanding = Strategy{Name: routing.NameLeastOutstanding}
	aware       = prefixAware(1024, 16)
)

func prefixAware(length, threshold int) Strategy {
	return Strategy{routing.NamePrefixAware, routing.Options{PrefixLength: length, ConcurrencyThreshold: threshold}}
}

// row is a traced request with blocks of 256 tokens, one prefix window of 1024 characters each.
func row(at time.Duration, output int, blocks ...uint64) workload.Request {
	return workload.Request{
		At: at, Path: "/v1/completions", Blocks: blocks, BlockTokens: 256,
		PromptTokens: 256 * len(blocks), OutputTokens: output,
	}
}

// documents asks about each of n documents of 4 blocks in turn, a request every gap.
func documents(n, rounds int, gap time.Duration) rows {
	var w rows
	for i := range n * rounds {
		d := uint64(i%n) * 10
		w.list = append(w.list, row(time.Duration(i)*gap, 20, d+1, d+2, d+3, d+4, uint64(1e6+i)))
	}
	return w
}

func simulate(t *testing.T, w workload.Workload, o Options) *bench.Run {
	t.Helper()
	if o.CacheTokens == 0 {
		o.CacheTokens = 1 << 20
	}
	if o.Strategy.Name == "" {
		o.Strategy = outstanding
	}
	run, err := Run(t.Context(), w, o)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func TestOneRequestTakesWhatTheCostModelSays(t *testing.T) {
	cost := emulator.Cost{T0: 10, P: 0.1, D: 1, K: 0.001}
	run := simulate(t, rows{list: []workload.Request{row(time.Second, 3, 1, 2)}}, Options{Replicas: 1, Cost: cost})
	prefill := 10 + 0.1*512
	decode := 2*(10+1) + 0.001*(512+513)
	if got := run.TTFT.P50; !near(got, prefill) {
		t.Errorf("TTFT = %v ms, want %v", got, prefill)
	}
	if got := run.E2E.P50; !near(got, prefill+decode) {
		t.Errorf("end to end = %v ms, want %v", got, prefill+decode)
	}
	if got := run.ITL.P50; !near(got, decode/2) {
		t.Errorf("between tokens = %v ms, want %v", got, decode/2)
	}
	if run.PromptTokens != 512 || run.OutputTokens != 3 || *run.HitRate != 0 {
		t.Errorf("got %d prompt tokens, %d output tokens, hit rate %v; want 512, 3, 0", run.PromptTokens, run.OutputTokens, *run.HitRate)
	}
}

// near allows for the three digits of a histogram.
func near(got, want float64) bool { return got > want*0.998 && got < want*1.002 }

func TestRunsRepeat(t *testing.T) {
	w := workload.RAG{Shape: workload.Shape{Rate: 20, AnswerTokens: 10}, Documents: 10, DocumentTokens: 600, Questions: 4, QuestionTokens: 20}
	text := rows{list: slices.Collect(w.Requests())}
	for _, strategy := range []Strategy{random, outstanding, aware} {
		o := Options{
			Replicas: 3, Routers: 2, CacheTokens: 4000, Strategy: strategy, Seed: 7, SlowStart: 10 * time.Second,
			Incidents: []Incident{{Kind: Fail, Replica: 2, At: 500 * time.Millisecond, For: time.Second}, {Kind: Join, At: time.Second}},
		}
		first, again := encode(t, simulate(t, text, o)), encode(t, simulate(t, text, o))
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("%s: two runs of one seed differ:\n%s", strategy.Name, diff)
		}
		o.Seed = 8
		if strategy == random && encode(t, simulate(t, text, o)) == first {
			t.Errorf("%s: another seed changes nothing", strategy.Name)
		}
	}
}

func encode(t *testing.T, run *bench.Run) string {
	t.Helper()
	text, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + fmt.Sprint(run.Samples)
}

func TestPrefixAwareKeepsDocumentsTogether(t *testing.T) {
	w := documents(16, 8, 50*time.Millisecond)
	o := Options{Replicas: 4, CacheTokens: 8 * 5 * 256}
	o.Strategy = random
	without := simulate(t, w, o)
	o.Strategy = aware
	with := simulate(t, w, o)
	const highest = 0.8 * 7 / 8 // four blocks of five, but for the first round
	if got := *with.HitRate; got < 0.9*highest || got > highest {
		t.Errorf("hit rate with %s = %v, want at most %v and hardly less", aware.Name, got, highest)
	}
	if *without.HitRate > 0.7**with.HitRate {
		t.Errorf("hit rate with %s = %v, want well below %v", random.Name, *without.HitRate, *with.HitRate)
	}
}

func TestThresholdOverflows(t *testing.T) {
	var w rows
	for i := range 40 {
		w.list = append(w.list, row(0, 5, 1, 2, uint64(100+i)))
	}
	o := Options{Replicas: 4, Strategy: prefixAware(1024, 4)}
	run := simulate(t, w, o)
	if got := run.OverflowShare; got != 0.75 { // with everybody at the threshold, they share alike
		t.Errorf("overflow share = %v, want 0.75", got)
	}
	o.Strategy = prefixAware(1024, 1024)
	if got := simulate(t, w, o); got.OverflowShare != 0 || got.Imbalance() != 4 {
		t.Errorf("without a threshold: overflow share %v, imbalance %v; want 0 and 4", got.OverflowShare, got.Imbalance())
	}
}

func TestTextIsCachedAsTheEmulatorWould(t *testing.T) {
	w := workload.RAG{Shape: workload.Shape{Rate: 5, AnswerTokens: 4}, Documents: 2, DocumentTokens: 1000, Questions: 5, QuestionTokens: 20}
	run := simulate(t, rows{list: slices.Collect(w.Requests())}, Options{Replicas: 1})
	want := 0.8 * 1000 / 1040
	if got := *run.HitRate; got < want-0.03 || got > want+0.01 {
		t.Errorf("hit rate = %v, want about %v", got, want)
	}
}

func TestRequestsThatNoEngineReads(t *testing.T) {
	w := rows{list: []workload.Request{
		{Path: "/v1/completions", Body: []byte(`{"prompt":`)},
		{Path: "/v1/models", Body: []byte(`{}`)},
		row(0, 5, 1, 2, 3),
	}}
	w.list[2].BlockTokens = BlockTokens
	run := simulate(t, w, Options{Replicas: 2, CacheTokens: 512})
	if diff := cmp.Diff(map[string]int{"http_400": 3}, run.Errors); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestEmbeddingsHaveNoFirstToken(t *testing.T) {
	w := rows{list: []workload.Request{{Path: "/v1/embeddings", Body: []byte(`{"input":["some words", "and more"]}`)}}}
	run := simulate(t, w, Options{Replicas: 1})
	if run.Failed != 0 || run.TTFT != (bench.Quantiles{}) || run.E2E.P50 == 0 || run.OutputTokens != 0 {
		t.Errorf("got %d failed, TTFT %+v, end to end %+v, %d output tokens", run.Failed, run.TTFT, run.E2E, run.OutputTokens)
	}
}

func TestSeveralAnswersAreOneRequest(t *testing.T) {
	w := rows{list: []workload.Request{{Path: "/v1/completions", Body: []byte(`{"prompt":"some words","n":3,"max_tokens":4}`)}}}
	run := simulate(t, w, Options{Replicas: 1})
	if run.Requests != 1 || run.OutputTokens != 12 || run.TTFT.P50 >= run.E2E.P50 {
		t.Errorf("got %d requests, %d output tokens, TTFT %+v, end to end %+v", run.Requests, run.OutputTokens, run.TTFT, run.E2E)
	}
}

// One of several prompts is longer than the cache: the engine takes none of them.
func TestPartlyTooLong(t *testing.T) {
	body := `{"prompt":["short","` + strings.Repeat("long ", 2000) + `"],"max_tokens":4}`
	w := rows{list: []workload.Request{{Path: "/v1/completions", Body: []byte(body)}, {Path: "/v1/completions", Body: []byte(`{"prompt":"x"}`)}}}
	run := simulate(t, w, Options{Replicas: 1, CacheTokens: 1024})
	if run.Failed != 1 || run.Requests != 2 || run.OutputTokens != 16 {
		t.Errorf("got %d failed of %d, %d output tokens; want 1 of 2, 16", run.Failed, run.Requests, run.OutputTokens)
	}
}

func TestRunRefuses(t *testing.T) {
	one := rows{list: []workload.Request{row(0, 5, 1)}}
	mixed := rows{list: []workload.Request{row(0, 5, 1), row(0, 5, 1)}}
	mixed.list[1].BlockTokens = 16
	good := Options{Replicas: 1, CacheTokens: 4096, Strategy: random}
	tests := []struct {
		name   string
		w      workload.Workload
		change func(*Options)
	}{
		{"no replica", one, func(o *Options) { o.Replicas = 0 }},
		{"no router", one, func(o *Options) { o.Routers = -1 }},
		{"no cache", one, func(o *Options) { o.CacheTokens = 0 }},
		{"no such strategy", one, func(o *Options) { o.Strategy.Name = "BEST" }},
		{"negative budget", one, func(o *Options) { o.Budget = -1 }},
		{"negative slow start", one, func(o *Options) { o.SlowStart = -1 }},
		{"wordiness less than none", one, func(o *Options) { o.Wordiness = 0.5 }},
		{"an incident elsewhere", one, func(o *Options) { o.Incidents = []Incident{{Kind: Fail, Replica: 2}} }},
		{"a bad workload", rows{list: one.list, err: errors.New("row 2")}, func(*Options) {}},
		{"two block sizes", mixed, func(*Options) {}},
	}
	for _, test := range tests {
		o := good
		test.change(&o)
		if _, err := Run(t.Context(), test.w, o); err == nil {
			t.Errorf("%s: got no error", test.name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, one, good); !errors.Is(err, context.Canceled) {
		t.Errorf("after cancellation: %v", err)
	}
}

func TestEmptyWorkload(t *testing.T) {
	run := simulate(t, rows{}, Options{Replicas: 2})
	if run.Requests != 0 || run.HitRate != nil {
		t.Errorf("got %+v", run)
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	o := Options{Replicas: 4, Routers: 3, CacheTokens: 20_000, Strategy: prefixAware(1024, 2), Incidents: []Incident{
		{Kind: Fail, Replica: 1, At: time.Second, For: time.Second}, {Kind: Slow, Replica: 2, Factor: 4, At: time.Second},
	}}
	ended := 0
	o.Ended = func() { ended++ }
	o = o.withDefaults()
	s, err := newSimulation(&o)
	if err != nil {
		t.Fatal(err)
	}
	w := documents(8, 20, 20*time.Millisecond)
	in := open(w, s.routers[0], BlockTokens)
	defer in.close()
	if err := s.play(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if ended != len(w.list) {
		t.Errorf("%d requests ended, want %d", ended, len(w.list))
	}
	for _, router := range s.routers {
		for _, member := range router.members {
			if n := member.InFlight(); n != 0 {
				t.Errorf("%s: %d still in flight", member.ID(), n)
			}
		}
	}
	for _, r := range s.replicas {
		if load := r.core.Load(); load.Running+load.Waiting != 0 || len(r.inFlight) != 0 {
			t.Errorf("%s: holds %+v, %d in flight", r.name, load, len(r.inFlight))
		}
	}
}
