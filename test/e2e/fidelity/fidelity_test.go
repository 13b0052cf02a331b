//go:build e2e

// Package fidelity holds the simulator to the emulated fleet: the same requests, in virtual time and through the real router.
package fidelity

import (
	"context"
	"iter"
	"math"
	"slices"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/demo"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/simulate"
	"github.com/warmpath/warmpath/internal/workload"
)

// How far the fleet may be from what the simulator gives, beyond what chance explains.
const (
	maxHitRate = 0.10 // of the hit rate
	maxTTFT    = 0.15 // of the TTFT at P50
	// busyMachine is what HTTP, the router and whatever else runs may add to the fleet's TTFT; two cores with other work add 0.09.
	busyMachine = 0.15
)

// timeScale is low, because what the router and HTTP take in real time counts that many times in the engines'.
const timeScale = 1.25

// seeds is how many simulations show the range of chance. The fleet's replicas have other addresses in every run, and with them
// other hashes: its placement is one more draw of the same kind. By PREFIX_AWARE, at this load, all draws give the same.
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
	return s
}

// contest is one strategy on one workload, before a fleet of its own.
type contest struct {
	name string
	demo.Scenario
	fleet *bench.Report
	err   error
}

// contests are about documents and conversations that are asked about often enough, under a load that leaves room enough, for chance to
// move the medians by less than what is tested.
func contests() (all []*contest) {
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
	for _, strategy := range []demo.Strategy{
		{Name: routing.NameRandom},
		{Name: routing.NamePrefixAware, Knobs: bench.Knobs{PrefixLength: 4096, ConcurrencyThreshold: 16}},
	} {
		documents.Strategies, chats.Strategies = []demo.Strategy{strategy}, []demo.Strategy{strategy}
		all = append(all, &contest{name: "RAG by " + strategy.Name, Scenario: documents}, &contest{name: "multi-turn by " + strategy.Name, Scenario: chats})
	}
	return all
}

// All fleets play at the same time: nearly all that they do is wait.
func TestSimulatorAgreesWithTheFleet(t *testing.T) {
	all := contests()
	var playing sync.WaitGroup
	for _, c := range all {
		playing.Go(c.play)
	}
	playing.Wait()
	for _, c := range all {
		t.Run(c.name, c.compare)
	}
}

func (c *contest) play() {
	d, err := demo.Start(c.Scenario)
	if err != nil {
		c.err = err
		return
	}
	defer d.Close()
	c.fleet, c.err = d.Play(context.Background(), func(string) {})
}

func (c *contest) compare(t *testing.T) {
	t.Parallel()
	if c.err != nil {
		t.Fatal(c.err)
	}
	real := c.fleet.Runs[0]
	if real.Failed+real.Refused > 0 || real.Requests != c.Len() {
		t.Errorf("%d of %d requests sent, %d failed", real.Requests, c.Len(), real.Failed)
	}
	hitRates, ttfts := simulated(t, &c.Scenario)
	agree(t, "hit rate", *real.HitRate, hitRates, margin{maxHitRate, maxHitRate})
	agree(t, "TTFT P50", real.TTFT.P50, ttfts, margin{maxTTFT, maxTTFT + busyMachine})
}

// simulated gives hit rate and TTFT at P50 of several draws, sorted.
func simulated(t *testing.T, s *demo.Scenario) (hitRates, ttfts []float64) {
	t.Helper()
	strategy := s.Strategies[0]
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
	return hitRates, ttfts
}

// margin is how far a figure may be below and above others, in shares of them.
type margin struct{ below, above float64 }

// agree says how far the fleet's figure is from the median of the simulated ones, and fails if it is too far from all of them.
func agree(t *testing.T, what string, fleet float64, simulated []float64, m margin) {
	t.Helper()
	lowest, median, highest := simulated[0], simulated[len(simulated)/2], simulated[len(simulated)-1]
	t.Logf("%s: fleet %.3f, simulated %.3f (%.3f to %.3f), %.1f %% apart", what, fleet, median, lowest, highest, 100*math.Abs(fleet-median)/median)
	if fleet < lowest*(1-m.below) || fleet > highest*(1+m.above) {
		t.Errorf("%s is %.3f, want at least %.3f less %.0f %%, at most %.3f plus %.0f %%", what, fleet, lowest, 100*m.below, highest, 100*m.above)
	}
}
