package tune

import (
	"slices"
)

// The kinds of cliff.
const (
	PrefixTooShort   = "prefix_too_short"   // prompts that differ only later share a key, and gather on few replicas
	PrefixTooLong    = "prefix_too_long"    // the window reaches into what each prompt has for itself, and its replica is as good as random
	ThresholdTooLow  = "threshold_too_low"  // prompts leave the replica that has their prefix although it could have served them soon
	ThresholdTooHigh = "threshold_too_high" // prompts queue for the replica that has their prefix although another could have served them sooner
)

// Cliff is the first setting of the grid that costs much, seen from the recommendation, the other setting staying as recommended.
type Cliff struct {
	Kind string `json:"kind"`
	At   int    `json:"at"` // characters, or requests in flight
	Figures
}

// What costs much: a score that many times the recommendation's, or a hit rate that much lower.
const (
	cliffScore   = 1.25
	cliffHitRate = 0.10
)

// cliffs looks from a point in all four directions.
func (g grid) cliffs(from settings) []Cliff {
	here := g.cell(from)
	found := []Cliff{}
	look := func(kind string, order []settings, at func(settings) int) {
		for _, s := range order {
			if f, known := g.find(s); known && here.falls(&f) {
				found = append(found, Cliff{Kind: kind, At: at(s), Figures: f})
				return
			}
		}
	}
	shorter, longer := around(lengths, from.length, func(n int) settings { return settings{n, from.threshold} })
	lower, higher := around(thresholds, from.threshold, func(n int) settings { return settings{from.length, n} })
	look(PrefixTooShort, shorter, func(s settings) int { return s.length })
	look(PrefixTooLong, longer, func(s settings) int { return s.length })
	look(ThresholdTooLow, lower, func(s settings) int { return s.threshold })
	look(ThresholdTooHigh, higher, func(s settings) int { return s.threshold })
	return found
}

// around lists the points below and above a value, the nearest first.
func around(values []int, middle int, point func(int) settings) (below, above []settings) {
	for _, v := range values {
		switch {
		case v < middle:
			below = append(below, point(v))
		case v > middle:
			above = append(above, point(v))
		}
	}
	slices.Reverse(below)
	return below, above
}

// falls reports whether other figures cost much compared with these.
func (f *Figures) falls(other *Figures) bool {
	return other.score() >= cliffScore*f.score() || other.HitRate <= f.HitRate-cliffHitRate
}
