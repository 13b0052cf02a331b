// Command overhead measures what Warmpath costs beside a bare httputil.ReverseProxy, both in front of the same engine in the same
// run.
package main

// The proxies take turns in short rounds, so that a machine whose speed drifts slows both alike; the table shows medians of the
// rounds, as CPU time per request and added latency. CPU time is read from /proc, so it is only shown on Linux.

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// shape is one kind of request.
type shape struct {
	name   string
	body   int  // bytes
	stream bool // the answer is an event stream
	// maxCPU and maxAdded are what the project allows itself, as multiples of the bare proxy's CPU time per request and added latency
	// at P50; 0 = no bound. A long body is read whole before it is sent on, which takes the time of one more transfer.
	maxCPU, maxAdded float64
}

var shapes = []shape{
	{name: "2 KB", body: 2 << 10, maxCPU: 1.15, maxAdded: 1.2},
	{name: "200 KB", body: 200 << 10, maxCPU: 1.5},
	{name: "2 KB, streamed", body: 2 << 10, stream: true},
}

type flags struct {
	role     string
	target   string
	warmpath string
	rate     float64
	round    time.Duration
	rounds   int
}

func main() {
	var f flags
	flag.StringVar(&f.role, "role", "driver", "driver, or engine or floor for the processes that the driver starts")
	flag.StringVar(&f.target, "target", "", "engine URL, for -role floor")
	flag.StringVar(&f.warmpath, "warmpath", "bin/warmpath", "the binary to measure")
	flag.Float64Var(&f.rate, "rate", 100, "requests per second")
	flag.DurationVar(&f.round, "round", 5*time.Second, "length of one proxy's turn")
	flag.IntVar(&f.rounds, "rounds", 5, "turns of each proxy and shape")
	flag.Parse()
	if err := run(f); err != nil {
		fmt.Fprintln(os.Stderr, "overhead:", err)
		os.Exit(1)
	}
}

func run(f flags) error {
	switch f.role {
	case "engine":
		return serveEngine()
	case "floor":
		return serveFloor(f.target)
	}
	return drive(f)
}

// contender is a way to the engine.
type contender struct {
	name string
	url  string
	pid  int // 0 = no process of its own
}

// drive starts the engine and the proxies, measures and prints.
func drive(f flags) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var started processes
	defer started.stop()
	engine, err := started.start(self, "-role", "engine")
	if err != nil {
		return err
	}
	floor, err := started.start(self, "-role", "floor", "-target", engine.url)
	if err != nil {
		return err
	}
	warm, err := started.startWarmpath(f.warmpath, engine.url)
	if err != nil {
		return err
	}
	engine.name, engine.pid, floor.name, warm.name = "direct", 0, "bare proxy", "warmpath"
	contenders := []contender{engine, floor, warm}
	results := make([][]result, len(shapes))
	for i, s := range shapes {
		for _, c := range contenders {
			measure(c, s, f.rate, time.Second) // warm-up
		}
		results[i] = compete(contenders, s, f)
	}
	return report(contenders, results)
}

// compete lets the contenders take turns over one shape and gives each one's medians.
func compete(contenders []contender, s shape, f flags) []result {
	rounds := make([][]result, len(contenders))
	for range f.rounds {
		for i, c := range contenders {
			rounds[i] = append(rounds[i], measure(c, s, f.rate, f.round))
		}
	}
	out := make([]result, len(contenders))
	for i, all := range rounds {
		out[i] = result{
			cpu: median(all, func(r result) time.Duration { return r.cpu }),
			p50: median(all, func(r result) time.Duration { return r.p50 }),
		}
		for _, r := range all {
			out[i].broken += r.broken
		}
	}
	return out
}

func median(all []result, of func(result) time.Duration) time.Duration {
	values := make([]time.Duration, len(all))
	for i, r := range all {
		values[i] = of(r)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// report prints the table and says which bounds do not hold.
func report(contenders []contender, results [][]result) error {
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "body\tthrough\tCPU/request\tratio\tP50\tadded P50\tratio\tbroken\t")
	var over []string
	for i, s := range shapes {
		direct, floor := results[i][0], results[i][1]
		for j, c := range contenders {
			r := results[i][j]
			cpu, added := ratio(r.cpu, floor.cpu), ratio(r.p50-direct.p50, floor.p50-direct.p50)
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t\n", s.name, c.name, micro(r.cpu), times(cpu), micro(r.p50), micro(r.p50-direct.p50), times(added), r.broken)
			if j < 2 {
				continue
			}
			if r.broken > 0 {
				over = append(over, fmt.Sprintf("%s: %d broken answers", s.name, r.broken))
			}
			if s.maxCPU > 0 && cpu > s.maxCPU {
				over = append(over, fmt.Sprintf("%s: CPU %.2fx, want at most %.2fx", s.name, cpu, s.maxCPU))
			}
			if s.maxAdded > 0 && added > s.maxAdded {
				over = append(over, fmt.Sprintf("%s: added P50 %.2fx, want at most %.2fx", s.name, added, s.maxAdded))
			}
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(over) > 0 {
		fmt.Printf("\nOver the project's bounds (noise or a regression; run it again on a quiet machine):\n  %s\n", strings.Join(over, "\n  "))
		return nil
	}
	fmt.Println("\nWithin the project's bounds.")
	return nil
}

func ratio(a, b time.Duration) float64 {
	if b <= 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func times(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2fx", x)
}

func micro(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%d us", d.Microseconds())
}

// processes are the children of the driver.
type processes []*exec.Cmd

func (p *processes) stop() {
	for _, c := range *p {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}
