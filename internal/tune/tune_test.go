package tune

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/simulate"
	"github.com/warmpath/warmpath/internal/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// blockTokens is the block size of traffic: 1024 characters.
const blockTokens = 256

// traffic is a workload of prompts that open with a common preamble, go on with the prefix of one of some groups, and end with
// blocks of their own.
type traffic struct {
	requests, groups      int
	preamble, prefix, own int     // blocks
	rate                  float64 // requests a second
}

func (w traffic) Name() string { return "traffic" }
func (w traffic) Err() error   { return nil }

func (w traffic) Requests() iter.Seq[workload.Request] {
	return func(yield func(workload.Request) bool) {
		random := rand.New(rand.NewPCG(1, 2))
		at := 0.0
		for n := range w.requests {
			at += random.ExpFloat64() / w.rate
			group := random.IntN(w.groups)
			var blocks []uint64
			for i := range w.preamble + w.prefix + w.own {
				switch {
				case i < w.preamble:
					blocks = append(blocks, uint64(i)<<32)
				case i < w.preamble+w.prefix:
					blocks = append(blocks, uint64(i)<<32|1<<31|uint64(group))
				default:
					blocks = append(blocks, uint64(i)<<32|1<<30|uint64(n))
				}
			}
			r := workload.Request{
				At: time.Duration(at * float64(time.Second)), Blocks: blocks, BlockTokens: blockTokens,
				PromptTokens: len(blocks) * blockTokens, OutputTokens: 4,
			}
			if !yield(r) {
				return
			}
		}
	}
}

// documents ask about one of 16 documents of 16,384 characters behind a preamble of 2,048: a window of less is common to all, one
// of more than 18,432 reaches into the questions.
var documents = traffic{requests: 300, groups: 16, preamble: 2, prefix: 16, own: 2, rate: 6}

// fleet has room for a third of the documents in each of four replicas.
var fleet = simulate.Options{Replicas: 4, CacheTokens: 25_000, Seed: 1}

// tuned is the result for documents.
var tuned = sync.OnceValues(func() (*Result, error) {
	return Run(context.Background(), documents, Options{Fleet: fleet})
})

