package tune

import (
	"fmt"
	"strconv"

	"github.com/warmpath/warmpath/internal/report"
)

// Report presents the result: both lines through the recommendation, what they are measured against, the verdict and the YAML.
func (r *Result) Report(title string) *report.Report {
	best := r.Recommendation
	byLength, byThreshold := r.lines()
	return &report.Report{
		Title: title,
		Tables: []report.Table{
			table(fmt.Sprintf("Prefix lengths, at a concurrency threshold of %d", best.ConcurrencyThreshold), "prefix length", byLength),
			table(fmt.Sprintf("Concurrency thresholds, at a prefix length of %d", best.PrefixLength), "threshold", byThreshold),
			r.beside(),
			r.whole(),
		},
		Notes: r.notes(),
		Charts: []report.Chart{
			r.latencies("prefix length (characters)", byLength, PrefixTooShort, PrefixTooLong),
			r.shares("prefix length (characters)", byLength, PrefixTooShort, PrefixTooLong),
			r.latencies("concurrency threshold (requests in flight)", byThreshold, ThresholdTooLow, ThresholdTooHigh),
			r.shares("concurrency threshold (requests in flight)", byThreshold, ThresholdTooLow, ThresholdTooHigh),
		},
	}
}

// point is a setting on one of the lines.
type point struct {
	at          int
	recommended bool
	Figures
}

// lines are the cells that share a setting with the recommendation. Of the thresholds that no replica has reached, the lowest
// stands for all.
func (r *Result) lines() (byLength, byThreshold []point) {
	best := r.Recommendation.Cell
	for _, c := range r.Grid {
		if c.ConcurrencyThreshold == best.ConcurrencyThreshold {
			byLength = append(byLength, point{c.PrefixLength, c == best, c.Figures})
		}
		if c.PrefixLength == best.PrefixLength && !unreached(byThreshold) {
			byThreshold = append(byThreshold, point{c.ConcurrencyThreshold, c == best, c.Figures})
		}
	}
	return byLength, byThreshold
}

// unreached reports whether a line has come to a threshold that no replica has reached.
func unreached(line []point) bool { return len(line) > 0 && line[len(line)-1].OverflowShare == 0 }

const note = "TTFT: milliseconds from arrival to the first token. Hit rate: cached prompt tokens over prompt tokens. Overflow: requests that went elsewhere because the replica of their prefix " +
	"was at the threshold. Imbalance: requests of the busiest replica over the mean."

// figureColumns are the columns of every table, after those that name a row.
var figureColumns = []string{"hit rate", "overflow", "imbalance", "TTFT ms P50", "P90", "P99"}

func (f *Figures) columns() []string {
	return []string{
		percent(f.HitRate), percent(f.OverflowShare), strconv.FormatFloat(f.Imbalance, 'f', 2, 64),
		milliseconds(f.TTFT.P50), milliseconds(f.TTFT.P90), milliseconds(f.TTFT.P99),
	}
}

func table(title, first string, line []point) report.Table {
	t := report.Table{Title: title, Note: note, Columns: append(append([]string{first}, figureColumns...), "")}
	for _, p := range line {
		mark := ""
		if p.recommended {
			mark = "best"
		}
		t.Rows = append(t.Rows, append(append([]string{strconv.Itoa(p.at)}, p.columns()...), mark))
	}
	return t
}

func (r *Result) beside() report.Table {
	t := report.Table{Title: "Beside them", Note: "KV_AWARE needs no settings. The last one is a bound: no fleet has such a cache.", Columns: append([]string{"strategy"}, figureColumns...)}
	for i := range r.Baselines {
		t.Rows = append(t.Rows, append([]string{r.Baselines[i].Strategy}, r.Baselines[i].columns()...))
	}
	t.Rows = append(t.Rows, append([]string{"ceiling: " + r.Ceiling.Name}, r.Ceiling.columns()...))
	t.Rows = append(t.Rows, append([]string{"bound: " + r.Infinite.Name}, r.Infinite.columns()...))
	return t
}

// whole lists every cell, for those who want to see the valley.
func (r *Result) whole() report.Table {
	t := report.Table{Title: "All that was simulated", Columns: append([]string{"prefix length", "threshold"}, figureColumns...), Detail: true}
	for i := range r.Grid {
		c := &r.Grid[i]
		t.Rows = append(t.Rows, append([]string{strconv.Itoa(c.PrefixLength), strconv.Itoa(c.ConcurrencyThreshold)}, c.columns()...))
	}
	return t
}

