// Package tune finds the settings of PREFIX_AWARE for a workload by simulating it, and says what they are worth.
package tune

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/simulate"
	"github.com/warmpath/warmpath/internal/workload"
)

// Options say for which fleet settings are sought.
type Options struct {
	// Fleet is what is simulated; its Strategy and Ended are not used.
	Fleet simulate.Options
	// Exhaustive simulates every pair of settings, instead of searching: it takes a few times as long, and finds the best of all.
	Exhaustive bool
	// Progress is called whenever a simulation has ended, with the number of those that have and of those that are known to be
	// needed, which grows. It is never called twice at once. nil = nobody is told.
	Progress func(ended, planned int)
}

// Result is all that tuning finds. Its JSON is what `warmpath tune --json` prints: fields may be added and are never renamed.
type Result struct {
	Recommendation Recommendation `json:"recommendation"`
	// Grid holds the settings that were simulated, in order of prefix length and threshold.
	Grid []Cell `json:"grid"`
	// Cliffs are the places, seen from the recommendation, from which on a setting costs much. There may be none.
	Cliffs []Cliff `json:"cliffs"`
	// Ceiling is KV_AWARE, which knows of every cache and needs no settings.
	Ceiling Bound `json:"ceiling"`
	// Infinite is a cache without end that all replicas share: more than any routing can reach.
	Infinite Bound `json:"infinite_cache"`
	// Baselines are the strategies that know nothing of caches.
	Baselines []Baseline `json:"baselines"`
	Requests  int        `json:"requests"` // in each simulation
	Verdict   string     `json:"verdict"`
}

// Figures are what a simulation came to.
type Figures struct {
	HitRate       float64         `json:"hit_rate"`       // cached prompt tokens over prompt tokens, 0 to 1
	OverflowShare float64         `json:"overflow_share"` // of the requests, 0 to 1
	Imbalance     float64         `json:"imbalance"`      // requests of the busiest replica over the mean, 1 or more
	TTFT          bench.Quantiles `json:"ttft_ms"`
}

// score is what tuning makes small: the sum of P50 and P90 of the time to first token, in milliseconds. The median alone would
// accept any queue, the 90 % quantile alone any loss of hits.
func (f *Figures) score() float64 { return f.TTFT.P50 + f.TTFT.P90 }

// Cell is one pair of settings and what it came to.
type Cell struct {
	PrefixLength         int `json:"prefix_length"`
	ConcurrencyThreshold int `json:"concurrency_threshold"`
	Figures
}

// Recommendation is the best cell, and the strategy to use: PREFIX_AWARE with that cell's settings or, where they gain nothing that
// is worth having, a strategy that needs none. YAML is the routing to paste into a variant.
type Recommendation struct {
	Cell
	Strategy string `json:"strategy"`
	YAML     string `json:"yaml"`
}

// Baseline is a strategy and what it came to.
type Baseline struct {
	Strategy string `json:"strategy"`
	Figures
}

// Run tunes for a workload. Equal arguments give equal results. A workload of text is held
// in memory, as the ids of its blocks; one of blocks is iterated many times, several at once.
func Run(ctx context.Context, w workload.Workload, o Options) (*Result, error) {
	t := newTuner(w, o)
	result, err := t.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	return result, nil
}

// errUnanswered is about a fleet that could not serve the workload at all.
var errUnanswered = errors.New("no request could be answered; every prompt may be longer than the cache: raise the cache tokens")

func (t *tuner) run(ctx context.Context) (*Result, error) {
	r := &Result{}
	var err error
	if t.workload, err = digestOf(t.workload); err != nil {
		return nil, err
	}
	if r.Baselines, err = t.baselines(ctx); err != nil {
		return nil, err
	}
	if r.Ceiling, r.Infinite, err = t.bounds(ctx); err != nil {
		return nil, err
	}
	search := t.descend
	if t.exhaustive {
		search = t.exhaust
	}
	best, err := search(ctx)
	if err != nil {
		return nil, err
	}
	r.Requests = t.requests
	r.Grid = t.grid.cells()
	r.Cliffs = t.grid.cliffs(best)
	r.judge(t.grid.cell(best))
	return r, nil
}

// tuner simulates one workload again and again.
type tuner struct {
	workload   workload.Workload
	fleet      simulate.Options
	exhaustive bool
	parallel   int // simulations at once
	progress   progress
	grid       grid
	requests   int
}

func newTuner(w workload.Workload, o Options) *tuner {
	return &tuner{
		workload: w, fleet: o.Fleet, exhaustive: o.Exhaustive, parallel: runtime.GOMAXPROCS(0),
		progress: progress{told: o.Progress}, grid: grid{},
	}
}

// baselines simulates the strategies that know nothing of caches.
func (t *tuner) baselines(ctx context.Context) ([]Baseline, error) {
	list := []Baseline{{Strategy: routing.NameLeastOutstanding}, {Strategy: routing.NameRandom}}
	err := t.each(ctx, len(list), func(ctx context.Context, i int) (err error) {
		list[i].Figures, err = t.simulate(ctx, t.workload, simulate.Strategy{Name: list[i].Strategy})
		return err
	})
	return list, err
}

// simulate plays a workload once. Simulations may run at once.
func (t *tuner) simulate(ctx context.Context, w workload.Workload, s simulate.Strategy) (Figures, error) {
	o := t.fleet
	o.Strategy, o.Ended = s, nil
	run, err := simulate.Run(ctx, w, o)
	if err != nil {
		return Figures{}, err
	}
	if run.TTFT.P50 == 0 {
		return Figures{}, errUnanswered
	}
	f := Figures{OverflowShare: run.OverflowShare, Imbalance: run.Imbalance(), TTFT: run.TTFT}
	if run.HitRate != nil {
		f.HitRate = *run.HitRate
	}
	t.progress.ended()
	return f, nil
}
