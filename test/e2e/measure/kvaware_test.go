//go:build e2e

package measure

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/emulator"
	"github.com/warmpath/warmpath/internal/prompt"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/simulate"
	"github.com/warmpath/warmpath/internal/workload"
)

var (
	random      = simulate.Strategy{Name: routing.NameRandom}
	outstanding = simulate.Strategy{Name: routing.NameLeastOutstanding}
	aware       = simulate.Strategy{Name: routing.NameKVAware}
)

// contest is a workload on which KV_AWARE must be better than other strategies on the same fleet.
type contest struct {
	name     string
	workload func(*testing.T) workload.Workload
	fleet    simulate.Options
	rivals   []simulate.Strategy
	targets  []target
}

// target is one thing that KV_AWARE must reach. It gives what is wrong, or "".
type target func(*results) string

// results are the runs of a contest.
type results struct {
	aware  *bench.Run
	rivals []*bench.Run
	bound  float64 // hit rate of one cache without limits, 0 to 1
}

// TestKVAwareWins holds KV_AWARE against the other strategies, workload by workload, with nothing set in between. The figures of
// PREFIX_AWARE are those of the best of the settings that are tried.
func TestKVAwareWins(t *testing.T) {
	t.Parallel()
	for _, c := range contests() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.hold(t)
		})
	}
}

func (c contest) hold(t *testing.T) {
	w := c.workload(t)
	r := results{bound: limit(t, w)}
	c.fleet.Strategy = aware
	r.aware = run(t, w, c.fleet)
	for _, s := range c.rivals {
		c.fleet.Strategy = s
		r.rivals = append(r.rivals, run(t, w, c.fleet))
	}
	var out strings.Builder
	table(&out, append([]*bench.Run{r.aware}, r.rivals...))
	t.Logf("%d replicas, an infinite cache holds %.3f\n%s", c.fleet.Replicas, r.bound, &out)
	r.hold(t, c.targets...)
}

// contests are ordered by what there is to gain.
func contests() []contest {
	cells := []simulate.Strategy{prefixAware(4096, 8), prefixAware(4096, 16), prefixAware(16384, 16)}
	all := []contest{
		{
			name: "Mooncake synthetic", workload: trace("mooncake_synthetic.jsonl.gz", 0), fleet: engines(8, 400_000),
			rivals: cells, targets: []target{atMost(0.3, "TTFT P50", p50, prefixName)},
		},
		{
			name: "64 documents in tight caches", workload: spec("rag:documents=64,document=4000,preamble=1,rate=8"), fleet: engines(4, 75_000),
			rivals:  []simulate.Strategy{prefixAware(4096, 8), prefixAware(4096, 16), prefixAware(4096, 32)},
			targets: []target{atMost(1, "TTFT P50", p50, prefixName), atMost(1, "TTFT P90", p90, prefixName), atMost(1, "TTFT P99", p99, prefixName)},
		},
		{
			name: "popular documents", workload: spec("rag:documents=200,zipf=1.1,rate=20,requests=3000"), fleet: engines(8, 150_000),
			rivals:  []simulate.Strategy{outstanding, prefixAware(16384, 32)},
			targets: []target{atMost(1, "TTFT P99", p99, outstandingName), hitNear(0.01)},
		},
		{
			name: "unrelated prompts", workload: spec("unrelated:requests=4000,rate=12"), fleet: engines(4, 200_000),
			rivals: []simulate.Strategy{outstanding},
			targets: []target{
				atMost(1.03, "TTFT P50", p50, outstandingName), atMost(1.03, "TTFT P90", p90, outstandingName), atMost(1.03, "E2E P50", e2e, outstandingName),
			},
		},
		{
			name: "agents, mini-swe", workload: trace("agent_miniswe_blk16.jsonl.gz", 16), fleet: engines(4, 1_000_000),
			rivals: []simulate.Strategy{outstanding}, targets: []target{boundNear(0.03), atMost(1, "TTFT P90", p90, outstandingName)},
		},
		{
			name: "agents, many roles", workload: trace("agent_magagent_blk16.jsonl.gz", 16), fleet: engines(4, 1_000_000),
			rivals: []simulate.Strategy{outstanding}, targets: []target{boundNear(0.03), atMost(1, "TTFT P90", p90, outstandingName)},
		},
	}
	for _, cache := range []int{40_000, 60_000} {
		for _, rate := range []int{2, 5, 8} {
			all = append(all, preamble(cache, rate))
		}
	}
	return append(all, slotRig()...)
}

// preamble is documents behind a beginning that all prompts share: it must not draw them to one replica.
func preamble(cache, rate int) contest {
	return contest{
		name:     fmt.Sprintf("a common preamble, caches of %d, %d requests a second", cache, rate),
		workload: spec(fmt.Sprintf("rag:documents=24,document=6144,preamble=2048,question=40,rate=%d,output=128,requests=1000", rate)),
		fleet:    engines(4, cache),
		rivals:   []simulate.Strategy{outstanding, prefixAware(16384, 16)},
		targets:  []target{everyReplica(0.10), hitNear(0.02), atMost(0.5, "TTFT P90", p90, outstandingName)},
	}
}

// slotRig is engines on which load and hits are all there is: 32 clients, as many as the fleet has slots twice over, and caches for
// six prefixes. The fleet's ceiling is 16 slots / 103.5 ms = 155 requests a second.
func slotRig() []contest {
	rig := engines(4, 12_800)
	rig.Cost, rig.Slots, rig.Concurrency = emulator.CostSlots, 4, 32
	contests := []contest{
		{name: "slots, 16 equal prefixes", workload: spec("rag:documents=16,document=2000,question=20,preamble=1,output=1,requests=3000"), targets: []target{atLeast(142)}},
		{name: "slots, one prefix", workload: spec("hot:share=1,prefix=2000,question=20,output=1,requests=3000"), targets: []target{atLeast(150)}},
		{name: "slots, a hot prefix and 15", workload: spec("hot:share=0.6,others=15,prefix=2000,question=20,output=1,requests=3000"), targets: []target{atLeast(142)}},
	}
	for i := range contests {
		contests[i].fleet, contests[i].rivals = rig, []simulate.Strategy{random, outstanding}
	}
	return contests
}

// engines are 70B engines with so many tokens of cache each.
func engines(replicas, cacheTokens int) simulate.Options {
	o := fleet(simulate.Strategy{})
	o.Replicas, o.CacheTokens = replicas, cacheTokens
	return o
}

func spec(text string) func(*testing.T) workload.Workload {
	return func(t *testing.T) workload.Workload {
		w, err := workload.Parse(text, 1)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
}

func trace(name string, blockTokens int) func(*testing.T) workload.Workload {
	return func(t *testing.T) workload.Workload {
		return openTrace(t, name, workload.TraceOptions{BlockTokens: blockTokens})
	}
}

// limit is the share of the prompts' text, 0 to 1, that one cache without limits would have held already.
func limit(t *testing.T, w workload.Workload) float64 {
	t.Helper()
	seen := map[uint64]bool{}
	hits, bytes := 0, 0
	var chain prompt.Chain
	for r := range w.Requests() {
		chain = simulate.Chain(chain.Blocks, &r)
		bytes += chain.Bytes
		for _, block := range chain.Blocks {
			if seen[block] {
				hits += prompt.BlockBytes
			}
			seen[block] = true
		}
	}
	if w.Err() != nil || bytes == 0 {
		t.Fatalf("%d bytes, %v", bytes, w.Err())
	}
	return float64(hits) / float64(bytes)
}
