package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/report"
	"github.com/warmpath/warmpath/internal/simulate"
	"github.com/warmpath/warmpath/internal/workload"
)

// benchCommand is one `warmpath bench`; most of its fields are flags.
type benchCommand struct {
	workload       workloadFlags
	targets        []string
	replicas       []string
	engine         string
	strategies     []string
	headers        []string
	resets         []string
	model          string
	warmup         string
	options        bench.Options
	compare, json  bool
	report         reportFile
	stdout, stderr io.Writer

	full []string // replicas whose caches could not be emptied before the latest run
}

func newBenchCommand() *cobra.Command {
	var b benchCommand
	c := &cobra.Command{
		Use:   "bench (--target URL... | --replica URL...) (--trace FILE | --workload NAME)",
		Short: "Measure what clients of an OpenAI-style URL see",
		Long: `Bench sends a workload's requests at their times, whether or not earlier ones have been answered, and measures TTFT,
inter-token and end-to-end latency from the intended start, throughput, hit rate, and what became of each request.
Several targets are played in turn with the same requests. A target may have a name: --target NAME=URL.
Instead of targets, --replica names engines and --strategy how to route to them: each strategy is a run of its own, through a
router that bench starts, on caches that are emptied before.

Failed and refused requests are figures: the exit code is 1 only if the run itself failed, or not one request was answered.`,
		Example: `  warmpath bench --target http://127.0.0.1:8080 --workload rag
  warmpath bench --target http://127.0.0.1:8080 --workload sagemaker:rate=8 --warmup 100 --ttft-objective 500ms --report bench.html
  warmpath bench --target random=http://10.0.0.1:8080 --target aware=http://10.0.0.2:8080 --trace chats.jsonl.gz --compare
  warmpath bench --replica http://10.0.1.1:8000 --replica http://10.0.1.2:8000 --engine vllm --workload rag --compare \
      --strategy RANDOM,KV_AWARE
  warmpath bench --target https://api.example.com --workload unrelated --concurrency 8 --model m --header "Authorization: Bearer $KEY"`,
		RunE: func(c *cobra.Command, _ []string) error {
			b.stdout, b.stderr = c.OutOrStdout(), c.ErrOrStderr()
			return b.run(c.Context())
		},
	}
	b.workload.register(c)
	b.register(c)
	return c
}

func (b *benchCommand) register(c *cobra.Command) {
	flags := c.Flags()
	flags.StringArrayVar(&b.targets, "target", nil, "base `URL` that requests are sent to, or NAME=URL; repeat for more, played in turn")
	flags.StringArrayVar(&b.replicas, "replica", nil, "base `URL` of an engine that a router within bench sends requests to; repeat for more")
	flags.StringVar(&b.engine, "engine", "", "what the replicas run: vllm, sglang, tensorrtllm, llamacpp or generic (default)")
	flags.StringArrayVar(&b.strategies, "strategy", nil,
		"how to route to the replicas, `NAME[:option=value,...]`, several separated by commas or by repeating the flag; each is a run")
	flags.StringVar(&b.model, "model", "", "`name` put into bodies that name no model")
	flags.StringArrayVar(&b.headers, "header", nil, "`'Name: value'` sent with every request; repeat for more")
	flags.Float64Var(&b.options.Speed, "speed", 1, "how many times faster than the workload says requests arrive")
	flags.IntVar(&b.options.Concurrency, "concurrency", 0, "keep that many requests open instead of sending them at their times (closed loop)")
	flags.Float64Var(&b.options.TimeScale, "time-scale", 1, "how many times faster than real ones emulated engines run; results are in the engines' time")
	flags.StringVar(&b.warmup, "warmup", "0", "requests, or a `duration` such as 30s, sent first and not counted")
	flags.DurationVar(&b.options.TTFTObjective, "ttft-objective", 0, "count requests with a TTFT up to this as goodput")
	flags.DurationVar(&b.options.Timeout, "timeout", 10*time.Minute, "give up a request after that; 0 = never")
	flags.StringArrayVar(&b.resets, "reset", nil, "`URL` posted to before each run, to empty caches, such as http://ENGINE/reset_prefix_cache; repeat for more")
	flags.BoolVar(&b.compare, "compare", false, "print each run's ratio to the first")
	flags.BoolVar(&b.json, "json", false, "print the figures as JSON")
	flags.StringVar((*string)(&b.report), "report", "", "write an HTML report with plots to `FILE`")
}

func (b *benchCommand) run(ctx context.Context) error {
	requests, targets, err := b.prepare()
	if err != nil {
		return err
	}
	result := &bench.Report{}
	total, _ := workload.Len(requests)
	bar := newProgress(b.stderr, total*len(targets))
	for _, t := range targets {
		run, err := b.play(ctx, t, requests, bar)
		if err != nil {
			bar.clear()
			return err
		}
		result.Runs = append(result.Runs, *run)
	}
	bar.clear()
	if b.compare {
		result.Compare()
	}
	if err := b.print(result, requests.Name()); err != nil {
		return err
	}
	return silent(result)
}

// prepare reads all flags; its errors are the user's to mend.
func (b *benchCommand) prepare() (workload.Workload, []target, error) {
	targets, err := b.readTargets()
	if err != nil {
		return nil, nil, usageError{fmt.Errorf("bench: %w", err)}
	}
	if b.options.Header, err = parseHeaders(b.headers); err == nil {
		b.options.Warmup, err = parseWarmup(b.warmup)
	}
	if err == nil {
		err = b.outOfRange()
	}
	if err != nil {
		return nil, nil, usageError{fmt.Errorf("bench: %w", err)}
	}
	if err := b.report.check(); err != nil {
		return nil, nil, err
	}
	requests, err := b.workload.open()
	if err != nil {
		return nil, nil, fmt.Errorf("bench: %w", err)
	}
	return workload.WithBodies(requests, b.model), targets, nil
}

