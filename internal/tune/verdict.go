package tune

import (
	"fmt"

	"github.com/warmpath/warmpath/internal/routing"
)

// What the best settings must gain over the best strategy without any. Less is little: settings cost attention, and the traffic
// changes by more. A lower score without more hits is chance.
const (
	worthScore   = 0.05 // share of the score
	worthHitRate = 0.02
)

// littleReuse is a hit rate of the ceiling below which prompts have next to nothing in common.
const littleReuse = 0.10

// judge writes recommendation and verdict.
func (r *Result) judge(cell Cell) {
	r.Recommendation = Recommendation{Cell: cell, Strategy: routing.NamePrefixAware}
	plain := r.Baselines[0]
	for _, b := range r.Baselines[1:] {
		if b.score() < plain.score() {
			plain = b
		}
	}
	gain, hits := 1-cell.score()/plain.score(), cell.HitRate-plain.HitRate
	switch {
	case r.Ceiling.HitRate < littleReuse:
		r.Recommendation.Strategy = plain.Strategy
		r.Verdict = fmt.Sprintf("Little to gain: prompts share next to nothing. Even an infinite cache shared by all replicas would find only %.1f %% of the prompt tokens. Use %s.",
			100*r.Ceiling.HitRate, plain.Strategy)
	case gain < worthScore || hits < worthHitRate:
		r.Recommendation.Strategy = plain.Strategy
		r.Verdict = fmt.Sprintf("Little to gain: %s. %s finds %.1f %% of the prompt tokens in its caches already, of %.1f %% that an infinite shared cache would. Use %s.",
			little(gain, hits), plain.Strategy, 100*plain.HitRate, 100*r.Ceiling.HitRate, plain.Strategy)
	default:
		r.Verdict = fmt.Sprintf("PREFIX_AWARE with prefix_length %d and concurrency_threshold %d lowers P50 + P90 TTFT by %.0f %% against %s: P50 from %.0f to %.0f ms, P90 from %.0f to %.0f ms. "+
			"Its hit rate is %.1f %% instead of %.1f %%; an infinite shared cache would have %.1f %%.",
			cell.PrefixLength, cell.ConcurrencyThreshold, 100*gain, plain.Strategy, plain.TTFT.P50, cell.TTFT.P50, plain.TTFT.P90, cell.TTFT.P90,
			100*cell.HitRate, 100*plain.HitRate, 100*r.Ceiling.HitRate)
	}
	r.Recommendation.YAML = routingYAML(r.Recommendation.Strategy, &cell)
}

// little words a gain that is not worth it.
func little(gain, hits float64) string {
	switch {
	case gain <= 0:
		return "no setting of PREFIX_AWARE has a lower P50 + P90 TTFT"
	case hits < worthHitRate:
		return "no good setting of PREFIX_AWARE finds more in the caches"
	}
	return fmt.Sprintf("the best setting of PREFIX_AWARE lowers P50 + P90 TTFT by only %.1f %%", 100*gain)
}

// routingYAML is the `routing` of a variant.
func routingYAML(strategy string, c *Cell) string {
	text := "routing:\n  strategy: " + strategy + "\n"
	if strategy == routing.NamePrefixAware {
		text += fmt.Sprintf("  prefix_length: %d\n  concurrency_threshold: %d\n", c.PrefixLength, c.ConcurrencyThreshold)
	}
	return text
}
