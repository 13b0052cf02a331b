package simulate

import (
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/emulator"
	"github.com/warmpath/warmpath/internal/workload"
)

// Two prompts that share more than half: a cache of blocks holds both, and the common blocks once; among whole prompts the second takes
// the place of the first.
func TestEnginesCountTheirCaches(t *testing.T) {
	w := rows{list: []workload.Request{row(0, 1, 1, 2, 3), row(time.Second, 1, 1, 2, 4), row(2*time.Second, 1, 1, 2, 3, 5)}}
	for engine, cached := range map[string]int64{"": 2*256 + 3*256, "vllm": 2*256 + 3*256, "llamacpp": 2*256 + 2*256} {
		run := simulate(t, w, Options{Replicas: 1, Engine: engine, Slots: 1, Strategy: Strategy{Name: "KV_AWARE"}})
		if got := int64(*run.HitRate*float64(run.PromptTokens) + 0.5); got != cached {
			t.Errorf("%s: got %d cached tokens, want %d", engine, got, cached)
		}
	}
}

// Of text llama.cpp finds every token, not only whole blocks: a prompt that comes again is computed but for its last one.
func TestWholePromptsCountTokens(t *testing.T) {
	w := workload.Hot{Shape: workload.Shape{AnswerTokens: 1, Rate: 0.1}, Count: 2, HotShare: 1, PrefixTokens: 103, OwnTokens: 1}
	run := simulate(t, rows{list: slices.Collect(w.Requests())}, Options{Replicas: 1, Engine: "llamacpp", Slots: 1})
	if got, least := *run.HitRate*float64(run.PromptTokens), 103.0; got < least {
		t.Errorf("got %v cached tokens, want %v or more", got, least)
	}
}

func TestEnginesShareProcessors(t *testing.T) {
	cost := emulator.Cost{T0: 1, P: 1}
	w := rows{list: []workload.Request{row(0, 1, 1), row(0, 1, 2), row(0, 1, 3), row(time.Minute, 1, 4)}}
	for processors, want := range map[int][2]float64{0: {257, 257}, 1: {257, 771}, 2: {257, 385.5}, 3: {257, 257}} {
		run := simulate(t, w, Options{Replicas: 3, Processors: processors, Cost: cost})
		if got := [2]float64{run.TTFT.P50, run.TTFT.P99}; !near(got[0], want[0]) || !near(got[1], want[1]) {
			t.Errorf("%d processors: got a TTFT of %v ms at P50 and P99, want %v", processors, got, want)
		}
	}
}

func TestWarmupIsNotCounted(t *testing.T) {
	w := documents(4, 3, time.Second)
	run := simulate(t, w, Options{Replicas: 1, Warmup: bench.Warmup{Requests: 4}})
	if run.Requests != 8 || *run.HitRate != 0.8 {
		t.Errorf("got %d requests, hit rate %v; want 8 and 0.8", run.Requests, *run.HitRate)
	}
}
