package realengine

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// figures are what a run is judged by.
type figures struct {
	run      string
	requests int // counted ones, failed or not
	failed   int // of all, warm-up too
	hitRate  float64
	p50, p90 time.Duration // TTFT
	replicas []int         // counted requests of each, by its number
	errors   []error
}

// measure sums up the answers of a run by so many replicas.
func measure(run string, answers []answer, replicas int) figures {
	f := figures{run: run, replicas: make([]int, replicas)}
	var prompt, cached int
	var ttfts []time.Duration
	for _, a := range answers {
		if a.err != nil {
			f.failed++
			f.errors = append(f.errors, a.err)
		}
		if !a.counted {
			continue
		}
		f.requests++
		if a.replica >= 0 {
			f.replicas[a.replica]++
		}
		if a.err == nil {
			prompt += a.prompt
			cached += a.cached
			ttfts = append(ttfts, a.ttft)
		}
	}
	f.hitRate = float64(cached) / float64(max(1, prompt))
	f.p50, f.p90 = percentile(ttfts, 0.5), percentile(ttfts, 0.9)
	return f
}

// percentile is the nearest rank: the smallest value that at least the share of all values do not exceed.
func percentile[T cmp.Ordered](values []T, share float64) T {
	if len(values) == 0 {
		var none T
		return none
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}

// table sets the runs side by side.
func table(runs []figures) string {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "RUN\tREQUESTS\tFAILED\tCACHED TOKENS\tTTFT P50\tTTFT P90\tREQUESTS PER REPLICA")
	for _, f := range runs {
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f %%\t%d ms\t%d ms\t%s\n", f.run, f.requests, f.failed, 100*f.hitRate,
			f.p50.Milliseconds(), f.p90.Milliseconds(), strings.Trim(fmt.Sprint(f.replicas), "[]"))
	}
	w.Flush()
	return text.String()
}