func (b *benchCommand) outOfRange() error {
	o := &b.options
	switch {
	case !(o.Speed > 0):
		return fmt.Errorf("--speed %g: must be above 0", o.Speed)
	case !(o.TimeScale > 0):
		return fmt.Errorf("--time-scale %g: must be above 0", o.TimeScale)
	case o.Concurrency < 0:
		return fmt.Errorf("--concurrency %d: must be 1 or more, or 0 for an open loop", o.Concurrency)
	case o.Concurrency > 0 && o.Speed != 1:
		return errors.New("--speed and --concurrency exclude each other: a closed loop ignores the workload's times")
	case o.Timeout < 0 || o.TTFTObjective < 0:
		return errors.New("--timeout and --ttft-objective must not be negative")
	}
	return nil
}

// target is where a run goes, and what it is called. With a strategy it is the replicas, routed by it.
type target struct {
	name, url string
	strategy  *simulate.Strategy
}

func parseTargets(specs []string) ([]target, error) {
	if len(specs) == 0 {
		return nil, errors.New("no target; name --target URL, such as --target http://127.0.0.1:8080, or engines with --replica URL")
	}
	targets := make([]target, len(specs))
	for i, spec := range specs {
		targets[i].url = spec
		if name, url, named := strings.Cut(spec, "="); named && !strings.Contains(name, "/") {
			targets[i] = target{name: name, url: url}
		}
	}
	return targets, nil
}

func parseHeaders(lines []string) (http.Header, error) {
	header := http.Header{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fmt.Errorf("--header %q: write 'Name: value'", line)
		}
		name = textproto.CanonicalMIMEHeaderKey(name)
		header[name] = append(header[name], strings.TrimSpace(value))
	}
	return header, nil
}

var errNoneCounted = errors.New("no requests left to count; play more, or warm up with fewer")

func parseWarmup(text string) (bench.Warmup, error) {
	if n, err := strconv.Atoi(text); err == nil && n >= 0 {
		return bench.Warmup{Requests: n}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return bench.Warmup{Time: d}, nil
	}
	return bench.Warmup{}, fmt.Errorf("--warmup %q: write a number of requests, such as 100, or a duration, such as 30s", text)
}

func (b *benchCommand) play(ctx context.Context, t target, w workload.Workload, bar progress) (*bench.Run, error) {
	if err := bench.Reset(ctx, b.resets, nil); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	o := b.options
	o.Target = t.url
	o.Ended = func() { bar.ended(t.label()) }
	if t.strategy != nil {
		url, stop, err := b.route(ctx, t.strategy)
		if err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
		defer stop()
		o.Target = url
	}
	run, err := bench.Play(ctx, w.Requests(), o)
	switch {
	case ctx.Err() != nil:
		return nil, errors.New("bench: interrupted before all requests were played")
	case err != nil:
		return nil, usageError{err}
	case w.Err() != nil:
		return nil, fmt.Errorf("bench: %w", w.Err())
	case run.Requests == 0:
		return nil, usageError{fmt.Errorf("bench: %w", errNoneCounted)}
	}
	b.name(run, t)
	return run, nil
}

func (b *benchCommand) print(result *bench.Report, name string) error {
	r := report.Of("Benchmark of "+name, result.Runs)
	r.Facts = b.facts(name)
	if note := b.inTurn(len(result.Runs)); note != "" {
		r.Notes = append(r.Notes, note)
	}
	if err := b.report.write(r); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if b.json {
		return writeJSON(b.stdout, result)
	}
	return r.WriteText(b.stdout)
}

// facts are what the figures depend on.
func (b *benchCommand) facts(name string) []report.Fact {
	o := &b.options
	load := "open loop, at the workload's times"
	switch {
	case o.Concurrency > 0:
		load = fmt.Sprintf("closed loop, %d requests open", o.Concurrency)
	case o.Speed != 1:
		load += fmt.Sprintf(", %g times faster", o.Speed)
	}
	list := []report.Fact{
		{Name: "workload", Value: name}, {Name: "seed", Value: strconv.FormatUint(b.workload.seed, 10)}, {Name: "load", Value: load},
	}
	if len(b.replicas) > 0 {
		list = append(list, report.Fact{Name: "replicas", Value: strings.Join(b.replicas, ", ")})
	} else {
		list = append(list, report.Fact{Name: "targets", Value: strings.Join(b.targets, ", ")})
	}
	list = append(list, warmupFacts(o.Warmup)...)
	if o.TimeScale != 1 {
		list = append(list, report.Fact{Name: "time scale", Value: fmt.Sprintf("%g; all times are the engines' own", o.TimeScale)})
	}
	return append(list,
		report.Fact{Name: "ended", Value: time.Now().Format("2006-01-02 15:04 MST")}, report.Fact{Name: "warmpath", Value: buildVersion()})
}

func warmupFacts(w bench.Warmup) []report.Fact {
	switch {
	case w.Requests > 0:
		return []report.Fact{{Name: "warm-up", Value: fmt.Sprintf("%d requests, not counted", w.Requests)}}
	case w.Time > 0:
		return []report.Fact{{Name: "warm-up", Value: fmt.Sprintf("%v, not counted", w.Time)}}
	}
	return nil
}

// silent is an error if a target did not answer a single request.
func silent(result *bench.Report) error {
	for i := range result.Runs {
		r := &result.Runs[i]
		if r.Failed+r.Refused == r.Requests {
			return fmt.Errorf("bench: %s answered none of %d requests; check that it is up, and send one by hand", r.Target, r.Requests)
		}
	}
	return nil
}
