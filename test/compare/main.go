// Command compare measures Warmpath beside other routers: over the same emulated engines, with the same requests, in one run.
package main

// Routers take turns, so that a machine whose speed drifts slows all alike, and every run has new engines and a new router.

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/test/turns"
)

type flags struct {
	role, target string
	warmpath     string
	only         string
	parts        string
	page         string
	seeds        int
	requests     int
	losses       int
	firstPort    int
	pace         turns.Pace
}

func main() {
	var f flags
	flag.StringVar(&f.role, "role", "driver", "driver, or engine or floor for the processes that the driver starts")
	flag.StringVar(&f.target, "target", "", "engine URL, for -role floor")
	flag.StringVar(&f.warmpath, "warmpath", "bin/warmpath", "the binary to measure, which also is the engines")
	flag.StringVar(&f.only, "only", "", "measure only routers whose name and setting match this regular expression")
	flag.StringVar(&f.parts, "parts", "quality,cost,loss", "what to measure")
	flag.StringVar(&f.page, "page", "", "write the page to this file too")
	flag.IntVar(&f.seeds, "seeds", 3, "draws of each workload; figures are medians")
	flag.IntVar(&f.requests, "requests", 250, "requests of a run that count")
	flag.IntVar(&f.losses, "losses", 1, "draws of the run in which a replica is killed; failures are added up")
	flag.IntVar(&f.firstPort, "port", 21741, "port of the first engine; the same in each run, since some routers hash it")
	flag.Float64Var(&f.pace.Rate, "rate", 100, "requests per second while cost is measured")
	flag.DurationVar(&f.pace.Round, "round", 3*time.Second, "length of one router's turn while cost is measured")
	flag.IntVar(&f.pace.Rounds, "rounds", 3, "turns of each router and size while cost is measured")
	flag.Parse()
	if err := run(f); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(f flags) error {
	if f.role != "driver" {
		return turns.Serve(f.role, f.target)
	}
	wanted, err := regexp.Compile(f.only)
	if err != nil {
		return fmt.Errorf("only: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := &comparison{flags: f}
	if c.entries, err = enter(ctx, wanted, f.warmpath); err != nil {
		return err
	}
	if c.folder, err = os.MkdirTemp("", "warmpath-compare-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(c.folder) }() // it holds configurations and logs
	return c.run(ctx)
}

// comparison is one run.
type comparison struct {
	flags
	folder  string
	entries []*entry
	floor   []turns.Result // what the bare proxy costs, by size
}

// run measures, prints what it came to, also if a part failed, and writes the page if none did.
func (c *comparison) run(ctx context.Context) error {
	failed := c.measure(ctx)
	page, err := c.write()
	if err != nil {
		return errors.Join(failed, err)
	}
	if _, err := os.Stdout.Write(page); failed != nil || err != nil {
		return errors.Join(failed, err)
	}
	if c.page == "" {
		return nil
	}
	return os.WriteFile(c.page, page, 0o644)
}

// measure does the parts one after the other.
func (c *comparison) measure(ctx context.Context) error {
	known := map[string]func(context.Context) error{"quality": c.measureQuality, "cost": c.measureCost, "loss": c.measureLoss}
	parts := strings.Split(c.parts, ",")
	for _, part := range parts {
		if known[part] == nil {
			return fmt.Errorf("parts: %q is none; use quality, cost or loss", part)
		}
	}
	for _, part := range parts {
		if err := known[part](ctx); err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
	}
	return nil
}

// entry is a router with its setting and what it came to.
type entry struct {
	router
	software

	quality [][]figures // of each workload, a seed each
	cost    []turns.Result
	lost    []loss // a draw each
}

// enter installs what is wanted.
func enter(ctx context.Context, wanted *regexp.Regexp, warmpath string) ([]*entry, error) {
	var entries []*entry
	installed := map[string]software{}
	for _, r := range routers {
		if !wanted.MatchString(r.label()) {
			continue
		}
		s, known := installed[r.product]
		if !known {
			var err error
			if s, err = install(ctx, r.product, warmpath); err != nil {
				return nil, fmt.Errorf("%s: %w", r.product, err)
			}
			installed[r.product] = s
		}
		entries = append(entries, &entry{router: r, software: s, quality: make([][]figures, len(workloads))})
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("only: %q matches no router", wanted)
	}
	return entries, nil
}

// say reports progress to a person.
func say(format string, a ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05")+" "+format+"\n", a...)
}

// middle is the median, the upper one of an even number.
func middle(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
