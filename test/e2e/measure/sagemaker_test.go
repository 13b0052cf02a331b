//go:build e2e

package measure

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/emulator"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/simulate"
	"github.com/warmpath/warmpath/internal/workload"
)

// TestSageMaker compares PREFIX_AWARE with RANDOM on the shape of Amazon's own benchmark, whose announcement gives a hit rate that
// rises from 25 % to 82 % and a P50 TTFT that falls by 77 %.
func TestSageMaker(t *testing.T) {
	w, err := workload.Parse("sagemaker", 1)
	if err != nil {
		t.Fatal(err)
	}
	o := simulate.Options{Replicas: 7, CacheTokens: 1_300_000, Cost: emulator.Cost70B, Seed: 1}
	var runs []*bench.Run
	for _, s := range []simulate.Strategy{{Name: routing.NameRandom}, {Name: routing.NameLeastOutstanding}, prefixAware(4096, 16)} {
		o.Strategy = s
		runs = append(runs, run(t, w, o))
	}
	var out strings.Builder
	table(&out, runs)
	random, aware := runs[0], runs[2]
	t.Logf("SageMaker's shape, 7 replicas\n%s\nhit rate %.0f -> %.0f %% (published: 25 -> 82), P50 TTFT %+.0f %% (published: -77)", &out,
		100**random.HitRate, 100**aware.HitRate, 100*(aware.TTFT.P50/random.TTFT.P50-1))
	if *aware.HitRate < 0.80 || aware.TTFT.P50 > 0.23*random.TTFT.P50 {
		t.Errorf("hit rate %.3f, P50 TTFT %.2f of RANDOM's; want at least the published 0.82 within 2 points, and at most 0.23",
			*aware.HitRate, aware.TTFT.P50/random.TTFT.P50)
	}
}
