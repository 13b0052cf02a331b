//go:build e2ereal

// Package prediction holds the simulator to real engines: their measured costs, then the same requests in virtual time and in real time.
package prediction

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/emulator"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/simulate"
	"github.com/warmpath/warmpath/internal/workload"
	"github.com/warmpath/warmpath/test/e2e/lab"
)

const (
	replicas      = 4
	contextTokens = 8192
	// played is what is predicted: 12 documents of 3,000 characters, which are as many tokens of the engine's and 750 of a workload's.
	played    = "rag:documents=12,document=750,question=15,preamble=1,rate=2,output=16,requests=144"
	cacheFill = 24 // of these requests, that are not counted; of fewer others chance would decide what RANDOM hits
	// prompt and question are the lengths of its prompts and of what they do not share, in tokens of a workload.
	prompt, question = 768, 15

	characters  = 4   // that a token of a workload has; here each is a token of the engine's
	batchTokens = 512 // that the engine computes in a step
	kibibytes   = 1   // that a token takes in the cache

	// draws is how many simulations, each with its own chance, show what chance does.
	draws = 29
	// margin is how far a figure may be from all of them, as a share.
	margin = 0.15
)

var strategies = []simulate.Strategy{
	{Name: routing.NameRandom},
	{Name: routing.NameLeastOutstanding},
	{Name: routing.NamePrefixAware, Options: routing.Options{PrefixLength: 2048, ConcurrencyThreshold: 8}},
	{Name: routing.NameKVAware},
}

// TestSimulatePredictsRealEngines measures what one engine's steps cost, as docs/measuring.md tells users to, and holds four of them to
// what the simulator makes of that.
func TestSimulatePredictsRealEngines(t *testing.T) {
	l := lab.New(t)
	cost := calibrate(t, l)
	t.Logf("--preset 8b:t0=%.3g,p=%.3g,d=%.3g,k=%.3g,a=%.3g,m=%.3g", cost.T0, cost.P, cost.D, cost.K, cost.A, cost.M)
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "\tHIT RATE\tsimulated\tTTFT P50\tsimulated\tTTFT P90\tsimulated\tREQUESTS PER REPLICA")
	for _, s := range strategies {
		real, simulated := measure(t, l, s), predict(t, cost, s)
		hits, p50, p90 := spread(simulated, hitRate), spread(simulated, medianTTFT), spread(simulated, tailTTFT)
		fmt.Fprintf(table, "%s\t%.1f %%\t%s\t%.0f ms\t%s\t%.0f ms\t%s\t%v\n", s.Name,
			hitRate(real), hits.format("%.1f"), real.TTFT.P50, p50.format("%.0f"), real.TTFT.P90, p90.format("%.0f"), perReplica(real))
		hits.hold(t, s.Name+": hit rate", hitRate(real))
		p50.hold(t, s.Name+": TTFT P50", real.TTFT.P50)
	}
	table.Flush()
	t.Logf("median of %d simulations, lowest to highest\n%s", draws, &text)
}

// calibrate measures one engine that has nothing else to do.
func calibrate(t *testing.T, l lab.Lab) emulator.Cost {
	t.Helper()
	urls, stop := l.StartEngines(t, 1, contextTokens)
	defer stop()
	seed := uint64(0)
	run := func(concurrency int, spec string, arguments ...any) *bench.Run {
		seed++ // or prompts of one run would begin as those of another, which are cached
		return play(t, urls[0], fmt.Sprintf(spec, arguments...), seed, bench.Options{Concurrency: concurrency, Warmup: bench.Warmup{Requests: 2}})
	}
	half := run(1, "unrelated:prompt=%d,output=1,requests=14", prompt/2).TTFT.P50
	full := run(1, "unrelated:prompt=%d,output=1,requests=14", prompt).TTFT.P50
	warm := run(1, "hot:share=1,prefix=%d,question=%d,output=1,requests=26", prompt-question, question).TTFT.P50
	short := run(1, "unrelated:prompt=1,output=100,requests=12").ITL.P50
	long := run(1, "unrelated:prompt=%d,output=100,requests=12", prompt).ITL.P50
	both := run(lab.Slots, "unrelated:prompt=1,output=100,requests=22").ITL.P50
	t.Logf("TTFT of %d tokens %.1f ms, of %d %.1f ms, of a hit %.1f ms; ITL %.2f ms, behind %d tokens %.2f ms, beside another %.2f ms",
		prompt/2, half, prompt, full, warm, short, prompt, long, both)

	c := emulator.Cost{D: max(0, both-short) / (lab.Slots - 1), K: max(0, long-short) / prompt}
	c.T0 = max(0.01, short-c.D)
	steps := math.Ceil(prompt * characters / float64(batchTokens))
	half, full, warm = half-c.T0*steps/2, full-c.T0*steps, warm-c.T0
	c.A = max(0, 4*(full-2*half)/(prompt*prompt))
	c.P = max(0, (4*half-full)/prompt)
	c.M = warm / (c.P + c.A*prompt)
	return c
}

