package demo

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/routing"
)

// WriteTable prints a report for people: a row for each run, and below it how the rows compare and in which time they are.
func WriteTable(w io.Writer, r *bench.Report) {
	table := tabwriter.NewWriter(w, 0, 0, 0, ' ', tabwriter.AlignRight)
	width := 0
	for _, run := range r.Runs {
		width = max(width, len(run.Strategy))
	}
	fmt.Fprintf(table, "%-*s\t   hit rate\t   TTFT P50\t   P90\t   P99\t   throughput\t   overflow\t   requests per replica\n", width, "strategy")
	for _, run := range r.Runs {
		fmt.Fprintf(table, "%-*s\t   %s\t   %.0f ms\t   %.0f ms\t   %.0f ms\t   %.1f req/s\t   %.1f %%\t   %s\n", width, run.Strategy, percent(run.HitRate),
			run.TTFT.P50, run.TTFT.P90, run.TTFT.P99, run.RequestsPerSecond, 100*run.OverflowShare, perReplica(run.PerReplica))
	}
	_ = table.Flush() // like every other print, it cannot help a broken terminal
	fmt.Fprintln(w)
	writeFoot(w, r)
}

func writeFoot(w io.Writer, r *bench.Report) {
	random := find(r, routing.NameRandom)
	for _, name := range []string{routing.NamePrefixAware, routing.NameKVAware} {
		if aware := find(r, name); random != nil && aware != nil {
			writeGain(w, random, aware)
		}
	}
	for _, run := range r.Runs {
		if run.Failed+run.Refused > 0 {
			fmt.Fprintf(w, "%s: of %d requests %d failed and %d were refused (%s).\n", run.Strategy, run.Requests, run.Failed, run.Refused, kinds(run.Errors))
		}
	}
	if len(r.Runs) > 0 {
		fmt.Fprintf(w, "Times are the emulated engines' own: they run %g times faster than the model they imitate, and what was measured is multiplied back.\n",
			r.Runs[0].TimeScale)
	}
}

// writeGain says what a strategy gains over another, if both have the figures for it.
func writeGain(w io.Writer, from, to *bench.Run) {
	if from.HitRate == nil || to.HitRate == nil || *from.HitRate == 0 || from.TTFT.P50 == 0 || from.TTFT.P90 == 0 {
		return
	}
	change := func(from, to float64) float64 { return 100 * (to/from - 1) }
	fmt.Fprintf(w, "%s against %s: %.1f times the hit rate, TTFT P50 %+.0f %%, P90 %+.0f %%; its busiest replica got %.2f times the mean.\n",
		to.Strategy, from.Strategy, *to.HitRate / *from.HitRate, change(from.TTFT.P50, to.TTFT.P50), change(from.TTFT.P90, to.TTFT.P90), to.Imbalance())
}

func find(r *bench.Report, strategy string) *bench.Run {
	for i := range r.Runs {
		if r.Runs[i].Strategy == strategy {
			return &r.Runs[i]
		}
	}
	return nil
}

func percent(share *float64) string {
	if share == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100**share)
}

// kinds lists errors by kind, in order of their names.
func kinds(errors map[string]int) string {
	list := make([]string, 0, len(errors))
	for _, kind := range slices.Sorted(maps.Keys(errors)) {
		list = append(list, fmt.Sprintf("%s %d", kind, errors[kind]))
	}
	return strings.Join(list, ", ")
}

func perReplica(replicas []bench.Replica) string {
	counts := make([]string, len(replicas))
	for i, r := range replicas {
		counts[i] = fmt.Sprint(r.Requests)
	}
	return strings.Join(counts, " ")
}
