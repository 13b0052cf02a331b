package tune

import (
	"fmt"
	"strings"

	"github.com/warmpath/warmpath/internal/routing"
)

// What routing by prefix must gain over the best strategy that knows nothing of caches. Less is little: settings cost attention, and
// the traffic changes by more. A lower score without more hits is chance.
const (
	worthScore   = 0.05 // share of the score
	worthHitRate = 0.02
)

// littleReuse is a hit rate of the infinite cache below which prompts have next to nothing in common.
const littleReuse = 0.10

// judge writes recommendation and verdict. Where KV_AWARE comes to as little as the best cell of PREFIX_AWARE, it is preferred: it has
// no settings that could be wrong tomorrow.
func (r *Result) judge(cell Cell) {
	plain := r.Baselines[0]
	for _, b := range r.Baselines[1:] {
		if b.score() < plain.score() {
			plain = b
		}
	}
	best, free := Baseline{routing.NamePrefixAware, cell.Figures}, Baseline{routing.NameKVAware, r.Ceiling.Figures}
	if free.score() <= best.score()*(1+tie) {
		best = free
	}
	gain, hits := 1-best.score()/plain.score(), best.HitRate-plain.HitRate
	use := plain.Strategy
	if free.score() <= plain.score() {
		use = free.Strategy
	}
	switch {
	case r.Infinite.HitRate < littleReuse:
		r.Verdict = fmt.Sprintf("Little to gain: prompts share next to nothing. Even an infinite cache shared by all replicas would find only %.1f %% of the prompt tokens. Use %s.",
			100*r.Infinite.HitRate, use)
	case gain < worthScore || hits < worthHitRate:
		r.Verdict = fmt.Sprintf("Little to gain: %s. %s finds %.1f %% of the prompt tokens in its caches already, of %.1f %% that an infinite shared cache would. Use %s.",
			little(best.Strategy, gain, hits), plain.Strategy, 100*plain.HitRate, 100*r.Infinite.HitRate, use)
	default:
		use = best.Strategy
		r.Verdict = r.praise(&best, &plain, &cell)
	}
	r.Recommendation = Recommendation{Cell: cell, Strategy: use, YAML: routingYAML(use, &cell)}
}

// praise says what the best strategy gains, and what the other way to route by prefix would.
func (r *Result) praise(best, plain *Baseline, cell *Cell) string {
	settings := fmt.Sprintf("PREFIX_AWARE with prefix_length %d and concurrency_threshold %d", cell.PrefixLength, cell.ConcurrencyThreshold)
	name, other := settings, fmt.Sprintf("KV_AWARE, which has no settings, would come to %.0f and %.0f ms", r.Ceiling.TTFT.P50, r.Ceiling.TTFT.P90)
	if best.Strategy == routing.NameKVAware {
		name, other = "KV_AWARE, which has no settings,", fmt.Sprintf("%s would come to %.0f and %.0f ms", settings, cell.TTFT.P50, cell.TTFT.P90)
	}
	return fmt.Sprintf("%s lowers P50 + P90 TTFT by %.0f %% against %s: P50 from %.0f to %.0f ms, P90 from %.0f to %.0f ms. %s. "+
		"Its hit rate is %.1f %% instead of %.1f %%; an infinite shared cache would have %.1f %%.",
		name, 100*(1-best.score()/plain.score()), plain.Strategy, plain.TTFT.P50, best.TTFT.P50, plain.TTFT.P90, best.TTFT.P90, other,
		100*best.HitRate, 100*plain.HitRate, 100*r.Infinite.HitRate)
}

// little words a gain of the best strategy that is not worth it.
func little(strategy string, gain, hits float64) string {
	if strategy == routing.NamePrefixAware {
		strategy += " at its best"
	}
	switch {
	case gain <= 0:
		return strategy + " has no lower P50 + P90 TTFT"
	case hits < worthHitRate:
		return strategy + " finds no more in the caches"
	}
	return fmt.Sprintf("%s lowers P50 + P90 TTFT by only %.1f %%", strategy, 100*gain)
}

// routingYAML is the `routing` of a variant. Beside KV_AWARE it has the best settings of PREFIX_AWARE as a comment, for those who need
// routers that agree without talking.
func routingYAML(strategy string, c *Cell) string {
	settings := fmt.Sprintf("  strategy: PREFIX_AWARE\n  prefix_length: %d\n  concurrency_threshold: %d\n", c.PrefixLength, c.ConcurrencyThreshold)
	switch strategy {
	case routing.NamePrefixAware:
		return "routing:\n" + settings
	case routing.NameKVAware:
		return "routing:\n  strategy: KV_AWARE\n  # or, with settings:\n" + strings.ReplaceAll(settings, "  ", "  # ")
	}
	return "routing:\n  strategy: " + strategy + "\n"
}
