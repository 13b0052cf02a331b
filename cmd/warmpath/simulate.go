package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/emulator"
	"github.com/warmpath/warmpath/internal/report"
	"github.com/warmpath/warmpath/internal/simulate"
	"github.com/warmpath/warmpath/internal/workload"
)

// simulateCommand is one `warmpath simulate`; most of its fields are flags.
type simulateCommand struct {
	workload       workloadFlags
	options        simulate.Options
	strategies     []string
	preset, warmup string
	incidents      map[simulate.IncidentKind]*[]string
	compare, json  bool
	report         reportFile
	stdout, stderr io.Writer
}

// presetUsage is the help of --preset.
const presetUsage = "how fast an engine is: 70b (eight GPUs), 8b (one), or slots that share nothing; " +
	"`NAME[:constant=value,...]` with t0, p, d, k, a and m of your own, such as measured ones"

// defaultStrategies are compared if nobody says which; PREFIX_AWARE has the settings of the demo.
const defaultStrategies = "RANDOM,LEAST_OUTSTANDING_REQUESTS,PREFIX_AWARE:prefix_length=4096,concurrency_threshold=16,KV_AWARE"

func newSimulateCommand() *cobra.Command {
	s := simulateCommand{incidents: map[simulate.IncidentKind]*[]string{}}
	c := &cobra.Command{
		Use:   "simulate (--trace FILE | --recording FILE | --workload NAME) --replicas N --cache-tokens N",
		Short: "Compute what a fleet would do with a workload",
		Long: `Simulate plays a workload in virtual time against emulated engines, once for each strategy. Routing is the real one: the
same strategies, keys and in-flight counts that serve live traffic. An hour of traffic takes seconds, needs no GPU and no
network, and gives the same figures each time.

An engine's cache, in tokens, is what its log says at the start ("GPU KV cache size" of vLLM, "max_total_num_tokens" of
SGLang). A failed request is a figure, not a failure of the command.`,
		Example: `  warmpath simulate --workload rag --replicas 4 --cache-tokens 150000
  warmpath simulate --trace mooncake.jsonl.gz --spread 3s --replicas 8 --cache-tokens 2000000 --report fleet.html
  warmpath simulate --workload agents --replicas 8 --cache-tokens 200000 --routers 2 \
      --strategy LEAST_OUTSTANDING_REQUESTS --strategy PREFIX_AWARE:prefix_length=8192,concurrency_threshold=8
  warmpath simulate --workload rag --replicas 4 --cache-tokens 150000 --fail replica=2,at=60s,for=120s --json`,
		RunE: func(c *cobra.Command, _ []string) error {
			s.stdout, s.stderr = c.OutOrStdout(), c.ErrOrStderr()
			return s.run(c.Context())
		},
	}
	s.workload.register(c)
	s.register(c)
	return c
}

func (s *simulateCommand) register(c *cobra.Command) {
	flags := c.Flags()
	flags.IntVar(&s.options.Replicas, "replicas", 0, "engines in the fleet")
	flags.IntVar(&s.options.CacheTokens, "cache-tokens", 0, "tokens that the KV cache of one engine holds")
	flags.StringVar(&s.options.Engine, "engine", "generic", "what the replicas run; the caches of llamacpp keep whole prompts, those of all others share blocks")
	flags.StringVar(&s.preset, "preset", "70b", presetUsage)
	flags.IntVar(&s.options.Slots, "slots", 128, "requests that an engine runs at once")
	flags.IntVar(&s.options.Budget, "budget", 4096, "tokens that an engine computes in one step")
	flags.StringArrayVar(&s.strategies, "strategy", []string{defaultStrategies},
		"`NAME[:option=value,...]`, several separated by commas or by repeating the flag; each is a run")
	flags.IntVar(&s.options.Processors, "processors", 0, "that all engines share, each of which keeps one busy; 0 = each engine has its own")
	flags.IntVar(&s.options.Routers, "routers", 1, "processes that share the fleet, each with in-flight counts of its own")
	flags.DurationVar(&s.options.SlowStart, "slow-start", 10*time.Second, "in which a replica that joins or returns takes a growing share of cold work")
	flags.IntVar(&s.options.Concurrency, "concurrency", 0, "keep that many requests open instead of sending them at their times (closed loop)")
	flags.StringVar(&s.warmup, "warmup", "0", "requests, or a `duration` such as 30s, played first and not counted")
	flags.DurationVar(&s.options.Objective, "ttft-objective", 0, "count requests with a TTFT up to this as goodput")
	for _, i := range []struct {
		kind  simulate.IncidentKind
		usage string
	}{
		{simulate.Fail, "a replica dies, `replica=N,at=TIME[,for=TIME]`, and comes back with a cold cache; repeat for more"},
		{simulate.Join, "another replica joins, `at=TIME`; repeat for more"},
		{simulate.Slow, "a replica becomes slower, `replica=N,factor=X,at=TIME[,for=TIME]`; repeat for more"},
	} {
		s.incidents[i.kind] = flags.StringArray(string(i.kind), nil, i.usage)
	}
	flags.BoolVar(&s.compare, "compare", false, "print each run's ratio to the first")
	flags.BoolVar(&s.json, "json", false, "print the figures as JSON")
	flags.StringVar((*string)(&s.report), "report", "", "write an HTML report with plots to `FILE`")
}

