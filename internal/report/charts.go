package report

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/warmpath/warmpath/internal/bench"
)

func distribution(runs []bench.Run) Chart {
	c := Chart{
		Title: "Time to first token",
		Note:  "How many of the requests that were answered whole had their first content within that time. Further left is better.",
		X:     Axis{Label: "TTFT (ms)", Log: true}, Y: Axis{Label: "requests (%)", Max: 100, Ticks: []float64{0, 25, 50, 75, 90, 100}},
	}
	for i := range runs {
		line := Line{Name: runs[i].Label(), Series: i}
		for _, p := range runs[i].TTFTCurve {
			line.Points = append(line.Points, Point{max(p.Milliseconds, 0.01), 100 * p.Share})
		}
		if len(line.Points) > 0 {
			c.Lines = append(c.Lines, line)
		}
	}
	return c
}

// The windows of plots over time: as many as can be told apart, if each holds enough requests for its P90.
const (
	maxWindows       = 60
	perWindow        = 20
	fewest           = 5 // fewer have no ninth decile
	runsWithBothEnds = 3 // so many runs get a line for P50 and one for P90; more would be a thicket
)

var overTimeAxis = Axis{Label: "intended start (s from the beginning of the run)", FromZero: true}

func overTime(runs []bench.Run) Chart {
	c := Chart{
		Title: "Time to first token over time",
		Note:  "Of the requests that were to start in each stretch of time: strong lines are the median, thin ones the ninth decile.",
		X:     overTimeAxis, Y: Axis{Label: "TTFT (ms)", Log: true},
	}
	both := len(runs) <= runsWithBothEnds
	if !both {
		c.Note = "The median of the requests that were to start in each stretch of time."
	}
	for i := range runs {
		p50 := Line{Name: runs[i].Label(), Series: i}
		if both {
			p50.Name += ", P50"
		}
		p90 := Line{Name: runs[i].Label() + ", P90", Series: i, Thin: true}
		for _, w := range windows(runs[i].Samples) {
			if len(w.ttft) >= fewest {
				p50.Points = append(p50.Points, Point{w.middle, quantile(w.ttft, 50)})
				p90.Points = append(p90.Points, Point{w.middle, quantile(w.ttft, 90)})
			}
		}
		if len(p50.Points) < 2 {
			continue
		}
		c.Lines = append(c.Lines, p50)
		if both {
			c.Lines = append(c.Lines, p90)
		}
	}
	return c
}

func failures(runs []bench.Run) Chart {
	c := Chart{
		Title: "Failed and refused requests over time",
		X:     overTimeAxis, Y: Axis{Label: "requests (%)"},
	}
	for i := range runs {
		if runs[i].Failed+runs[i].Refused == 0 {
			continue
		}
		line := Line{Name: runs[i].Label(), Series: i}
		for _, w := range windows(runs[i].Samples) {
			line.Points = append(line.Points, Point{w.middle, 100 * float64(w.failed) / float64(w.requests)})
		}
		if len(line.Points) > 1 {
			c.Lines = append(c.Lines, line)
		}
	}
	return c
}

// window is the requests of one stretch of time.
type window struct {
	middle           float64   // seconds
	ttft             []float64 // milliseconds, in order
	requests, failed int
}

// windows cuts samples, which are in order of time, into stretches of equal length. Empty ones are left out.
func windows(samples []bench.Sample) []window {
	n := min(maxWindows, len(samples)/perWindow)
	if n == 0 {
		return nil
	}
	begin := samples[0].At.Seconds()
	length := (samples[len(samples)-1].At.Seconds() - begin) / float64(n)
	all := make([]window, n)
	for i := range all {
		all[i].middle = begin + (float64(i)+0.5)*length
	}
	for _, s := range samples {
		i := 0
		if length > 0 {
			i = min(n-1, int((s.At.Seconds()-begin)/length))
		}
		w := &all[i]
		w.requests++
		if s.Failed {
			w.failed++
		} else if s.TTFT > 0 {
			w.ttft = append(w.ttft, s.TTFT.Seconds()*1000)
		}
	}
	for i := range all {
		slices.Sort(all[i].ttft)
	}
	return slices.DeleteFunc(all, func(w window) bool { return w.requests == 0 })
}

// quantile is the value that percent of the sorted ones do not exceed.
func quantile(sorted []float64, percent int) float64 {
	return sorted[(len(sorted)*percent+99)/100-1]
}

// The most replicas and runs that are drawn as bars; more are drawn as lines.
const (
	maxBars      = 24
	runsWithBars = 4
)

func perReplica(runs []bench.Run) Chart {
	c := Chart{
		Title: "Requests per replica",
		Note:  "From the busiest replica to the least busy one.",
		X:     Axis{Label: "replica, by rank"}, Y: Axis{Label: "requests"},
	}
	most := 0
	for i := range runs {
		most = max(most, len(runs[i].PerReplica))
	}
	asBars := most <= maxBars && len(runs) <= runsWithBars
	if asBars {
		for rank := range most {
			c.Groups = append(c.Groups, strconv.Itoa(rank+1))
		}
	}
	for i := range runs {
		counts := ranked(runs[i].PerReplica)
		switch {
		case len(counts) == 0:
		case asBars:
			c.Bars = append(c.Bars, Bars{Name: runs[i].Label(), Series: i, Values: counts})
		default:
			line := Line{Name: runs[i].Label(), Series: i}
			for rank, n := range counts {
				line.Points = append(line.Points, Point{float64(rank + 1), n})
			}
			c.Lines = append(c.Lines, line)
		}
	}
	return c
}

// ranked is the requests of each replica, the most first.
func ranked(replicas []bench.Replica) []float64 {
	counts := make([]float64, len(replicas))
	for i, r := range replicas {
		counts[i] = float64(r.Requests)
	}
	slices.SortFunc(counts, func(a, b float64) int { return cmp.Compare(b, a) })
	return counts
}
