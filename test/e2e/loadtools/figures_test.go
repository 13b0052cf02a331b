package loadtools

import (
	"bytes"
	"fmt"
	"math"
	"text/tabwriter"
)

// figures are what a player says of a run, and what the engines say.
type figures struct {
	run      string
	requests int // that the player counted
	failed   int
	ttft     float64 // P50, in milliseconds
	cached   float64 // share of the prompts' tokens, 0 to 1, as the player has it from the answers; NaN = it does not say
	engines  float64 // the same, as the engines' counters have it
}

// table sets the runs side by side.
func table(runs []figures) string {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "PLAYER\tREQUESTS\tFAILED\tCACHED TOKENS\tBY THE ENGINES\tTTFT P50")
	for _, f := range runs {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%.1f ms\n", f.run, f.requests, f.failed, percent(f.cached), percent(f.engines), f.ttft)
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
