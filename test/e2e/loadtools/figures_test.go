package loadtools

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"text/tabwriter"
)

// figures are what a player says of a run, and what the engines say.
type figures struct {
	run      string
	requests int // that the player counted
	failed   int
	cached   float64 // share of the prompts' tokens, 0 to 1, as the player has it from the answers; NaN = it does not say
	engines  float64 // the same, as the engines' counters have it
	ttft     float64 // P50, in milliseconds
	warmpath float64 // the same, as Warmpath has logged it
}

var firstToken = regexp.MustCompile(` first_token_ms=([0-9.]+)`)

// loggedTTFT is the median of what Warmpath's lines say of requests, in milliseconds; NaN if they say nothing.
func loggedTTFT(log []byte) float64 {
	var all []float64
	for _, found := range firstToken.FindAllSubmatch(log, -1) {
		if value, err := strconv.ParseFloat(string(found[1]), 64); err == nil {
			all = append(all, value)
		}
	}
	slices.Sort(all)
	if len(all) == 0 {
		return math.NaN()
	}
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// table sets the runs side by side.
func table(runs []figures) string {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "PLAYER\tREQUESTS\tFAILED\tCACHED TOKENS\tBY THE ENGINES\tTTFT P50\tBY WARMPATH")
	for _, f := range runs {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%.1f ms\t%.1f ms\n", f.run, f.requests, f.failed,
			percent(f.cached), percent(f.engines), f.ttft, f.warmpath)
	}
	w.Flush()
	return text.String()
}

func percent(share float64) string {
	if math.IsNaN(share) {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}
