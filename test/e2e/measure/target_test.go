//go:build e2e

package measure

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/routing"
)

// hold says which targets were not reached.
func (r *results) hold(t *testing.T, targets ...target) {
	t.Helper()
	for _, reached := range targets {
		if wrong := reached(r); wrong != "" {
			t.Error(wrong)
		}
	}
}

// Names of rivals, as targets call them.
const (
	randomName      = routing.NameRandom
	outstandingName = routing.NameLeastOutstanding
	prefixName      = routing.NamePrefixAware
)

func p50(r *bench.Run) float64 { return r.TTFT.P50 }
func p90(r *bench.Run) float64 { return r.TTFT.P90 }
func p99(r *bench.Run) float64 { return r.TTFT.P99 }
func e2e(r *bench.Run) float64 { return r.E2E.P50 }

// atMost holds a figure to so many times the rival's, the best one of those with that name.
func atMost(times float64, what string, figure func(*bench.Run) float64, rival string) target {
	return func(r *results) string {
		best := math.Inf(1)
		for _, other := range r.rivals {
			if strings.HasPrefix(other.Label(), rival) {
				best = min(best, figure(other))
			}
		}
		if got := figure(r.aware); !(got <= times*best) {
			return fmt.Sprintf("%s = %.1f ms, want at most %.2f times the %.1f of %s", what, got, times, best, rival)
		}
		return ""
	}
}

// atLeast holds the throughput to so many requests a second.
func atLeast(rate float64) target {
	return func(r *results) string {
		if r.aware.RequestsPerSecond < rate {
			return fmt.Sprintf("%.1f requests a second, want at least %g", r.aware.RequestsPerSecond, rate)
		}
		return ""
	}
}

// hitNear holds the hit rate to that of the best rival, less a share of all tokens.
func hitNear(less float64) target {
	return func(r *results) string {
		best := 0.0
		for _, other := range r.rivals {
			best = max(best, *other.HitRate)
		}
		return hitAbove(r, best-less, "the best rival's")
	}
}

// boundNear holds the hit rate to that of a cache without limits, less a share of all tokens.
func boundNear(less float64) target {
	return func(r *results) string { return hitAbove(r, r.bound-less, "an infinite cache's") }
}

func hitAbove(r *results, least float64, whose string) string {
	if *r.aware.HitRate < least {
		return fmt.Sprintf("hit rate %.3f, want at least %.3f, near %s", *r.aware.HitRate, least, whose)
	}
	return ""
}

// everyReplica wants each replica to get at least a share of the requests.
func everyReplica(share float64) target {
	return func(r *results) string {
		for _, replica := range r.aware.PerReplica {
			if float64(replica.Requests) < share*float64(r.aware.Requests) {
				return fmt.Sprintf("%s got %d of %d requests, want at least %.0f %%", replica.Name, replica.Requests, r.aware.Requests, 100*share)
			}
		}
		return ""
	}
}
