package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/emulator"
)

// emulateGrace is how long open requests may take to finish once the command is to end.
const emulateGrace = 3 * time.Second

// emulateFlags are the flags of `warmpath emulate`.
type emulateFlags struct {
	listen      string
	count       int
	models      []string
	preset      string
	cacheTokens int
	blockSize   int
	slots       int
	budget      int
	timeScale   float64
	sessions    bool
	faults      []string
}

func newEmulateCommand() *cobra.Command {
	var f emulateFlags
	c := &cobra.Command{
		Use:   "emulate",
		Short: "Run emulated engines on consecutive ports",
		Long: `Emulate runs engines without a model: they batch, cache prefixes, contend and answer as vLLM does, and compute nothing.
They speak the OpenAI APIs (chat, completions, embeddings, responses), Anthropic messages, /invocations and vLLM's /metrics.

A fault is KIND[,KEY=VALUE]...; it is in force from the start on every engine, and POST /emulator/faults adds more to one.
  the engine    refuse, slow (factor=2), stall
  probes        unhealthy (path=, count=, probability=)
  requests      reset, status (code=503), rate-limit (retry-after=1)      with path=PREFIX, count=N, probability=P
  answers       hang, reset-mid-stream, broken-chunk, error-event, no-done   the same, and after=TOKENS
Any of them ends by itself with for=DURATION.`,
		Example: `  warmpath emulate
  warmpath emulate --count 4 --preset 8b --time-scale 10
  warmpath emulate --listen 127.0.0.1:9100 --slots 2 --fault reset-mid-stream,after=3,count=2 --fault slow,factor=4,for=30s
  curl -X POST 127.0.0.1:9100/emulator/faults -H 'Content-Type: application/json' -d '"status,code=503,probability=0.1"'`,
		RunE: func(c *cobra.Command, _ []string) error { return emulate(c.Context(), c.OutOrStdout(), f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:9000", "`address` of the first engine")
	flags.IntVar(&f.count, "count", 1, "engines, on consecutive ports")
	flags.StringSliceVar(&f.models, "model", []string{"emulated"}, "model `name` the engines serve; repeat for more")
	flags.StringVar(&f.preset, "preset", "70b", "cost model: 70b (eight GPUs), 8b (one), or slots that share nothing")
	flags.IntVar(&f.cacheTokens, "cache-tokens", 65536, "tokens in each engine's prefix cache")
	flags.IntVar(&f.blockSize, "block-size", 16, "tokens in a cache block")
	flags.IntVar(&f.slots, "slots", 128, "requests an engine runs at once; the others wait")
	flags.IntVar(&f.budget, "budget", 4096, "tokens an engine computes in one step")
	flags.Float64Var(&f.timeScale, "time-scale", 1, "how many times faster than the modelled engine")
	flags.BoolVar(&f.sessions, "sessions", false, "keep stateful sessions on /invocations, as SageMaker's containers do: 20 minutes each")
	flags.StringArrayVar(&f.faults, "fault", nil, "`fault` in force from the start; repeat for more")
	return c
}

// emulate runs the engines until ctx ends.
func emulate(ctx context.Context, stdout io.Writer, f emulateFlags) error {
	o, err := f.options()
	if err != nil {
		return usageError{fmt.Errorf("emulate: %w", err)}
	}
	addresses, err := consecutive(f.listen, f.count)
	if err != nil {
		return usageError{fmt.Errorf("emulate: %w", err)}
	}
	var engines []*emulator.Instance
	defer func() { closeEngines(engines) }()
	for _, address := range addresses {
		engine, err := emulator.Listen(address, o)
		if err != nil {
			return explainListen(address, err)
		}
		engines = append(engines, engine)
	}
	for _, engine := range engines {
		fmt.Fprintf(stdout, "%s  model %s, preset %s, %d tokens of cache\n", engine.URL(), o.Models[0], f.preset, f.cacheTokens)
	}
	<-ctx.Done()
	return nil
}

// options checks the flags' values.
func (f emulateFlags) options() (emulator.Options, error) {
	o := emulator.Options{Models: f.models, TimeScale: f.timeScale}
	if f.sessions {
		o.Sessions = emulator.SessionTTL
	}
	cost, err := emulator.Preset(f.preset)
	if err != nil {
		return o, fmt.Errorf("--preset: %w", err)
	}
	for _, flag := range []struct {
		name  string
		value int
	}{{"count", f.count}, {"block-size", f.blockSize}, {"slots", f.slots}, {"budget", f.budget}} {
		if flag.value < 1 {
			return o, fmt.Errorf("--%s: %d is out of range; use 1 or more", flag.name, flag.value)
		}
	}
	switch {
	case f.cacheTokens < f.blockSize:
		return o, fmt.Errorf("--cache-tokens: %d is less than one block; use %d or more", f.cacheTokens, f.blockSize)
	case !(f.timeScale > 0 && f.timeScale <= emulator.MaxTimeScale):
		return o, fmt.Errorf("--time-scale: %g is out of range; use a number above 0, at most %d", f.timeScale, emulator.MaxTimeScale)
	case len(f.models) == 0:
		return o, errors.New("--model: give the engines a model to serve")
	}
	for _, script := range f.faults {
		fault, err := emulator.ParseFault(script)
		if err != nil {
			return o, fmt.Errorf("--fault: %w", err)
		}
		o.Faults = append(o.Faults, fault)
	}
	o.Config = emulator.Config{
		BlockSize: f.blockSize, Blocks: f.cacheTokens / f.blockSize, Budget: f.budget, MaxRunning: f.slots, Cost: cost,
	}
	return o, nil
}

// consecutive returns count addresses from listen on. Port 0 stays 0: any free port each.
func consecutive(listen string, count int) ([]string, error) {
	host, first, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %q is not HOST:PORT", listen)
	}
	port, err := strconv.ParseUint(first, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("--listen: %q is not a port; use 0 to 65535", first)
	}
	if port > 0 && int(port)+count-1 > 65535 {
		return nil, fmt.Errorf("--count: %d ports from %d on end above 65535; use fewer, or a lower port with --listen", count, port)
	}
	addresses := make([]string, count)
	for i := range addresses {
		addresses[i] = net.JoinHostPort(host, strconv.Itoa(int(port)))
		if port > 0 {
			port++
		}
	}
	return addresses, nil
}

func explainListen(address string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("emulate: %s is in use; pick another with --listen", address)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("emulate: %s is a privileged port; pick one above 1023 with --listen", address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("emulate: %s is no address of this machine; pick another with --listen", address)
	}
	return fmt.Errorf("emulate: %s: %w", address, err)
}

// closeEngines lets open requests finish within the grace, all engines at once.
func closeEngines(engines []*emulator.Instance) {
	ctx, cancel := context.WithTimeout(context.Background(), emulateGrace)
	defer cancel()
	var all sync.WaitGroup
	for _, engine := range engines {
		all.Go(func() { _ = engine.Close(ctx) }) // what outlasts the grace is cut off
	}
	all.Wait()
}
