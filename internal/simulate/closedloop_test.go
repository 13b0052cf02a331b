package simulate

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/emulator"
	"github.com/warmpath/warmpath/internal/workload"
)

// slots is an engine on which a token of a prompt takes a millisecond and nobody waits for another.
var slots = emulator.Cost{T0: 1, P: 1, Slots: true}

func TestClosedLoopKeepsSoManyOpen(t *testing.T) {
	var w rows
	for i := range 12 {
		w.list = append(w.list, row(time.Duration(i)*time.Hour, 1, uint64(i)))
	}
	for _, tt := range []struct {
		name                 string
		concurrency, serving int // the latter at once
	}{
		{"one client", 1, 1},
		{"fewer than slots", 3, 3},
		{"more than slots", 8, 4},
		{"more than requests", 40, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := simulate(t, w, Options{Replicas: 2, Slots: 2, Cost: slots, Concurrency: tt.concurrency})
			rounds := float64(12 / tt.serving)
			if want := rounds * 0.257; run.Requests != 12 || run.Failed != 0 || !near(run.Seconds, want) {
				t.Errorf("got %d requests, %d failed, in %v s; want 12 in %v s", run.Requests, run.Failed, run.Seconds, want)
			}
		})
	}
}

func TestClosedLoopEndsWhereNobodyAnswers(t *testing.T) {
	dead := Options{Replicas: 1, Concurrency: 2, Incidents: []Incident{{Kind: Fail, Replica: 1}}}
	if run := simulate(t, documents(3, 3, time.Second), dead); run.Requests != 9 || run.Failed+run.Refused != 9 {
		t.Errorf("got %d requests, %d failed and %d refused; want 9 that nobody answered", run.Requests, run.Failed, run.Refused)
	}
}

// prefixes asks for one prefix of 2,048 tokens in the share of the requests, and for others, all equally, in the rest; 34 tokens are
// a request's own.
func prefixes(share float64, others int) rows {
	var w rows
	draw := rand.New(rand.NewPCG(1, 1))
	for i := range 2500 {
		prefix := uint64(0)
		if draw.Float64() >= share {
			prefix = 1 + draw.Uint64N(uint64(others))
		}
		r := workload.Request{BlockTokens: 16, PromptTokens: 2048 + 34, OutputTokens: 1}
		for block := range uint64(128) {
			r.Blocks = append(r.Blocks, prefix<<32|block)
		}
		r.Blocks = append(r.Blocks, uint64(i)<<8|1<<63, uint64(i)<<8|1<<63|1)
		w.list = append(w.list, r)
	}
	return w
}

// The rates that processes of four slots each had in real time, with caches of 51,200 characters, and that follow from the cost.
func TestSlotsGiveTheRatesOfProcesses(t *testing.T) {
	for _, tt := range []struct {
		name     string
		w        rows
		strategy Strategy
		want     float64 // requests a second
	}{
		{"equal prefixes at random", prefixes(0, 16), random, 65},
		{"equal prefixes by load", prefixes(0, 16), outstanding, 69},
		{"one prefix at random", prefixes(1, 0), random, 141},
		{"one prefix by load", prefixes(1, 0), outstanding, 152},
		{"a hot one and others at random", prefixes(0.6, 15), random, 96},
		{"a hot one and others by load", prefixes(0.6, 15), outstanding, 103},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fleet := Options{
				Replicas: 4, Slots: 4, CacheTokens: 12800, Cost: emulator.CostSlots, Concurrency: 32, Strategy: tt.strategy,
			}
			got := simulate(t, tt.w, fleet).RequestsPerSecond
			if got < 0.93*tt.want || got > 1.07*tt.want {
				t.Errorf("got %v requests a second, want %v within 7 %%", got, tt.want)
			}
		})
	}
}
