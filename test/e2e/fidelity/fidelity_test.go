//go:build e2e

// Package fidelity holds the simulator to the emulated fleet: the same requests, in virtual time and through the real router.
package fidelity

import (
	"context"
	"iter"
	"math"
	"slices"
	"testing"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/demo"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/simulate"
	"github.com/warmpath/warmpath/internal/workload"
)

// How far the simulator may be from the fleet.
const (
	maxHitRate = 0.10 // of the fleet's hit rate
	maxTTFT    = 0.15 // of the fleet's TTFT at P50
)

// timeScale is low, because what the router and HTTP take in real time counts that many times in the engines'.
const timeScale = 2

// seeds is how many simulations a figure is the median of. The fleet's replicas have other addresses in every run, and with them
// other hashes: its placement is a draw of the same kind.
const seeds = 9

// played makes a workload of a demo's requests.
type played struct{ *demo.Scenario }

func (p played) Requests() iter.Seq[workload.Request] { return p.Scenario.Requests() }
func (played) Err() error                             { return nil }
func (played) Name() string                           { return "fidelity" }

func scenario() demo.Scenario {
	s := demo.Default()
	s.Listen, s.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	s.TimeScale, s.CacheShare = timeScale, 1
	s.Strategies = []demo.Strategy{
		{Name: routing.NameRandom},
		{Name: routing.NamePrefixAware, Knobs: bench.Knobs{PrefixLength: 4096, ConcurrencyThreshold: 16}},
	}
	return s
}

// Each document and conversation is asked about often enough, and the load leaves room enough, for chance to move the medians by less
// than what is tested.
func TestSimulatorAgreesWithTheFleet(t *testing.T) {
	documents := scenario()
	documents.Documents = workload.RAG{
		Shape: documents.Documents.Shape, Documents: 50, DocumentTokens: 8000, Questions: 4, QuestionTokens: 800,
	}
	documents.Documents.Rate, documents.Chats.Conversations = 3, 0
	chats := scenario()
	chats.Chats = workload.MultiTurn{
		Shape: chats.Chats.Shape, Conversations: 50, OpeningTokens: 8000, Turns: 4, QuestionTokens: 800,
	}
	chats.Chats.Rate, chats.Documents.Documents = 3, 0
	for _, c := range []struct {
		name string
		demo.Scenario
	}{{"RAG", documents}, {"multi-turn", chats}} {
		t.Run(c.name, func(t *testing.T) { compare(t, c.Scenario) })
	}
}

func compare(t *testing.T, s demo.Scenario) {
	d, err := demo.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	fleet, err := d.Play(context.Background(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	for i, strategy := range s.Strategies {
		real := fleet.Runs[i]
		if real.Failed+real.Refused > 0 || real.Requests != s.Len() {
			t.Errorf("%s: %d of %d requests sent, %d failed", strategy.Name, real.Requests, s.Len(), real.Failed)
		}
		hitRate, ttft := simulated(t, &s, strategy)
		agree(t, strategy.Name+" hit rate", *real.HitRate, hitRate, maxHitRate)
		agree(t, strategy.Name+" TTFT P50", real.TTFT.P50, ttft, maxTTFT)
	}
}

// simulated gives the medians over several draws of hit rate and TTFT at P50.
func simulated(t *testing.T, s *demo.Scenario, strategy demo.Strategy) (hitRate, ttft float64) {
	var hitRates, ttfts []float64
	for seed := range uint64(seeds) {
		run, err := simulate.Run(context.Background(), played{s}, simulate.Options{
			Replicas: s.Replicas, CacheTokens: s.CacheTokens(), Cost: s.Cost, Seed: seed,
			Strategy: simulate.Strategy{Name: strategy.Name, Options: routing.Options{
				PrefixLength: strategy.PrefixLength, ConcurrencyThreshold: strategy.ConcurrencyThreshold,
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		hitRates, ttfts = append(hitRates, *run.HitRate), append(ttfts, run.TTFT.P50)
	}
	slices.Sort(hitRates)
	slices.Sort(ttfts)
	t.Logf("%s simulated: hit rate %.3f to %.3f, TTFT P50 %.1f to %.1f", strategy.Name, hitRates[0], hitRates[seeds-1], ttfts[0], ttfts[seeds-1])
	return hitRates[seeds/2], ttfts[seeds/2]
}

func agree(t *testing.T, what string, fleet, simulated, limit float64) {
	t.Helper()
	off := math.Abs(simulated-fleet) / fleet
	t.Logf("%s: fleet %.3f, simulated %.3f, %.1f %% apart", what, fleet, simulated, 100*off)
	if off > limit {
		t.Errorf("%s is %.1f %% apart, want at most %.0f %%", what, 100*off, 100*limit)
	}
}
