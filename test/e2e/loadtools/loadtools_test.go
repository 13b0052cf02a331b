//go:build e2eloadtools

// Package loadtools runs load tools that others wrote against Warmpath over real llama.cpp servers, and bench beside them.
package loadtools

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/test/e2e/lab"
)

const (
	replicas = 4
	// contextTokens has room for the longest prompt.
	contextTokens = 8192
	// tolerance is how far two figures of one thing may be apart, as a share of the second.
	tolerance = 0.10
)

// TestLoadTools lets each tool measure Warmpath and bench measure the same requests after it, each over engines whose caches start
// cold. They must agree on how many requests there were, on what of the prompts was cached, and on the P50 of TTFT.
func TestLoadTools(t *testing.T) {
	l := lab.New(t)
	var all []figures
	for _, tool := range tools {
		t.Run(tool.name, func(t *testing.T) {
			programs := tool.pypi.Install(t)
			var requests string
			var sent int
			theirs := measure(t, l, func(target string) figures {
				r := record(t, target)
				f := tool.run(t, programs, r.url)
				requests, sent = r.trace(t)
				return f
			})
			ours := measure(t, l, func(target string) figures {
				return bench(t, l, "--target", target, "--trace", requests, "--concurrency", fmt.Sprint(tool.closed))
			})
			theirs.run, ours.run = tool.name, "bench, the same"
			all = append(all, theirs, ours)
			if counted := theirs.requests; counted > sent || counted < sent-tool.closed || ours.requests != sent {
				t.Errorf("%s counted %d requests and bench %d, where %d were sent", tool.name, counted, ours.requests, sent)
			}
			compare(t, theirs, ours)
		})
	}
	t.Logf("%d llama.cpp servers behind KV_AWARE, %d slots and %d MiB of cache each\n%s", replicas, lab.Slots, lab.CacheMiB, table(all))
}

// measure has a player measure a new Warmpath in front of new engines, and adds what these say themselves.
func measure(t *testing.T, l lab.Lab, play func(target string) figures) figures {
	t.Helper()
	engines, stopEngines := l.StartEngines(t, replicas, contextTokens)
	defer stopEngines()
	data, admin := lab.Reserve(t), lab.Reserve(t)
	stop, said := l.StartLoggedWarmpath(t, fmt.Sprintf(`data: {listen: '%s', drain: {delay: 0s, limit: 10s}}
admin: {listen: '%s'}
pools:
  engines: {engine: llamacpp, static: [%s]}
endpoints:
  chat: {models: [%s], variants: [{pool: engines, routing: {strategy: KV_AWARE}}]}
`, data, admin, strings.Join(engines, ", "), lab.ModelName), admin)
	f := play("http://" + data)
	cached := lab.Sum(t, engines, "llamacpp:prompt_tokens_cached_total")
	f.engines = cached / (cached + lab.Sum(t, engines, "llamacpp:prompt_tokens_total"))
	stop()
	log, err := os.ReadFile(said)
	if err != nil {
		t.Fatalf("warmpath: log: %v", err)
	}
	f.warmpath = loggedTTFT(log)
	return f
}

// bench plays requests as the flags say.
func bench(t *testing.T, l lab.Lab, flags ...string) figures {
	t.Helper()
	var report struct {
		Runs []struct {
			Requests int
			Failed   int
			Refused  int
			HitRate  float64 `json:"hit_rate"`
			TTFT     struct {
				P50 float64
			} `json:"ttft_ms"`
		}
	}
	text := l.Warmpath(t, append([]string{"bench", "--json"}, flags...)...)
	if err := json.Unmarshal(text, &report); err != nil || len(report.Runs) != 1 {
		t.Fatalf("bench: %v in %s", err, text)
	}
	r := report.Runs[0]
	return figures{requests: r.Requests, failed: r.Failed + r.Refused, cached: r.HitRate, ttft: r.TTFT.P50}
}

// compare holds a player's figures against those of Warmpath and the engines in the same run, and a tool's against bench's.
func compare(t *testing.T, theirs, ours figures) {
	t.Helper()
	for _, f := range []figures{theirs, ours} {
		if f.failed > 0 {
			t.Errorf("%s: %d failed requests, want 0", f.run, f.failed)
		}
		if !math.IsNaN(f.cached) && apart(f.cached, f.engines, 0.01) {
			t.Errorf("%s: %.1f %% cached, where the engines have counted %.1f %%", f.run, 100*f.cached, 100*f.engines)
		}
		if apart(f.ttft, f.warmpath, tolerance) {
			t.Errorf("%s: TTFT P50 %.1f ms, where Warmpath has logged %.1f ms", f.run, f.ttft, f.warmpath)
		}
	}
	if apart(theirs.engines, ours.engines, tolerance) {
		t.Errorf("%.1f %% cached under %s, %.1f %% under bench", 100*theirs.engines, theirs.run, 100*ours.engines)
	}
	if apart(theirs.ttft, ours.ttft, tolerance) {
		t.Errorf("TTFT P50 %.1f ms by %s, %.1f ms by bench", theirs.ttft, theirs.run, ours.ttft)
	}
}

// apart says that x is further from y than a share of y, or that either is not a number.
func apart(x, y, share float64) bool { return !(math.Abs(x-y) <= share*y) }
