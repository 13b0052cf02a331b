package tune

import (
	"fmt"

	"github.com/warmpath/warmpath/internal/routing"
)

// worth is the share by which the best settings must lower the score of the best strategy without any. Less is little to gain: the
// settings cost more attention than that, and a change of the traffic as much.
const worth = 0.05

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
	gain := 1 - cell.score()/plain.score()
	switch {
	case gain >= worth:
		r.Verdict = fmt.Sprintf("PREFIX_AWARE with prefix_length %d and concurrency_threshold %d lowers P50 + P90 TTFT by %.0f %% against %s: P50 from %.0f to %.0f ms, P90 from %.0f to %.0f ms. "+
			"Its hit rate is %.1f %% instead of %.1f %%; an infinite shared cache would have %.1f %%.",
			cell.PrefixLength, cell.ConcurrencyThreshold, 100*gain, plain.Strategy, plain.TTFT.P50, cell.TTFT.P50, plain.TTFT.P90, cell.TTFT.P90,
			100*cell.HitRate, 100*plain.HitRate, 100*r.Ceiling.HitRate)
	case r.Ceiling.HitRate < littleReuse:
		r.Verdict = fmt.Sprintf("Little to gain: prompts share next to nothing. Even an infinite cache shared by all replicas would find only %.1f %% of the prompt tokens. Use %s.",
			100*r.Ceiling.HitRate, plain.Strategy)
	default:
		r.Verdict = fmt.Sprintf("Little to gain: %s. %s finds %.1f %% of the prompt tokens in its caches already, of %.1f %% that an infinite shared cache would. Use %s.",
			against(gain), plain.Strategy, 100*plain.HitRate, 100*r.Ceiling.HitRate, plain.Strategy)
	}
	if gain < worth {
		r.Recommendation.Strategy = plain.Strategy
	}
	r.Recommendation.YAML = routingYAML(r.Recommendation.Strategy, &cell)
}

// against words a gain that is not worth it.
func against(gain float64) string {
	if gain <= 0 {
		return "no setting of PREFIX_AWARE has a lower P50 + P90 TTFT"
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
