package tune

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/workload"
)

// figures with a hit rate, an overflow share and a TTFT.
func figures(hits, overflow, ttft float64) Figures {
	return Figures{HitRate: hits, OverflowShare: overflow, Imbalance: 1, TTFT: bench.Quantiles{P50: ttft / 3, P90: 2 * ttft / 3}}
}

func TestHigherThresholdsThanAnyoneReachedAreKnown(t *testing.T) {
	g := grid{{1024, 8}: figures(0.5, 0.1, 100), {1024, 16}: figures(0.6, 0, 90), {2048, 8}: figures(0.7, 0, 80)}
	tests := []struct {
		at    settings
		known bool
		hits  float64
	}{
		{settings{1024, 8}, true, 0.5}, {settings{1024, 16}, true, 0.6}, {settings{1024, 24}, true, 0.6}, {settings{1024, 1024}, true, 0.6},
		{settings{1024, 4}, false, 0}, {settings{2048, 4}, false, 0}, {settings{2048, 16}, true, 0.7}, {settings{4096, 16}, false, 0},
	}
	for _, test := range tests {
		if f, known := g.find(test.at); known != test.known || f.HitRate != test.hits {
			t.Errorf("%v: got %v with hit rate %g, want %v with %g", test.at, known, f.HitRate, test.known, test.hits)
		}
	}
}

func TestBest(t *testing.T) {
	tests := []struct {
		name string
		g    grid
		want settings
	}{
		{"lowest score", grid{{1024, 8}: figures(0.8, 0, 100), {4096, 8}: figures(0.8, 0, 90)}, settings{4096, 8}},
		{"a tie goes to the shorter window", grid{{1024, 16}: figures(0.8, 0, 101), {4096, 8}: figures(0.8, 0, 100)}, settings{1024, 16}},
		{"then to the lower threshold", grid{{1024, 16}: figures(0.8, 0, 100), {1024, 8}: figures(0.8, 0, 101)}, settings{1024, 8}},
		{"but not at a cliff's edge", grid{{1024, 16}: figures(0.8, 0, 100), {1024, 8}: figures(0.7, 0.1, 101)}, settings{1024, 16}},
	}
	for _, test := range tests {
		if got := test.g.best(); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

func TestCliffs(t *testing.T) {
	g := grid{
		{1024, 8}: figures(0.2, 0.5, 300), {2048, 8}: figures(0.3, 0.4, 200), {4096, 8}: figures(0.8, 0.1, 100),
		{8192, 8}: figures(0.78, 0, 110), {16384, 8}: figures(0.69, 0, 112), {32768, 8}: figures(0.5, 0, 180),
		{4096, 16}: figures(0.82, 0.05, 120), {4096, 64}: figures(0.85, 0, 150),
		{4096, 4}: figures(0.75, 0.2, 120), {4096, 2}: figures(0.72, 0.4, 126), {4096, 1}: figures(0.4, 0.6, 300),
	}
	want := map[string]int{PrefixTooShort: 2048, PrefixTooLong: 16384, ThresholdTooLow: 2, ThresholdTooHigh: 64}
	if diff := cmp.Diff(want, kinds(g.cliffs(settings{4096, 8}))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	flat := grid{{1024, 8}: figures(0.8, 0, 100), {2048, 8}: figures(0.8, 0, 101)}
	if got := flat.cliffs(settings{1024, 8}); got == nil || len(got) > 0 {
		t.Errorf("flat: got %v, want an empty list", got)
	}
}

// An infinite cache finds all whole blocks that any earlier request had, but never the last token of a prompt.
func TestCeilingCountsWhatWasThereBefore(t *testing.T) {
	request := func(tokens int, blocks ...uint64) workload.Request {
		return workload.Request{Blocks: blocks, BlockTokens: 10, PromptTokens: tokens}
	}
	u := &uncached{Workload: listed{
		request(30, 1, 2, 3), request(30, 1, 2, 4), request(30, 1, 2, 3), request(25, 1, 5, 6), request(25, 1, 5, 6), request(20, 9, 2),
	}}
	var left []int
	for r := range u.Requests() {
		if r.Blocks == nil || len(r.Blocks) > 0 {
			t.Errorf("blocks: got %v, want none", r.Blocks)
		}
		left = append(left, r.PromptTokens)
	}
	if want := []int{30, 10, 1, 15, 5, 20}; !slices.Equal(left, want) || u.cached != 20+29+10+20 || u.prompts != 160 || u.requests != 6 {
		t.Errorf("got %v left, %d of %d cached, want %v, 79 of 160", left, u.cached, u.prompts, want)
	}
}