// measure plays the requests through Warmpath to engines whose caches start cold.
func measure(t *testing.T, l lab.Lab, s simulate.Strategy) *bench.Run {
	t.Helper()
	urls, stopEngines := l.StartEngines(t, replicas, contextTokens)
	defer stopEngines()
	data, admin := lab.Reserve(t), lab.Reserve(t)
	settings := ""
	if s.Options.PrefixLength > 0 {
		settings = fmt.Sprintf(", prefix_length: %d, concurrency_threshold: %d", s.Options.PrefixLength, s.Options.ConcurrencyThreshold)
	}
	defer l.StartWarmpath(t, fmt.Sprintf(`data:
  listen: %s
  drain: {delay: 0s, limit: 10s}
admin: {listen: %s}
pools:
  engines: {engine: llamacpp, static: [%s]}
endpoints:
  chat:
    variants:
      - pool: engines
        routing: {strategy: %s%s}
`, data, admin, strings.Join(urls, ", "), s.Name, settings), admin)()
	return play(t, "http://"+data, played, 1, bench.Options{Warmup: bench.Warmup{Requests: cacheFill}})
}

func play(t *testing.T, url, spec string, seed uint64, o bench.Options) *bench.Run {
	t.Helper()
	w, err := workload.Parse(spec, seed)
	if err != nil {
		t.Fatal(err)
	}
	o.Target, o.Timeout = url, time.Minute
	run, err := bench.Play(t.Context(), w.Requests(), o)
	if err != nil {
		t.Fatal(err)
	}
	if run.Failed+run.Refused > 0 || run.HitRate == nil {
		t.Fatalf("%s: %d of %d requests failed: %v; hit rate known: %v", spec, run.Failed+run.Refused, run.Requests, run.Errors, run.HitRate != nil)
	}
	return run
}

// predict simulates what measure does.
func predict(t *testing.T, cost emulator.Cost, s simulate.Strategy) (runs []*bench.Run) {
	t.Helper()
	for seed := range uint64(draws) {
		w, err := workload.Parse(played, seed) // PREFIX_AWARE places by hashes: which documents meet is a draw, too
		if err != nil {
			t.Fatal(err)
		}
		run, err := simulate.Run(context.Background(), w, simulate.Options{
			Replicas: replicas, Engine: "llamacpp", CacheTokens: lab.CacheMiB << 10 / kibibytes / characters, Slots: lab.Slots,
			Budget: batchTokens / characters, Processors: runtime.NumCPU(), Cost: cost, Strategy: s, Seed: seed,
			Warmup: bench.Warmup{Requests: cacheFill},
		})
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	return runs
}

// figures are those of all draws, sorted.
type figures []float64

func spread(runs []*bench.Run, of func(*bench.Run) float64) (f figures) {
	for _, r := range runs {
		f = append(f, of(r))
	}
	slices.Sort(f)
	return f
}

func (f figures) format(verb string) string {
	return fmt.Sprintf(strings.ReplaceAll("V (V to V)", "V", verb), f[len(f)/2], f[0], f[len(f)-1])
}

func (f figures) hold(t *testing.T, what string, real float64) {
	t.Helper()
	if least, most := f[0]*(1-margin), f[len(f)-1]*(1+margin); real < least || real > most {
		t.Errorf("%s: %.1f, want %.1f to %.1f", what, real, least, most)
	}
}

func hitRate(r *bench.Run) float64    { return 100 * *r.HitRate }
func medianTTFT(r *bench.Run) float64 { return r.TTFT.P50 }
func tailTTFT(r *bench.Run) float64   { return r.TTFT.P90 }

func perReplica(r *bench.Run) (requests []int) {
	for _, p := range r.PerReplica {
		requests = append(requests, p.Requests)
	}
	return requests
}
