// Command overhead measures what Warmpath costs beside a bare httputil.ReverseProxy, both in front of the same engine in the same
// run.
package main

// The proxies take turns in short rounds, so that a machine whose speed drifts slows both alike; the table shows medians of the
// rounds, as CPU time per request and added latency. CPU time is read from /proc, so it is only shown on Linux.

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/warmpath/warmpath/test/turns"
)

// shape is one kind of request, and what the project allows itself with it.
type shape struct {
	turns.Shape
	// maxCPU and maxAdded are multiples of the bare proxy's CPU time per request and added latency at P50; 0 = no bound. A long body
	// is read whole before it is sent on, which takes the time of one more transfer.
	maxCPU, maxAdded float64
}

var shapes = []shape{
	{Shape: turns.Shape{Name: "2 KB", Body: 2 << 10}, maxCPU: 1.15, maxAdded: 1.2},
	{Shape: turns.Shape{Name: "200 KB", Body: 200 << 10}, maxCPU: 1.5},
	{Shape: turns.Shape{Name: "2 KB, streamed", Body: 2 << 10, Stream: true}},
}

type flags struct {
	role     string
	target   string
	warmpath string
	pace     turns.Pace
}

func main() {
	var f flags
	flag.StringVar(&f.role, "role", "driver", "driver, or engine or floor for the processes that the driver starts")
	flag.StringVar(&f.target, "target", "", "engine URL, for -role floor")
	flag.StringVar(&f.warmpath, "warmpath", "bin/warmpath", "the binary to measure")
	flag.Float64Var(&f.pace.Rate, "rate", 100, "requests per second")
	flag.DurationVar(&f.pace.Round, "round", 5*time.Second, "length of one proxy's turn")
	flag.IntVar(&f.pace.Rounds, "rounds", 5, "turns of each proxy and shape")
	flag.Parse()
	if err := run(f); err != nil {
		fmt.Fprintln(os.Stderr, "overhead:", err)
		os.Exit(1)
	}
}

func run(f flags) error {
	if f.role != "driver" {
		return turns.Serve(f.role, f.target)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return drive(ctx, f)
}

// drive starts the engine and the proxies, measures and prints.
func drive(ctx context.Context, f flags) error {
	var started turns.Processes
	defer started.Stop()
	engine, err := started.Role("-role", turns.RoleEngine)
	if err != nil {
		return err
	}
	floor, err := started.Role("-role", turns.RoleFloor, "-target", engine.URL)
	if err != nil {
		return err
	}
	warm, err := started.Warmpath(ctx, f.warmpath, []string{engine.URL})
	if err != nil {
		return err
	}
	engine.Name, engine.PID, floor.Name, warm.Name = "direct", 0, "bare proxy", "warmpath"
	contenders := []turns.Contender{engine, floor, warm}
	results := make([][]turns.Result, len(shapes))
	for i, s := range shapes {
		if results[i], err = turns.Compete(ctx, contenders, s.Shape, f.pace); err != nil {
			return err
		}
	}
	return report(contenders, results)
}

// report prints the table and says which bounds do not hold.
func report(contenders []turns.Contender, results [][]turns.Result) error {
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "body\tthrough\tCPU/request\tratio\tP50\tadded P50\tratio\tbroken\t")
	var over []string
	for i, s := range shapes {
		direct, floor := results[i][0], results[i][1]
		for j, c := range contenders {
			r := results[i][j]
			cpu, added := ratio(r.CPU, floor.CPU), ratio(r.P50-direct.P50, floor.P50-direct.P50)
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t\n", s.Name, c.Name, micro(r.CPU), times(cpu), micro(r.P50), micro(r.P50-direct.P50), times(added), r.Broken)
			if j < 2 {
				continue
			}
			if r.Broken > 0 {
				over = append(over, fmt.Sprintf("%s: %d broken answers", s.Name, r.Broken))
			}
			if s.maxCPU > 0 && cpu > s.maxCPU {
				over = append(over, fmt.Sprintf("%s: CPU %.2fx, want at most %.2fx", s.Name, cpu, s.maxCPU))
			}
			if s.maxAdded > 0 && added > s.maxAdded {
				over = append(over, fmt.Sprintf("%s: added P50 %.2fx, want at most %.2fx", s.Name, added, s.maxAdded))
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