func (s *simulateCommand) run(ctx context.Context) error {
	requests, strategies, err := s.prepare()
	if err != nil {
		return err
	}
	result := &bench.Report{}
	total, _ := workload.Len(requests)
	bar := newProgress(s.stderr, total*len(strategies))
	for _, strategy := range strategies {
		o := s.options
		o.Strategy = strategy
		o.Ended = func() { bar.ended(strategy.Name) }
		run, err := simulate.Run(ctx, requests, o)
		if err != nil {
			bar.clear()
			return interrupted(ctx, err)
		}
		if run.Requests == 0 {
			bar.clear()
			return usageError{fmt.Errorf("simulate: %w", errNoneCounted)}
		}
		result.Runs = append(result.Runs, *run)
	}
	bar.clear()
	if s.compare {
		result.Compare()
	}
	return s.print(result, requests.Name())
}

func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("simulate: interrupted before all requests were played")
	}
	return err
}

// prepare reads all flags; its errors are the user's to mend.
func (s *simulateCommand) prepare() (workload.Workload, []simulate.Strategy, error) {
	strategies, err := s.readStrategies()
	if err == nil {
		err = s.readFleet()
	}
	if err != nil {
		return nil, nil, usageError{fmt.Errorf("simulate: %w", err)}
	}
	if err := s.report.check(); err != nil {
		return nil, nil, err
	}
	requests, err := s.workload.open()
	if err != nil {
		return nil, nil, fmt.Errorf("simulate: %w", err)
	}
	return requests, strategies, nil
}

func (s *simulateCommand) readStrategies() ([]simulate.Strategy, error) {
	var all []simulate.Strategy
	for _, list := range s.strategies {
		strategies, err := simulate.ParseStrategies(list)
		if err != nil {
			return nil, err
		}
		all = append(all, strategies...)
	}
	return all, nil
}

func (s *simulateCommand) readFleet() (err error) {
	switch {
	case s.options.Replicas == 0:
		return errors.New("how many engines? Name --replicas N")
	case s.options.CacheTokens == 0:
		return errors.New("how much does an engine's cache hold? Name --cache-tokens N; engines log it at the start (see `warmpath simulate --help`)")
	}
	if s.options.Cost, err = emulator.Preset(s.preset); err != nil {
		return err
	}
	if s.options.Warmup, err = parseWarmup(s.warmup); err != nil {
		return err
	}
	s.options.Seed = s.workload.seed
	for _, kind := range []simulate.IncidentKind{simulate.Fail, simulate.Join, simulate.Slow} {
		for _, spec := range *s.incidents[kind] {
			incident, err := simulate.ParseIncident(kind, spec)
			if err != nil {
				return err
			}
			s.options.Incidents = append(s.options.Incidents, incident)
		}
	}
	return s.options.Validate()
}

func (s *simulateCommand) print(result *bench.Report, name string) error {
	r := report.Of("Simulation of "+name, result.Runs)
	r.Facts = s.facts(name)
	if err := s.report.write(r); err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	if s.json {
		return writeJSON(s.stdout, result)
	}
	return r.WriteText(s.stdout)
}

// facts are what the figures depend on.
func (s *simulateCommand) facts(name string) []report.Fact {
	o := &s.options
	list := []report.Fact{
		{Name: "workload", Value: name}, {Name: "seed", Value: strconv.FormatUint(s.workload.seed, 10)},
		{Name: "fleet", Value: fmt.Sprintf("%d emulated replicas of engine %s, preset %s, %d tokens of cache, %d slots and a budget of %d tokens each",
			o.Replicas, o.Engine, s.preset, o.CacheTokens, o.Slots, o.Budget)},
		{Name: "routers", Value: strconv.Itoa(o.Routers)},
	}
	if o.Concurrency > 0 {
		list = append(list, report.Fact{Name: "load", Value: fmt.Sprintf("closed loop, %d requests open", o.Concurrency)})
	}
	if o.Processors > 0 {
		list = append(list, report.Fact{Name: "processors", Value: fmt.Sprintf("%d, shared by all engines", o.Processors)})
	}
	list = append(list, warmupFacts(o.Warmup)...)
	if s.workload.spread > 0 {
		list = append(list, report.Fact{Name: "times", Value: fmt.Sprintf("requests of one time spread over %v", s.workload.spread)})
	}
	for _, kind := range []simulate.IncidentKind{simulate.Fail, simulate.Join, simulate.Slow} {
		for _, spec := range *s.incidents[kind] {
			list = append(list, report.Fact{Name: string(kind), Value: spec})
		}
	}
	return append(list, report.Fact{Name: "warmpath", Value: buildVersion()})
}
