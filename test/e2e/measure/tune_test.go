//go:build e2e

package measure

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/emulator"
	"github.com/warmpath/warmpath/internal/simulate"
	"github.com/warmpath/warmpath/internal/tune"
	"github.com/warmpath/warmpath/internal/workload"
)

// nearBest is how much more than the best pair's P50 + P90 TTFT the recommended pair's may be.
const nearBest = 1.05

// TestTuneFindsTheBestSettings holds the recommendation against every pair of settings.
func TestTuneFindsTheBestSettings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, workload string
		replicas       int
		cacheTokens    int
	}{
		// A sixteenth of the prefixes, of the requests and of each cache.
		{"sagemaker", "sagemaker:prefixes=25,requests=900", 7, 81_250},
		{"uniform documents", "rag:documents=32,requests=500", 4, 75_000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, err := workload.Parse(tt.workload, 1)
			if err != nil {
				t.Fatal(err)
			}
			fleet := simulate.Options{Replicas: tt.replicas, CacheTokens: tt.cacheTokens, Cost: emulator.Cost70B, Seed: 1}
			got := tuned(t, w, tune.Options{Fleet: fleet})
			best := slices.MinFunc(tuned(t, w, tune.Options{Fleet: fleet, Exhaustive: true}).Grid, func(a, b tune.Cell) int {
				return cmp.Compare(score(&a), score(&b))
			})
			t.Logf("recommended %s\nbest        %s\n%s", describe(&got.Recommendation.Cell), describe(&best), got.Verdict)
			if score(&got.Recommendation.Cell) > nearBest*score(&best) {
				t.Errorf("recommended %s, want within 5 %% of %s", describe(&got.Recommendation.Cell), describe(&best))
			}
			for _, kind := range []string{tune.PrefixTooShort, tune.ThresholdTooLow} {
				if !slices.ContainsFunc(got.Cliffs, func(c tune.Cliff) bool { return c.Kind == kind }) {
					t.Errorf("no cliff %s among %+v", kind, got.Cliffs)
				}
			}
		})
	}
}

// TestTuneSaysThatThereIsLittleToGain is about prompts that share nothing but how a chat begins, and about prompts that share nothing.
func TestTuneSaysThatThereIsLittleToGain(t *testing.T) {
	t.Parallel()
	unrelated, err := workload.Parse("unrelated", 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]workload.Workload{
		"ShareGPT":  openTrace(t, shareGPT, workload.TraceOptions{BlockTokens: 16}),
		"unrelated": unrelated,
	} {
		t.Run(name, func(t *testing.T) {
			got := tuned(t, w, tune.Options{Fleet: simulate.Options{Replicas: 4, CacheTokens: 150_000, Cost: emulator.Cost70B, Seed: 1}})
			t.Log(got.Verdict)
			if !strings.HasPrefix(got.Verdict, "Little to gain") {
				t.Errorf("got %q, want little to gain", got.Verdict)
			}
		})
	}
}

func tuned(t *testing.T, w workload.Workload, o tune.Options) *tune.Result {
	t.Helper()
	result, err := tune.Run(t.Context(), w, o)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// score is what tuning makes small, in milliseconds.
func score(c *tune.Cell) float64 { return c.TTFT.P50 + c.TTFT.P90 }

func describe(c *tune.Cell) string {
	return fmt.Sprintf("%d/%d: hit rate %.3f, overflow %.3f, TTFT P50 %.0f and P90 %.0f ms",
		c.PrefixLength, c.ConcurrencyThreshold, c.HitRate, c.OverflowShare, c.TTFT.P50, c.TTFT.P90)
}
