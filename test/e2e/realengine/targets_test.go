package realengine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/report"
)

// target is one figure of a run and what it must be.
type target struct {
	figure string
	got    float64
	want   float64
	most   bool    // want is the most that it may be, not the least
	slack  float64 // by how much it may miss that on a machine that has other things to do
	unit   string
}

// met allows for the last digit of what is printed.
func (t target) met() bool { return t.by(0.05) }

// failed says that it is missed by more than a busy machine explains.
func (t target) failed() bool { return !t.by(t.slack) }

func (t target) by(slack float64) bool {
	if t.most {
		return t.got <= t.want+slack
	}
	return t.got >= t.want-slack
}

// row is the target's line in the table.
func (t target) row() []string {
	bound, verdict := "at least", "met"
	if t.most {
		bound = "at most"
	}
	if !t.met() {
		verdict = "MISSED"
	}
	return []string{t.figure, fmt.Sprintf("%.1f%s", t.got, t.unit), fmt.Sprintf("%s %.1f%s", bound, t.want, t.unit), verdict}
}

// replicas is how many engines there are.
const replicas = 4

// busy is the share of a time by which a busy machine may miss it.
const busy = 0.5

// hitRate is a target for the share of prompt tokens that were cached, in per cent.
func hitRate(r *bench.Run, want, slack float64) target {
	return target{figure: "cached", got: percent(r), want: want, slack: slack, unit: " %"}
}

// latency is a target for a time in ms.
func latency(figure string, got, want float64) target {
	return target{figure: "TTFT " + figure, got: got, want: want, most: true, slack: busy * want, unit: " ms"}
}

func percent(r *bench.Run) float64 {
	if r.HitRate == nil {
		return 0
	}
	return 100 * *r.HitRate
}

// runsOf gives a strategy's run.
type runsOf func(strategy string) *bench.Run

// targets are what each workload must show of KV_AWARE, beside the other strategies in the same runs.
var targets = map[string]func(runsOf) []target{
	"documents": func(r runsOf) []target {
		random, aware := r("RANDOM"), r("KV_AWARE")
		return []target{
			hitRate(aware, 85, 5),
			latency("P50", aware.TTFT.P50, random.TTFT.P50/8),
			latency("P90", aware.TTFT.P90, random.TTFT.P90/4),
		}
	},
	// A busy machine teaches more often that less fits than was believed: prompts that wait are missed as well.
	"preamble": func(r runsOf) []target {
		byLoad, aware := r("LEAST_OUTSTANDING_REQUESTS"), r("KV_AWARE")
		return []target{
			hitRate(aware, 80, 20),
			latency("P50", aware.TTFT.P50, byLoad.TTFT.P50/6),
			{figure: "replicas used", got: used(aware), want: replicas},
		}
	},
	"sessions": func(r runsOf) []target {
		sticky, aware := r("PREFIX_AWARE"), r("KV_AWARE")
		return []target{
			hitRate(aware, percent(sticky), 15),
			latency("P50", aware.TTFT.P50, sticky.TTFT.P50),
		}
	},
	// Of 24 requests the third slowest is P90, one of the dozen that no cache could answer: how many of those meet decides.
	"cold": func(r runsOf) []target {
		prefix, aware := r("PREFIX_AWARE"), r("KV_AWARE")
		p90 := latency("P90", aware.TTFT.P90, prefix.TTFT.P90)
		p90.slack *= 2
		return []target{hitRate(aware, percent(prefix), 15), p90}
	},
}

func used(r *bench.Run) float64 {
	return float64(len(slices.DeleteFunc(slices.Clone(r.PerReplica), func(p bench.Replica) bool { return p.Requests == 0 })))
}

// judge holds a workload's runs to its targets. The faults are failed requests, and what no busy machine explains.
func judge(name string, runs []bench.Run) (table report.Table, faults []string) {
	for i := range runs {
		r := &runs[i]
		failed := r.Failed + r.Refused
		if w := r.Warmup; w != nil {
			failed += w.Failed + w.Refused
		}
		if failed > 0 {
			faults = append(faults, fmt.Sprintf("%s: %d failed requests, want none: %v", r.Label(), failed, r.Errors))
		}
	}
	table = report.Table{Title: "What KV_AWARE must show", Columns: []string{"figure", "measured", "target", ""}}
	of := targets[name]
	if of == nil {
		return table, faults
	}
	for _, t := range of(func(strategy string) *bench.Run {
		return &runs[slices.IndexFunc(runs, func(r bench.Run) bool { return r.Strategy == strategy })]
	}) {
		table.Rows = append(table.Rows, t.row())
		if t.failed() {
			faults = append(faults, "KV_AWARE: "+strings.Join(t.row(), " "))
		}
	}
	return table, faults
}
