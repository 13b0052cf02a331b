//go:build e2e

package measure

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/simulate"
)

// TestConversation compares the strategies on the Mooncake conversation trace. All of its prompts share their first 512 tokens,
// 2,048 characters: a shorter prefix window sees one prefix, and sends everything to one replica until that is at its threshold. It is
// not parallel: it also times the simulator.
func TestConversation(t *testing.T) {
	w := openConversation(t)
	highest := bound(t, w)
	if math.Abs(highest-0.366) > 0.001 {
		t.Errorf("an infinite cache holds %.4f of the blocks, want 0.366", highest)
	}
	strategies := []simulate.Strategy{random, outstanding, aware}
	for _, length := range []int{1024, 4096, 8192} {
		for _, threshold := range []int{4, 8, 16, 32} {
			strategies = append(strategies, prefixAware(length, threshold))
		}
	}
	var runs []*bench.Run
	for _, s := range strategies {
		begin := time.Now()
		r := run(t, w, fleet(s))
		if took := time.Since(begin); took > 30*time.Second {
			t.Errorf("%s: an hour took %v to simulate, want a few seconds", r.Label(), took)
		}
		if *r.HitRate > highest {
			t.Errorf("%s: hit rate %.4f is above the %.4f of an infinite cache", r.Label(), *r.HitRate, highest)
		}
		runs = append(runs, r)
	}
	var out strings.Builder
	table(&out, runs)
	t.Logf("Mooncake conversation, 8 replicas, an infinite shared cache: %.3f of the blocks\n%s", highest, &out)

	// An independent model with the constants of the preset gives these for LEAST_OUTSTANDING_REQUESTS.
	byLoad, pairs := runs[1], runs[3:]
	within(t, "TTFT P50 of LEAST_OUTSTANDING_REQUESTS", byLoad.TTFT.P50, 832, 0.15)
	within(t, "TTFT P90 of LEAST_OUTSTANDING_REQUESTS", byLoad.TTFT.P90, 4700, 0.15)
	short, long := pairs[3], pairs[7] // 1024/32 and 4096/32
	if short.Imbalance() < 2*long.Imbalance() && short.OverflowShare < 0.5 {
		t.Errorf("a window of 1024 characters: imbalance %.2f, overflow %.2f; want one crowded replica, or most requests overflowing",
			short.Imbalance(), short.OverflowShare)
	}
	compared := &results{aware: runs[2], rivals: runs}
	compared.hold(t, atMost(0.50, "TTFT P50", p50, outstandingName), atMost(0.52, "TTFT P90", p90, outstandingName), atMost(0.57, "TTFT P50", p50, prefixName))
}

// within checks a figure against another one, give or take a share of it.
func within(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*want {
		t.Errorf("%s = %.0f, want %.0f within %.0f %%", what, got, want, 100*share)
	}
}
