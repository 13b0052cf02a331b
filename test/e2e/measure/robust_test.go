//go:build e2e

package measure

import (
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/simulate"
	"github.com/warmpath/warmpath/internal/workload"
)

// disturbance is something about engines that KV_AWARE is not told, or is told wrongly.
type disturbance struct {
	name   string
	change func(*simulate.Options)
	figure func(*bench.Run) float64
	most   float64 // times the same figure of the undisturbed fleet
}

// disturbances are ordered by what they are about: speed, tokens, the cache.
func disturbances() []disturbance {
	return []disturbance{
		{"one replica is two times slower", slower(2, 0, 1), p50, 1.10},
		{"tokens are 1.6 times longer or shorter than believed", func(o *simulate.Options) { o.Wordiness = 1.6 }, p50, 1.10},
		{"answers are not streamed", func(o *simulate.Options) { o.Unstreamed = true }, e2e, 1.10},
		{"answers are not streamed, tokens not reported", func(o *simulate.Options) { o.Unstreamed, o.Unreported = true, true }, e2e, 1.10},
		{"tokens are not reported", func(o *simulate.Options) { o.Unreported = true }, p50, 1.10},
		{"metrics do not tell the size of the cache", func(o *simulate.Options) { o.Published = -1 }, p50, 1.10},
		{"nor are tokens reported", func(o *simulate.Options) { o.Published, o.Unreported = -1, true }, p50, 1.10},
		{"metrics tell three times the size", func(o *simulate.Options) { o.Published = 3 * o.CacheTokens }, p50, 1.10},
		{"metrics tell a third of the size", func(o *simulate.Options) { o.Published = o.CacheTokens / 3 }, p50, 1.10},
		// Reports are what corrects them. Without any, too much costs little, and too little costs what it hides.
		{"three times the size, tokens not reported", func(o *simulate.Options) { o.Published, o.Unreported = 3*o.CacheTokens, true }, p50, 1.10},
		{"a third of the size, tokens not reported", func(o *simulate.Options) { o.Published, o.Unreported = o.CacheTokens/3, true }, p50, 1.30},
	}
}

// TestKVAwareBears compares KV_AWARE with itself undisturbed, on the first part of the Mooncake conversation trace.
func TestKVAwareBears(t *testing.T) {
	t.Parallel()
	w := workload.Limit(openConversation(t), 6000)
	undisturbed := run(t, w, fleet(aware))
	for _, d := range disturbances() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			o := fleet(aware)
			d.change(&o)
			compare(t, run(t, w, o), undisturbed, d.figure, d.most)
		})
	}
}

// TestKVAwareLearnsThatEnginesHaveSlowed slows the whole fleet down four times when a fifth of the requests has come. It must then be
// as good as where it has known nothing else.
func TestKVAwareLearnsThatEnginesHaveSlowed(t *testing.T) {
	t.Parallel()
	const rate, part = 0.75, 3000
	w := workload.Limit(openTrace(t, conversation, workload.TraceOptions{Rate: rate}), part)
	w = workload.Spread(w, 4*conversationStep, 1)
	always, later := fleet(aware), fleet(aware)
	slower(4, 0, always.Replicas)(&always)
	slower(4, part/5*time.Second*4/3, later.Replicas)(&later)
	compare(t, run(t, w, later), run(t, w, always), p50, 1.10)
}

// TestKVAwareFillsAReplicaThatJoins adds a ninth replica to the fleet, cold.
func TestKVAwareFillsAReplicaThatJoins(t *testing.T) {
	t.Parallel()
	const at = 5 * time.Minute
	w := workload.Limit(openConversation(t), 6000)
	o := fleet(aware)
	without := run(t, w, o)
	o.SlowStart, o.Incidents = 10*time.Second, []simulate.Incident{{Kind: simulate.Join, At: at}}
	with := run(t, w, o)
	compare(t, with, without, p99, 1.02)
	after := 0
	for r := range w.Requests() {
		if r.At >= at {
			after++
		}
	}
	got, share := with.PerReplica[8].Requests, float64(after)/9
	t.Logf("the new replica got %d requests, %.0f would be its part", got, share)
	if float64(got) < 0.75*share {
		t.Errorf("the new replica got %d requests, want nearly the %.0f that are its part", got, share)
	}
}

// compare holds a figure to so many times that of another run.
func compare(t *testing.T, got, undisturbed *bench.Run, figure func(*bench.Run) float64, most float64) {
	t.Helper()
	t.Logf("%.0f ms, undisturbed %.0f: %+.1f %%; hit rate %.3f and %.3f", figure(got), figure(undisturbed),
		100*(figure(got)/figure(undisturbed)-1), *got.HitRate, *undisturbed.HitRate)
	if figure(got) > most*figure(undisturbed) {
		t.Errorf("%.0f ms, want at most %.2f times the %.0f ms of %s undisturbed", figure(got), most, figure(undisturbed), routing.NameKVAware)
	}
}

// slower makes the first replicas of a fleet slower from a time on.
func slower(times float64, from time.Duration, replicas int) func(*simulate.Options) {
	return func(o *simulate.Options) {
		for i := range replicas {
			o.Incidents = append(o.Incidents, simulate.Incident{Kind: simulate.Slow, Replica: i + 1, Factor: times, At: from})
		}
	}
}
