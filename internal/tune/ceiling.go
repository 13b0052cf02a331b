package tune

import (
	"context"
	"iter"
	"strings"

	"github.com/warmpath/warmpath/internal/emulator"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/simulate"
	"github.com/warmpath/warmpath/internal/workload"
)

// Bound is what settings are measured against.
type Bound struct {
	Name string `json:"name"` // what it is, for people
	Figures
}

// infiniteName says in four words what no routing can exceed: a fleet whose replicas share one cache without end, and send each
// request to the least busy of them. Every block that any earlier request had is a hit wherever it goes, and nothing is ever evicted.
const infiniteName = "infinite shared cache, least outstanding"

// bounds simulates the fleet with KV_AWARE, and what no routing can exceed: it counts the hits of the infinite cache, and simulates
// the fleet with what they leave to compute.
func (t *tuner) bounds(ctx context.Context) (ceiling, infinite Bound, err error) {
	ceiling.Name, infinite.Name = routing.NameKVAware, infiniteName
	rest := &uncached{Workload: t.workload}
	plays := []func(context.Context) error{
		func(ctx context.Context) (err error) {
			ceiling.Figures, err = t.simulate(ctx, t.workload, simulate.Strategy{Name: routing.NameKVAware})
			return err
		},
		func(ctx context.Context) (err error) {
			infinite.Figures, err = t.simulate(ctx, rest, simulate.Strategy{Name: routing.NameLeastOutstanding})
			return err
		},
	}
	if err := t.each(ctx, len(plays), func(ctx context.Context, i int) error { return plays[i](ctx) }); err != nil {
		return Bound{}, Bound{}, err
	}
	infinite.HitRate = float64(rest.cached) / float64(max(1, rest.prompts))
	t.requests = rest.requests
	return ceiling, infinite, nil
}

// uncached is a workload of what an infinite shared cache leaves to compute of another: prompts without the blocks that an
// earlier request had, and sharing nothing. That attention reaches back into cached blocks is left out, in favour of the ceiling.
// An iteration sets the counts.
type uncached struct {
	workload.Workload
	prompts, cached int // tokens
	requests        int
}

func (u *uncached) Requests() iter.Seq[workload.Request] {
	return func(yield func(workload.Request) bool) {
		u.prompts, u.cached, u.requests = 0, 0, 0
		seen := cache{}
		for r := range u.Workload.Requests() {
			u.requests++
			blockTokens, chains := chainsOf(&r)
			r.PromptTokens = 0
			for _, c := range chains {
				hit := seen.take(c, blockTokens)
				u.prompts += c.PromptTokens
				u.cached += hit
				r.PromptTokens += c.PromptTokens - hit
				r.OutputTokens = c.OutputTokens
			}
			if len(chains) == 0 {
				continue // no engine can read it
			}
			r.Body, r.Blocks, r.BlockTokens = nil, []uint64{}, blockTokens
			if !yield(r) {
				return
			}
		}
	}
}

// chainsOf is what an engine computes for a request, in blocks of how many tokens.
func chainsOf(r *workload.Request) (blockTokens int, chains []*emulator.Request) {
	if r.Blocks != nil {
		return r.BlockTokens, []*emulator.Request{{Chain: r.Blocks, PromptTokens: r.PromptTokens, OutputTokens: r.OutputTokens}}
	}
	path, _, _ := strings.Cut(r.Path, "?")
	chains, err := emulator.Requests(path, r.Body, simulate.BlockTokens)
	if err != nil {
		return simulate.BlockTokens, nil
	}
	return simulate.BlockTokens, chains
}

// cache is an infinite cache of blocks.
type cache map[uint64]struct{}

// take counts the tokens of a prompt that are there, all but its last at most as in a real engine, and puts its whole blocks in.
func (c cache) take(r *emulator.Request, blockTokens int) (hit int) {
	whole := 0
	for missed := false; whole < len(r.Chain); whole++ {
		if _, there := c[r.Chain[whole]]; !there {
			missed = true
		}
		if !missed {
			hit += blockTokens
		}
		if (whole+1)*blockTokens <= r.PromptTokens+r.OutputTokens {
			c[r.Chain[whole]] = struct{}{}
		}
	}
	return min(hit, r.PromptTokens-1)
}
