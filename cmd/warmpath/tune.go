package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/emulator"
	"github.com/warmpath/warmpath/internal/report"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/simulate"
	"github.com/warmpath/warmpath/internal/tune"
	"github.com/warmpath/warmpath/internal/workload"
)

// tuneCommand is one `warmpath tune`; most of its fields are flags.
type tuneCommand struct {
	workload       workloadFlags
	fleet          simulate.Options
	exhaustive     bool
	preset         string
	json           bool
	report         reportFile
	stdout, stderr io.Writer
}

func newTuneCommand() *cobra.Command {
	var t tuneCommand
	c := &cobra.Command{
		Use:   "tune (--trace FILE | --recording FILE | --workload NAME) --replicas N --cache-tokens N",
		Short: "Find the settings of PREFIX_AWARE for your traffic",
		Long: `Tune simulates a workload with PREFIX_AWARE at many settings, on as many cores as there are, and finds the pair with the
lowest P50 + P90 TTFT. It shows the cliffs beside it, what KV_AWARE, the strategies that know of no cache and an ideal cache would
give, and the YAML to paste; and it says so when KV_AWARE does as well without settings, or when the traffic has little to gain.

Live traffic is recorded by ` + "`record`" + ` in an endpoint of the configuration: times, sizes and one-way hashes, never text.`,
		Example: `  warmpath tune --recording chat-recording.jsonl --replicas 8 --cache-tokens 2000000
  warmpath tune --trace mooncake.jsonl.gz --spread 3s --replicas 8 --cache-tokens 2000000 --report tune.html
  warmpath tune --workload rag --replicas 4 --cache-tokens 150000 --json | jq -r .recommendation.yaml`,
		RunE: func(c *cobra.Command, _ []string) error {
			t.stdout, t.stderr = c.OutOrStdout(), c.ErrOrStderr()
			return t.run(c.Context())
		},
	}
	t.workload.register(c)
	t.register(c)
	return c
}

func (t *tuneCommand) register(c *cobra.Command) {
	flags := c.Flags()
	flags.IntVar(&t.fleet.Replicas, "replicas", 0, "engines in the fleet")
	flags.IntVar(&t.fleet.CacheTokens, "cache-tokens", 0, "tokens that the KV cache of one engine holds")
	flags.StringVar(&t.preset, "preset", "70b", presetUsage)
	flags.IntVar(&t.fleet.Slots, "slots", 128, "requests that an engine runs at once")
	flags.IntVar(&t.fleet.Budget, "budget", 4096, "tokens that an engine computes in one step")
	flags.IntVar(&t.fleet.Routers, "routers", 1, "processes that share the fleet, each with in-flight counts of its own")
	flags.BoolVar(&t.exhaustive, "exhaustive", false, "simulate every pair of settings instead of searching")
	flags.BoolVar(&t.json, "json", false, "print the figures as JSON")
	flags.StringVar((*string)(&t.report), "report", "", "write an HTML report with plots to `FILE`")
}

func (t *tuneCommand) run(ctx context.Context) error {
	requests, err := t.prepare()
	if err != nil {
		return err
	}
	bar := newProgress(t.stderr, 0)
	result, err := tune.Run(ctx, requests, tune.Options{Fleet: t.fleet, Exhaustive: t.exhaustive, Progress: func(ended, planned int) {
		bar.ended(fmt.Sprintf("simulation %d of %d or more", ended, planned))
	}})
	bar.clear()
	switch {
	case ctx.Err() != nil:
		return errors.New("tune: interrupted before all settings were tried")
	case err != nil:
		return err
	}
	return t.print(result, requests.Name())
}

// prepare reads all flags; its errors are the user's to mend.
func (t *tuneCommand) prepare() (workload.Workload, error) {
	if err := t.readFleet(); err != nil {
		return nil, usageError{fmt.Errorf("tune: %w", err)}
	}
	if err := t.report.check(); err != nil {
		return nil, err
	}
	requests, err := t.workload.open()
	if err != nil {
		return nil, fmt.Errorf("tune: %w", err)
	}
	return requests, nil
}

func (t *tuneCommand) readFleet() (err error) {
	switch {
	case t.fleet.Replicas == 0:
		return errors.New("how many engines? Name --replicas N")
	case t.fleet.CacheTokens == 0:
		return errors.New("how much does an engine's cache hold? Name --cache-tokens N; engines log it at the start (see `warmpath simulate --help`)")
	}
	if t.fleet.Cost, err = emulator.Preset(t.preset); err != nil {
		return err
	}
	t.fleet.Seed = t.workload.seed
	t.fleet.Strategy = simulate.Strategy{Name: routing.NameRandom} // until tune.Run sets the ones it tries
	return t.fleet.Validate()
}

func (t *tuneCommand) print(result *tune.Result, name string) error {
	r := result.Report("Tuning for " + name)
	r.Facts = []report.Fact{
		{Name: "workload", Value: name}, {Name: "requests", Value: strconv.Itoa(result.Requests)},
		{Name: "seed", Value: strconv.FormatUint(t.workload.seed, 10)},
		{Name: "fleet", Value: fmt.Sprintf("%d emulated replicas, preset %s, %d tokens of cache, %d slots and a budget of %d tokens each",
			t.fleet.Replicas, t.preset, t.fleet.CacheTokens, t.fleet.Slots, t.fleet.Budget)},
		{Name: "routers", Value: strconv.Itoa(t.fleet.Routers)}, {Name: "warmpath", Value: buildVersion()},
	}
	if err := t.report.write(r); err != nil {
		return fmt.Errorf("tune: %w", err)
	}
	if t.json {
		return writeJSON(t.stdout, result)
	}
	return r.WriteText(t.stdout)
}
