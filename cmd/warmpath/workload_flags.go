package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/workload"
)

// workloadFlags say which requests a command plays: those of a trace, or those of a generator.
type workloadFlags struct {
	trace, spec string
	recording   string
	blockTokens int
	rate        float64
	spread      time.Duration
	limit       int
	seed        uint64
}

// register adds the flags to a command.
func (f *workloadFlags) register(c *cobra.Command) {
	var names []string
	for _, g := range workload.Generators() {
		names = append(names, g.Name)
	}
	flags := c.Flags()
	flags.StringVar(&f.trace, "trace", "", "play the requests of `FILE`, JSON lines, plain or gzip: block ids as Mooncake's, or request bodies")
	flags.StringVar(&f.recording, "recording", "", "play the requests of `FILE`, which `record` in the configuration wrote")
	flags.StringVar(&f.spec, "workload", "", "play generated requests, `NAME[:option=value,...]`: "+strings.Join(names, ", "))
	flags.IntVar(&f.blockTokens, "block-tokens", 0, "tokens in a block of the trace's hash_ids; 0 = 512, or 16 where they are Qwen-Bailian's")
	flags.Float64Var(&f.rate, "rate", 0, "mean requests a second, a Poisson process, instead of the trace's own times")
	flags.DurationVar(&f.spread, "spread", 0, "spread requests of one time over that long: the step in which the trace's times are written, 3s for Mooncake's")
	flags.IntVar(&f.limit, "limit", 0, "play only that many requests; 0 = all")
	flags.Uint64Var(&f.seed, "seed", 1, "selects everything random; equal seeds give equal results")
}

// open gives the workload that the flags describe. Its errors are the user's to mend.
func (f *workloadFlags) open() (workload.Workload, error) {
	w, err := f.source()
	switch {
	case err != nil:
		return nil, usageError{err}
	case f.spread < 0:
		return nil, usageError{fmt.Errorf("spread: %v is out of range; use 0 or more", f.spread)}
	case f.limit < 0:
		return nil, usageError{fmt.Errorf("limit: %d is out of range; use 0 or more", f.limit)}
	case f.limit > 0:
		w = workload.Limit(w, f.limit)
	}
	if f.spread > 0 {
		w = workload.Spread(w, f.spread, f.seed)
	}
	return w, nil
}

func (f *workloadFlags) source() (workload.Workload, error) {
	switch {
	case f.trace != "" && f.spec != "", f.recording != "" && f.trace+f.spec != "":
		return nil, errors.New("--trace, --recording and --workload all say what to play; name one of them")
	case f.recording != "" && f.rate != 0:
		return nil, errors.New("--rate is for traces; a recording has its own times")
	case f.recording != "":
		return workload.OpenRecording(f.recording)
	case f.trace != "":
		return workload.OpenTrace(f.trace, workload.TraceOptions{BlockTokens: f.blockTokens, Rate: f.rate, Seed: f.seed})
	case f.spec == "":
		return nil, errors.New("no requests to play; name --trace FILE, --recording FILE or --workload NAME, such as --workload rag")
	case f.rate != 0:
		return nil, fmt.Errorf("--rate is for traces; write --workload %s:rate=%g", f.spec, f.rate)
	}
	return workload.Parse(f.spec, f.seed)
}