func tunedFor(t testing.TB) *Result {
	t.Helper()
	r, err := tuned()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func run(t testing.TB, w workload.Workload) *Result {
	t.Helper()
	r, err := Run(t.Context(), w, Options{Fleet: fleet})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// exhaust is the result of all pairs of settings.
func exhaust(t testing.TB, w workload.Workload) *Result {
	t.Helper()
	r, err := Run(t.Context(), w, Options{Fleet: fleet, Exhaustive: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Grid) != len(lengths)*len(thresholds) {
		t.Errorf("got %d pairs, want all %d", len(r.Grid), len(lengths)*len(thresholds))
	}
	return r
}

func kinds(cliffs []Cliff) map[string]int {
	found := map[string]int{}
	for _, c := range cliffs {
		found[c.Kind] = c.At
	}
	return found
}

func TestSettingsOfDocuments(t *testing.T) {
	r := tunedFor(t)
	best := slices.MinFunc(exhaust(t, documents).Grid, func(a, b Cell) int { return int(a.score() - b.score()) })
	if got := r.Recommendation.score() / best.score(); got > 1.05 {
		t.Errorf("recommended %+v has %.2f times the score of the best, %+v", r.Recommendation.Cell, got, best)
	}
	if n := r.Recommendation.PrefixLength; n < 4096 || n > 16384 {
		t.Errorf("prefix length: got %d, want one that ends in the documents", n)
	}
	found := kinds(r.Cliffs)
	if found[PrefixTooShort] != 2048 || found[PrefixTooLong] != 32768 || found[ThresholdTooLow] == 0 {
		t.Errorf("cliffs: got %v, want one below 4096, one at 32768, and one of the threshold", found)
	}
	if r.Infinite.HitRate < r.Recommendation.HitRate || r.Infinite.HitRate < r.Ceiling.HitRate || r.Recommendation.HitRate < r.Baselines[0].HitRate+0.2 {
		t.Errorf("hit rates: %.2f recommended, %.2f without settings, %.2f at the ceiling, %.2f in an infinite cache",
			r.Recommendation.HitRate, r.Baselines[0].HitRate, r.Ceiling.HitRate, r.Infinite.HitRate)
	}
	if got := r.Ceiling.score() / best.score(); got > 1 {
		t.Errorf("KV_AWARE has %.2f times the score of the best settings, %+v", got, best)
	}
	if !strings.HasPrefix(r.Verdict, "KV_AWARE, which has no settings, lowers") || r.Recommendation.Strategy != routing.NameKVAware || r.Requests != documents.requests {
		t.Errorf("verdict on %d requests: %s", r.Requests, r.Verdict)
	}
}

func TestLittleToGain(t *testing.T) {
	tests := []struct {
		name string
		w    traffic
		want string
	}{
		{"unrelated prompts", traffic{requests: 60, groups: 1, own: 8, rate: 4}, "Little to gain: prompts share next to nothing."},
		{"one prefix that every cache holds", traffic{requests: 60, groups: 1, preamble: 16, own: 2, rate: 4}, "Little to gain: "},
	}
	for _, test := range tests {
		r := run(t, test.w)
		if !strings.HasPrefix(r.Verdict, test.want) {
			t.Errorf("%s: got %q, want %q", test.name, r.Verdict, test.want)
		}
		if r.Recommendation.Strategy == routing.NamePrefixAware {
			t.Errorf("%s: recommended %s", test.name, r.Recommendation.YAML)
		}
	}
}

// A lower latency without more hits is chance, and none is claimed.
func TestVerdicts(t *testing.T) {
	tests := []struct {
		name           string
		cell, free     Figures // PREFIX_AWARE's and KV_AWARE's
		plain          Figures
		infinite       float64
		want, strategy string
	}{
		{"settings win", figures(0.8, 0, 100), figures(0.7, 0, 110), figures(0.4, 0, 200), 0.9,
			"PREFIX_AWARE with prefix_length 4096 and concurrency_threshold 8 lowers P50 + P90 TTFT by 50 % against RANDOM", "PREFIX_AWARE"},
		{"KV_AWARE wins", figures(0.8, 0, 110), figures(0.8, 0, 100), figures(0.4, 0, 200), 0.9,
			"KV_AWARE, which has no settings, lowers P50 + P90 TTFT by 50 % against RANDOM", "KV_AWARE"},
		{"a tie", figures(0.8, 0, 100), figures(0.8, 0, 101), figures(0.4, 0, 200), 0.9, "KV_AWARE, which has no settings, lowers", "KV_AWARE"},
		{"faster without hits", figures(0.41, 0, 100), figures(0.4, 0, 150), figures(0.4, 0, 200), 0.9,
			"Little to gain: PREFIX_AWARE at its best finds no more in the caches", "KV_AWARE"},
		{"hits without speed", figures(0.8, 0, 198), figures(0.8, 0, 210), figures(0.4, 0, 200), 0.9,
			"Little to gain: PREFIX_AWARE at its best lowers P50 + P90 TTFT by only 1.0 %", "RANDOM"},
		{"slower", figures(0.8, 0, 201), figures(0.8, 0, 201), figures(0.4, 0, 200), 0.9, "Little to gain: KV_AWARE has no lower", "RANDOM"},
		{"nothing shared", figures(0.05, 0, 100), figures(0.05, 0, 200), figures(0, 0, 200), 0.06, "Little to gain: prompts share next to nothing.", "KV_AWARE"},
	}
	for _, test := range tests {
		r := &Result{
			Baselines: []Baseline{{Strategy: routing.NameLeastOutstanding, Figures: figures(0.4, 0, 300)}, {Strategy: routing.NameRandom, Figures: test.plain}},
			Ceiling:   Bound{Figures: test.free},
			Infinite:  Bound{Figures: figures(test.infinite, 0, 50)},
		}
		r.judge(Cell{4096, 8, test.cell})
		if !strings.HasPrefix(r.Verdict, test.want) || r.Recommendation.Strategy != test.strategy {
			t.Errorf("%s: got %s and %q, want %s and %q", test.name, r.Recommendation.Strategy, r.Verdict, test.strategy, test.want)
		}
	}
}

func TestText(t *testing.T) {
	w, err := workload.Parse("rag:documents=8,document=1000,preamble=20,question=20,requests=40,output=4", 1)
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, w)
	if r.Infinite.HitRate < 0.7 || r.Ceiling.HitRate < 0.6 || r.Recommendation.HitRate < 0.6 || r.Requests != 40 {
		t.Errorf("hit rates of %d requests: %.2f recommended, %.2f at the ceiling, %.2f in an infinite cache",
			r.Requests, r.Recommendation.HitRate, r.Ceiling.HitRate, r.Infinite.HitRate)
	}
}

// What is simulated instead of a text computes what the text would, and has one key where the text has one.
func TestDigestsAreAsTheText(t *testing.T) {
	for _, spec := range []string{
		"rag:documents=8,document=1000,question=20,requests=40,output=4",
		"agents:kinds=2,sessions=4,turns=3,requests=12,system=500,output=4",
	} {
		w, err := workload.Parse(spec, 1)
		if err != nil {
			t.Fatal(err)
		}
		d, err := digestOf(w)
		if err != nil {
			t.Fatal(err)
		}
		tuner := newTuner(w, Options{Fleet: fleet})
		unkeyed := simulate.Strategy{Name: routing.NameLeastOutstanding}
		want, errWant := tuner.simulate(t.Context(), w, unkeyed)
		got, errGot := tuner.simulate(t.Context(), d, unkeyed)
		if errWant != nil || errGot != nil || got != want {
			t.Errorf("%s: got %+v (%v), want %+v (%v)", spec, got, errGot, want, errWant)
		}
		partitions(t, w, d)
	}
}

// partitions holds the keys of two workloads to be equal for the same pairs of requests.
func partitions(t *testing.T, a, b workload.Workload) {
	t.Helper()
	for _, length := range lengths {
		inA, inB := map[uint64]uint64{}, map[uint64]uint64{}
		next, stop := iter.Pull(at(b, length).Requests())
		for r := range a.Requests() {
			other, _ := next()
			keyA, okA := simulate.Key(&r, length)
			keyB, okB := simulate.Key(&other, length)
			if a, seen := inA[keyA]; okA != okB || seen && a != keyB {
				t.Fatalf("at %d: requests of one key have two", length)
			}
			if b, seen := inB[keyB]; seen && b != keyA {
				t.Fatalf("at %d: requests of two keys have one", length)
			}
			inA[keyA], inB[keyB] = keyB, keyA
		}
		stop()
	}
}

// Equal runs are equal, and count up to what they plan.
func TestEqualRunsAreEqual(t *testing.T) {
	var last, planned int
	again, err := Run(t.Context(), documents, Options{Fleet: fleet, Progress: func(ended, all int) {
		if ended != last+1 || ended > all {
			t.Errorf("%d of %d after %d", ended, all, last)
		}
		last, planned = ended, all
	}})
	if err != nil || last != planned || last == 0 {
		t.Errorf("ended at %d of %d, error %v", last, planned, err)
	}
	if diff := cmp.Diff(tunedFor(t), again); diff != "" {
		t.Errorf("two runs differ:\n%s", diff)
	}
}

// The configuration takes what is to be pasted into it.
func TestYAMLIsConfiguration(t *testing.T) {
	cell := &Cell{PrefixLength: 4096, ConcurrencyThreshold: 24}
	want := map[string]config.Routing{
		routing.NamePrefixAware:      {Strategy: "PREFIX_AWARE", PrefixLength: 4096, ConcurrencyThreshold: 24},
		routing.NameLeastOutstanding: {Strategy: "LEAST_OUTSTANDING_REQUESTS"},
		routing.NameRandom:           {Strategy: "RANDOM"},
		routing.NameKVAware:          {Strategy: "KV_AWARE"},
	}
	for strategy, want := range want {
		pasted := strings.ReplaceAll(strings.TrimSuffix(routingYAML(strategy, cell), "\n"), "\n", "\n        ")
		text := "pools: {p: {static: [http://10.0.0.1:8000]}}\nendpoints:\n  e:\n    variants:\n      - pool: p\n        " + pasted + "\n"
		cfg, err := config.Parse("warmpath.yaml", []byte(text), func(string) (string, bool) { return "", false }, nil)
		if err != nil {
			t.Fatalf("%s: %v\n%s", strategy, err, text)
		}
		if diff := cmp.Diff(want, cfg.Endpoints["e"].Variants[0].Routing); diff != "" {
			t.Errorf("%s (-want +got):\n%s", strategy, diff)
		}
	}
}

func TestJSON(t *testing.T) {
	text, err := json.Marshal(tunedFor(t))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]json.RawMessage
	var recommendation map[string]any
	var cells []map[string]any
	for _, err := range []error{json.Unmarshal(text, &got), json.Unmarshal(got["recommendation"], &recommendation), json.Unmarshal(got["grid"], &cells)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	figures := []string{"hit_rate", "imbalance", "overflow_share", "ttft_ms"}
	settings := []string{"concurrency_threshold", "prefix_length"}
	for _, test := range []struct {
		name      string
		got, want []string
	}{
		{"result", slices.Sorted(maps.Keys(got)), []string{"baselines", "ceiling", "cliffs", "grid", "infinite_cache", "recommendation", "requests", "verdict"}},
		{"recommendation", slices.Sorted(maps.Keys(recommendation)), slices.Sorted(slices.Values(slices.Concat(settings, figures, []string{"strategy", "yaml"})))},
		{"cell", slices.Sorted(maps.Keys(cells[0])), slices.Sorted(slices.Values(slices.Concat(settings, figures)))},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestReport(t *testing.T) {
	r := tunedFor(t)
	var text, page bytes.Buffer
	report := r.Report("Tuning")
	if err := errors.Join(report.WriteText(&text), report.WriteHTML(&page)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"prefix length ", "threshold ", "LEAST_OUTSTANDING_REQUESTS ", "ceiling: KV_AWARE", "bound: infinite", "best", "Cliff: ", r.Verdict, r.Recommendation.YAML} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, &text)
		}
	}
	for _, want := range []string{"<svg", "too long", "All that was simulated"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestFailures(t *testing.T) {
	long := traffic{requests: 5, groups: 1, own: 1000, rate: 1}
	if _, err := Run(t.Context(), long, Options{Fleet: fleet}); !errors.Is(err, errUnanswered) {
		t.Errorf("prompts beyond the cache: got %v, want %v", err, errUnanswered)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, documents, Options{Fleet: fleet}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: got %v, want %v", err, context.Canceled)
	}
	if _, err := Run(t.Context(), broken{}, Options{Fleet: fleet}); err == nil || !strings.Contains(err.Error(), "row 2") {
		t.Errorf("bad trace: got %v, want its error", err)
	}
}

// broken is a trace that ends in an error.
type broken struct{ traffic }

func (broken) Requests() iter.Seq[workload.Request] {
	return traffic{requests: 1, groups: 1, own: 1, rate: 1}.Requests()
}

func (broken) Err() error { return errors.New("row 2 is bad") }

// listed is a workload of given requests.
type listed []workload.Request

func (l listed) Name() string                         { return "listed" }
func (l listed) Err() error                           { return nil }
func (l listed) Requests() iter.Seq[workload.Request] { return slices.Values(l) }
