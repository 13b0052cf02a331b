//go:build e2e

package fleet

import (
	"testing"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/workload"
)

// slotRig is four engines on which load and hits are all there is: each has four slots that do not slow each other down and a cache
// for six prefixes of 2,000 tokens. A request takes 100 ms, and 0.1 ms for each token that is not cached.
var slotRig = []string{"--preset", "slots", "--slots", "4", "--cache-tokens", "12800"}

// TestSlotRig keeps the slots of the fleet busy twice over. What one prefix by LEAST_OUTSTANDING_REQUESTS gives, where every request
// hits and load is even, is what this machine can do: 155 requests a second where it is quiet.
func TestSlotRig(t *testing.T) {
	one := "hot:share=1,prefix=2000,question=20,output=1,requests=1200"
	plays := []struct {
		name, strategy, spec string
		least                float64 // share of the ceiling, the first of them: some percent less than in simulation, for a busy machine
		got                  *bench.Run
	}{
		{"ceiling", "LEAST_OUTSTANDING_REQUESTS", one, 1, nil},
		{"16 equal prefixes", "KV_AWARE", "rag:documents=16,document=2000,question=20,preamble=1,output=1,requests=1200", 0.88, nil},
		{"one prefix", "KV_AWARE", one, 0.93, nil},
		{"a hot prefix and 15 others", "KV_AWARE", "hot:share=0.6,others=15,prefix=2000,question=20,output=1,requests=1200", 0.88, nil},
	}
	t.Run("play", func(t *testing.T) {
		for i := range plays {
			t.Run(plays[i].name, func(t *testing.T) {
				t.Parallel() // they leave most of a machine idle
				plays[i].got = playSlots(t, plays[i].strategy, plays[i].spec)
			})
		}
	})
	if t.Failed() {
		return
	}
	ceiling := plays[0].got.RequestsPerSecond
	for _, p := range plays {
		t.Logf("%s: %.1f requests a second, %.1f %% cached; the ceiling is %.1f", p.name, p.got.RequestsPerSecond, 100**p.got.HitRate, ceiling)
		if p.got.RequestsPerSecond < p.least*ceiling {
			t.Errorf("%s: %.1f requests a second, want at least %.2f times %.1f", p.name, p.got.RequestsPerSecond, p.least, ceiling)
		}
	}
}

// playSlots lets 32 clients ask a new router before new engines, each at once again when it has been answered.
func playSlots(t *testing.T, strategy, spec string) *bench.Run {
	t.Helper()
	w, err := workload.Parse(spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	engines := startEngines(t, 4, slotRig...)
	r := startRouter(t, configuration(strategy, engines...))
	got, err := bench.Play(t.Context(), w.Requests(), bench.Options{Target: r.data, Concurrency: 32, Warmup: bench.Warmup{Requests: 200}})
	if err != nil {
		t.Fatal(err)
	}
	r.kill()
	for _, e := range engines {
		e.kill()
	}
	if got.Failed+got.Refused > 0 || got.HitRate == nil {
		t.Fatalf("%s: %d requests failed, %d were refused: %v", strategy, got.Failed, got.Refused, got.Errors)
	}
	return got
}
