// Package simulate plays a workload in virtual time against emulated engines, routed by the strategies that serve real traffic.
package simulate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/emulator"
	"github.com/warmpath/warmpath/internal/engine"
	"github.com/warmpath/warmpath/internal/workload"
)

// Options describe a fleet and its routers. The zero value of a field selects its default, where it has one.
type Options struct {
	Replicas    int           // engines at the start, 1 or more
	Engine      string        // what they are, as package engine names it: their caches count so; empty = generic
	CacheTokens int           // what the cache of each holds, 1 or more; rounded down to whole blocks, but never to none
	Cost        emulator.Cost // how fast each is; default emulator.Cost70B
	Slots       int           // requests that one runs at once; default 128
	Budget      int           // tokens that one computes in a step; default 4096
	Processors  int           // that all engines share, each of which keeps one busy; 0 = each has its own

	Routers   int           // processes that share the fleet and know nothing of each other; default 1
	Strategy  Strategy      // of every router
	SlowStart time.Duration // in which a replica that joins or returns takes a growing share of cold work; 0 = none
	Incidents []Incident    // what happens to the fleet, in any order

	Published  int  // tokens that engines say their cache holds; 0 = the truth, less than 0 = they do not say
	Unreported bool // answers do not tell how many tokens they had, or found cached
	Unstreamed bool // answers come as a whole: nobody sees their first token
	// Wordiness is how unlike texts are: a token of one passage has up to so many times more, of another up to so many times fewer
	// characters than usual. From 1 to 16; 0 = all are alike. Only routers that go by the whole prompt notice.
	Wordiness float64

	// Concurrency makes the loop closed: that many requests are open at any time and the workload's times are ignored; 0 = the
	// loop is open.
	Concurrency int
	Warmup      bench.Warmup  // requests that are played and not counted
	Objective   time.Duration // TTFT that counts as good; 0 = nobody asks

	Seed uint64 // of the routers' chance, and of who gets which request
	// Ended is called after each request; nil = nobody is told.
	Ended func()
}

// BlockTokens is the size of a cache block where the workload has text and no blocks of its own: vLLM's default. Engines that cache whole
// prompts count every token.
const BlockTokens = 16

func (o *Options) blockTokens() int {
	if engine.WholePrompts(o.Engine) {
		return 1
	}
	return BlockTokens
}

// Run plays w to its end and gives what clients would have measured. Equal arguments give equal results. Of the workload it
// holds what is in flight and no more.
//
// The error is about the options or the workload, or says that ctx ended first. Requests that fail are part of the result.
func Run(ctx context.Context, w workload.Workload, o Options) (*bench.Run, error) {
	run, err := run(ctx, w, o)
	if err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	return run, nil
}

func run(ctx context.Context, w workload.Workload, o Options) (*bench.Run, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s, err := newSimulation(&o)
	if err != nil {
		return nil, err
	}
	in := open(w, s.routers[0], o.blockTokens())
	defer in.close()
	if err := s.play(ctx, in); err != nil {
		return nil, err
	}
	return s.result(), nil
}

// withDefaults fills in the defaults that are not the emulator's.
func (o Options) withDefaults() Options {
	o.Routers = cmp.Or(o.Routers, 1)
	o.Cost = cmp.Or(o.Cost, emulator.Cost70B)
	return o
}

// Validate says what is out of range, the strategy aside: Run would say the same.
func (o Options) Validate() error {
	switch {
	case o.Replicas < 1:
		return fmt.Errorf("replicas: %d is out of range; use 1 or more", o.Replicas)
	case o.Routers < 0:
		return fmt.Errorf("routers: %d is out of range; use 1 or more", o.Routers)
	case o.Concurrency < 0:
		return fmt.Errorf("concurrency: %d is out of range; use 1 or more, or 0 for an open loop", o.Concurrency)
	case o.Processors < 0:
		return fmt.Errorf("processors: %d is out of range; use 1 or more, or 0 if each engine has its own", o.Processors)
	case o.CacheTokens < 1:
		return fmt.Errorf("cache tokens: %d is out of range; use 1 or more", o.CacheTokens)
	case o.SlowStart < 0 || o.Objective < 0:
		return errors.New("slow start and objective: must not be negative")
	case o.Wordiness != 0 && !(o.Wordiness >= 1 && o.Wordiness <= maxWordiness):
		return fmt.Errorf("wordiness: %v is out of range; use 1 to %v, or 0 for texts that are all alike", o.Wordiness, maxWordiness)
	}
	if _, err := emulator.NewCore(o.engine(BlockTokens)); err != nil {
		return err
	}
	if _, known := engine.Lookup(o.Engine); !known && o.Engine != "" {
		return fmt.Errorf("engine: %q is not known; use one of %s", o.Engine, strings.Join(engine.Names(), ", "))
	}
	_, err := schedule(o.Incidents, o.Replicas)
	return err
}

// engine is the configuration of one replica whose blocks have that many tokens.
func (o *Options) engine(blockTokens int) emulator.Config {
	return emulator.Config{
		BlockSize: blockTokens, Blocks: max(1, o.CacheTokens/blockTokens), Whole: engine.WholePrompts(o.Engine),
		Budget: o.Budget, MaxRunning: o.Slots, Cost: o.Cost,
	}
}