// notes are what a reader takes away.
func (r *Result) notes() []string {
	var list []string
	for _, c := range r.Cliffs {
		list = append(list, c.sentence())
	}
	if len(r.Cliffs) == 0 {
		list = append(list, "No cliff: no setting on these lines costs much.")
	}
	return append(list, r.Verdict, "", r.Recommendation.YAML)
}

// sentence says where a cliff is and what lies below.
func (c *Cliff) sentence() string {
	what := map[string]string{
		PrefixTooShort:   "Cliff: a prefix length of %d or less is too short. Prompts that differ later gather on few replicas: imbalance %.2f, overflow %s, hit rate %s, P50 %s and P90 %s ms.",
		PrefixTooLong:    "Cliff: a prefix length of %d or more is too long. It reaches into what each prompt has for itself: imbalance %.2f, overflow %s, hit rate %s, P50 %s and P90 %s ms.",
		ThresholdTooLow:  "Cliff: a threshold of %d or less is too low. Prompts leave the replica that has their prefix: imbalance %.2f, overflow %s, hit rate %s, P50 %s and P90 %s ms.",
		ThresholdTooHigh: "Cliff: a threshold of %d or more is too high. Prompts queue where their prefix is: imbalance %.2f, overflow %s, hit rate %s, P50 %s and P90 %s ms.",
	}[c.Kind]
	return fmt.Sprintf(what, c.At, c.Imbalance, percent(c.OverflowShare), percent(c.HitRate), milliseconds(c.TTFT.P50), milliseconds(c.TTFT.P90))
}

// latencies draws TTFT along a line.
func (r *Result) latencies(axis string, line []point, kinds ...string) report.Chart {
	p50, p90 := report.Line{Name: "P50", Series: 0}, report.Line{Name: "P90", Series: 1}
	for _, p := range line {
		p50.Points = append(p50.Points, report.Point{X: float64(p.at), Y: p.TTFT.P50})
		p90.Points = append(p90.Points, report.Point{X: float64(p.at), Y: p.TTFT.P90})
	}
	lines := []report.Line{p50, p90, level("P50 of "+r.Ceiling.Name, 2, line, r.Ceiling.TTFT.P50), level("P90 of "+r.Ceiling.Name, 3, line, r.Ceiling.TTFT.P90)}
	return report.Chart{
		Title: "Time to first token by " + nameOf(axis), Note: "Lower is better. A cliff is where a step further costs much.",
		X: report.Axis{Label: axis, Log: true, Ticks: ticks(line)}, Y: report.Axis{Label: "TTFT (ms)", Log: true},
		Lines: lines, Marks: r.marks(kinds),
	}
}

// level is a line that does not depend on the settings.
func level(name string, series int, along []point, y float64) report.Line {
	l := report.Line{Name: name, Series: series, Thin: true}
	for _, p := range along {
		l.Points = append(l.Points, report.Point{X: float64(p.at), Y: y})
	}
	return l
}

// shares draws hit rate and overflow along a line.
func (r *Result) shares(axis string, line []point, kinds ...string) report.Chart {
	hits, overflow := report.Line{Name: "hit rate", Series: 0}, report.Line{Name: "overflow", Series: 1}
	for _, p := range line {
		hits.Points = append(hits.Points, report.Point{X: float64(p.at), Y: 100 * p.HitRate})
		overflow.Points = append(overflow.Points, report.Point{X: float64(p.at), Y: 100 * p.OverflowShare})
	}
	return report.Chart{
		Title: "Hit rate and overflow by " + nameOf(axis),
		X:     report.Axis{Label: axis, Log: true, Ticks: ticks(line)}, Y: report.Axis{Label: "share (%)", Max: 100},
		Lines: []report.Line{hits, overflow}, Marks: r.marks(kinds),
	}
}

// marks are the cliffs of some kinds.
func (r *Result) marks(kinds []string) []report.Mark {
	labels := map[string]string{PrefixTooShort: "too short", PrefixTooLong: "too long", ThresholdTooLow: "too low", ThresholdTooHigh: "too high"}
	var list []report.Mark
	for _, kind := range kinds {
		for _, c := range r.Cliffs {
			if c.Kind == kind {
				list = append(list, report.Mark{Label: labels[kind], X: float64(c.At)})
			}
		}
	}
	return list
}

// nameOf is an axis without its unit.
func nameOf(axis string) string {
	for i, c := range axis {
		if c == '(' {
			return axis[:i-1]
		}
	}
	return axis
}

func ticks(line []point) []float64 {
	var list []float64
	for _, p := range line {
		list = append(list, float64(p.at))
	}
	return list
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + " %" }

func milliseconds(ms float64) string { return strconv.FormatFloat(ms, 'f', 0, 64) }
