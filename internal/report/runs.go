package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/bench"
)

// Of presents runs of one workload: latencies, what the fleet did, goodput and ratios where there are any, and the plots. The caller
// adds Facts, and more of everything else.
func Of(title string, runs []bench.Run) *Report {
	r := &Report{Title: title, Tables: []Table{latencies(runs), fleet(runs)}, Notes: notes(runs)}
	for _, extra := range []Table{goodput(runs), ratios(runs), replicas(runs)} {
		if len(extra.Rows) > 0 {
			r.Tables = append(r.Tables, extra)
		}
	}
	for _, c := range []Chart{distribution(runs), overTime(runs), failures(runs), perReplica(runs)} {
		if len(c.Lines)+len(c.Bars) > 0 {
			r.Charts = append(r.Charts, c)
		}
	}
	return r
}

func latencies(runs []bench.Run) Table {
	t := Table{
		Title: "What clients saw", Columns: []string{
			"run", "requests", "failed", "refused", "TTFT ms P50", "P90", "P99", "E2E ms P50", "P90", "P99", "ITL ms P50", "P99",
		},
		Note: "Of requests that were answered whole; failed and refused ones stand beside them. TTFT: from the intended start of a request to the first " +
			"generated content. E2E: to the end of the answer. ITL: between one piece of content and the next. Refused: answered with 429 or 503.",
	}
	for i := range runs {
		r := &runs[i]
		t.Rows = append(t.Rows, []string{
			r.Label(), count(r.Requests), count(r.Failed), count(r.Refused),
			ms(r.TTFT.P50), ms(r.TTFT.P90), ms(r.TTFT.P99), ms(r.E2E.P50), ms(r.E2E.P90), ms(r.E2E.P99), ms(r.ITL.P50), ms(r.ITL.P99),
		})
	}
	return t
}

func fleet(runs []bench.Run) Table {
	t := Table{
		Title:   "What the fleet did",
		Columns: []string{"run", "hit rate", "overflow", "requests/s", "output tokens/s", "cached tokens", "imbalance", "requests per replica"},
		Note: "Hit rate: cached prompt tokens over prompt tokens, as the engines report them. Overflow: answers that came from another replica than the prefix points to, because that " +
			"one was at its threshold. Imbalance: requests of the busiest replica over the mean.",
	}
	for i := range runs {
		r := &runs[i]
		t.Rows = append(t.Rows, []string{
			r.Label(), percent(r.HitRate), percent(&r.OverflowShare), decimal(r.RequestsPerSecond, 2), decimal(r.OutputTokensPerSecond, 1),
			count(r.CachedTokens), orNone(r.Imbalance(), 2), spread(r.PerReplica),
		})
	}
	return t
}

func goodput(runs []bench.Run) Table {
	t := Table{
		Title: "Goodput", Columns: []string{"run", "TTFT objective", "good", "good requests/s"},
		Note: "Good: answered whole with a TTFT within the objective, out of all requests, failed and refused ones included.",
	}
	for i := range runs {
		if g := runs[i].Goodput; g != nil {
			t.Rows = append(t.Rows, []string{runs[i].Label(), ms(g.Objective) + " ms", percent(&g.Share), decimal(g.RequestsPerSecond, 2)})
		}
	}
	return t
}

func ratios(runs []bench.Run) Table {
	t := Table{Title: "Ratio to the first run", Columns: []string{
		"run", "hit rate", "TTFT P50", "P90", "P99", "E2E P50", "requests/s", "output tokens/s",
	}}
	for i := range runs {
		if q := runs[i].Ratios; q != nil {
			t.Rows = append(t.Rows, []string{
				runs[i].Label(), times(q.HitRate), times(q.TTFTP50), times(q.TTFTP90), times(q.TTFTP99), times(q.E2EP50),
				times(q.RequestsPerSecond), times(q.OutputTokensPerSecond),
			})
		}
	}
	return t
}

// maxListed is how many replicas are listed one by one.
const maxListed = 64

func replicas(runs []bench.Run) Table {
	t := Table{Title: "Replicas", Columns: []string{"replica", "run", "requests", "hit rate"}, Detail: true}
	for i := range runs {
		if len(runs[i].PerReplica) > maxListed {
			return Table{}
		}
		for _, p := range runs[i].PerReplica {
			t.Rows = append(t.Rows, []string{p.Name, runs[i].Label(), count(p.Requests), percent(p.HitRate)})
		}
	}
	return t
}

// slowPlayer is the delay, in milliseconds, from which on a player's own slowness is told.
const slowPlayer = 10

func notes(runs []bench.Run) []string {
	var list []string
	for i := range runs {
		r := &runs[i]
		if r.Failed+r.Refused > 0 {
			list = append(list, fmt.Sprintf("%s: of %d requests %d failed and %d were refused (%s).", r.Label(), r.Requests, r.Failed, r.Refused, kinds(r.Errors)))
		}
		if w := r.Warmup; w != nil && w.Failed+w.Refused > 0 {
			list = append(list, fmt.Sprintf("%s: of %d requests of the warm-up %d failed and %d were refused.", r.Label(), w.Requests, w.Failed, w.Refused))
		}
		if r.SendDelay.P99 >= slowPlayer {
			list = append(list, fmt.Sprintf("%s: one request in 100 was sent %.0f ms or more after its time, and its latency includes that. Play with less load or on a less busy machine.",
				r.Label(), r.SendDelay.P99))
		}
	}
	return list
}

// kinds lists errors by kind, in order of their names.
func kinds(errors map[string]int) string {
	list := make([]string, 0, len(errors))
	for _, kind := range slices.Sorted(maps.Keys(errors)) {
		list = append(list, fmt.Sprintf("%s %d", kind, errors[kind]))
	}
	return strings.Join(list, ", ")
}

// spread lists how many requests each replica had, or of many the fewest and the most.
func spread(replicas []bench.Replica) string {
	const listed = 4
	if len(replicas) == 0 {
		return "-"
	}
	counts := make([]int, len(replicas))
	texts := make([]string, len(replicas))
	for i, r := range replicas {
		counts[i], texts[i] = r.Requests, strconv.Itoa(r.Requests)
	}
	if len(replicas) <= listed {
		return strings.Join(texts, " ")
	}
	return fmt.Sprintf("%d: %d to %d", len(replicas), slices.Min(counts), slices.Max(counts))
}

func count(n int) string { return strconv.Itoa(n) }

func decimal(x float64, digits int) string { return strconv.FormatFloat(x, 'f', digits, 64) }

// orNone writes 0 as nothing.
func orNone(x float64, digits int) string {
	if x == 0 {
		return "-"
	}
	return decimal(x, digits)
}

// ms writes milliseconds with the digits that matter; 0 was not measured.
func ms(x float64) string {
	if x > 0 && x < 10 {
		return decimal(x, 1)
	}
	return orNone(x, 0)
}

func percent(share *float64) string {
	if share == nil {
		return "-"
	}
	return decimal(100**share, 1) + " %"
}

func times(ratio *float64) string {
	if ratio == nil {
		return "-"
	}
	return decimal(*ratio, 2) + "x"
}
