package bench

import "fmt"

// Report is the result of a command that plays or simulates workloads: one JSON shape for all of them. Fields may be added and
// are never renamed.
type Report struct {
	Runs []Run `json:"runs"`
}

// Run is what one play of a workload came to. Times are in the engines' own time.
type Run struct {
	Name     string `json:"name,omitzero"` // that the caller gave it; empty = none
	Strategy string `json:"strategy"`      // of the target, as far as the caller knows
	Target   string `json:"target"`        // base URL
	Knobs    Knobs  `json:"options"`       // of the strategy

	Requests      int            `json:"requests"`         // sent
	Failed        int            `json:"failed"`           // of them, not answered whole; without the refused
	Refused       int            `json:"refused"`          // of them, answered with 429 or 503
	Errors        map[string]int `json:"errors,omitempty"` // failed and refused by kind
	HitRate       *float64       `json:"hit_rate"`         // cached prompt tokens over prompt tokens, 0 to 1; nil = not reported
	OverflowShare float64        `json:"overflow_share"`   // answers that came by overflow over all that name their decision, 0 to 1

	TTFT Quantiles `json:"ttft_ms"` // from the intended start to the first generated content
	E2E  Quantiles `json:"e2e_ms"`  // from the intended start to the end of the answer
	ITL  Quantiles `json:"itl_ms"`  // between one piece of content and the next

	RequestsPerSecond     float64 `json:"requests_per_second"`      // answered whole, over Seconds
	OutputTokensPerSecond float64 `json:"output_tokens_per_second"` // as the engines report them
	TimeScale             float64 `json:"time_scale"`               // how many times faster than that it was played

	PerReplica []Replica `json:"per_replica"` // by name; empty if the target does not name its replicas

	Seconds      float64       `json:"seconds"`                 // from the first intended start to the end of the last answer
	PromptTokens int           `json:"prompt_tokens"`           // as the engines report them
	CachedTokens int           `json:"cached_tokens"`           // of them, cached
	OutputTokens int           `json:"output_tokens"`           // as the engines report them
	SendDelay    Quantiles     `json:"send_delay_ms"`           // from the intended start until the player sent the request: its own slowness
	Goodput      *Goodput      `json:"goodput,omitzero"`        // nil without an objective
	Warmup       *WarmupResult `json:"warmup,omitzero"`         // nil if every request counted
	Ratios       *Ratios       `json:"ratio_to_first,omitzero"` // nil if nobody asked

	TTFTCurve []CurvePoint `json:"-"` // distribution of TTFT, for a plot; empty if nothing was measured
	Samples   []Sample     `json:"-"` // requests chosen at random, a few thousand at most, in order of time, for a plot
}

// Goodput is how much of the load was served as wanted.
type Goodput struct {
	Objective         float64 `json:"ttft_objective_ms"`   // a TTFT up to this is good
	Share             float64 `json:"share"`               // of all requests, failed and refused ones included, 0 to 1
	RequestsPerSecond float64 `json:"requests_per_second"` // that were good
}

// WarmupResult is what became of the requests that were sent before anything counted.
type WarmupResult struct {
	Requests int `json:"requests"`
	Failed   int `json:"failed"`  // without the refused
	Refused  int `json:"refused"` // answered with 429 or 503
}

// CurvePoint is a point of a distribution: that share of the requests, 0 to 1, took at most that long.
type CurvePoint struct {
	Milliseconds, Share float64
}

// Ratios are a run's figures over those of the first run; nil where one of both was not measured or the first is 0.
type Ratios struct {
	HitRate               *float64 `json:"hit_rate"`
	TTFTP50               *float64 `json:"ttft_p50"`
	TTFTP90               *float64 `json:"ttft_p90"`
	TTFTP99               *float64 `json:"ttft_p99"`
	E2EP50                *float64 `json:"e2e_p50"`
	RequestsPerSecond     *float64 `json:"requests_per_second"`
	OutputTokensPerSecond *float64 `json:"output_tokens_per_second"`
}

// Compare gives every run its ratios to the first.
func (r *Report) Compare() {
	if len(r.Runs) == 0 {
		return
	}
	first := &r.Runs[0]
	for i := range r.Runs {
		run := &r.Runs[i]
		run.Ratios = &Ratios{
			TTFTP50:               timeRatio(run.TTFT.P50, first.TTFT.P50),
			TTFTP90:               timeRatio(run.TTFT.P90, first.TTFT.P90),
			TTFTP99:               timeRatio(run.TTFT.P99, first.TTFT.P99),
			E2EP50:                timeRatio(run.E2E.P50, first.E2E.P50),
			RequestsPerSecond:     ratio(run.RequestsPerSecond, first.RequestsPerSecond),
			OutputTokensPerSecond: ratio(run.OutputTokensPerSecond, first.OutputTokensPerSecond),
		}
		if run.HitRate != nil && first.HitRate != nil {
			run.Ratios.HitRate = ratio(*run.HitRate, *first.HitRate)
		}
	}
}

// timeRatio is for latencies, of which 0 was not measured.
func timeRatio(a, b float64) *float64 {
	if a == 0 {
		return nil
	}
	return ratio(a, b)
}

func ratio(a, b float64) *float64 {
	if b == 0 {
		return nil
	}
	r := round(a/b, 3)
	return &r
}

// Label names a run for people: by its name, else by its strategy and settings, else by its target.
func (r *Run) Label() string {
	switch {
	case r.Name != "":
		return r.Name
	case r.Strategy == "":
		return r.Target
	case r.Knobs == Knobs{}:
		return r.Strategy
	}
	return fmt.Sprintf("%s %d/%d", r.Strategy, r.Knobs.PrefixLength, r.Knobs.ConcurrencyThreshold)
}

// Knobs are the settings of a strategy, by the names they have everywhere. Zero is a setting that it does not have.
type Knobs struct {
	PrefixLength         int `json:"prefix_length,omitzero"`
	ConcurrencyThreshold int `json:"concurrency_threshold,omitzero"`
}

// Quantiles are in milliseconds. They are exact to three digits, and 0 if nothing was measured.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
}

// Replica is one replica's part of a run.
type Replica struct {
	Name     string   `json:"replica"`
	Requests int      `json:"requests"` // answered by it, errors included
	HitRate  *float64 `json:"hit_rate"` // nil = not reported
}

// Imbalance is the busiest replica's requests over the mean, 1 or more; 0 if the replicas are not known. Of a fleet, only
// replicas that got a request count.
func (r *Run) Imbalance() float64 {
	busiest, sum := 0, 0
	for _, replica := range r.PerReplica {
		busiest = max(busiest, replica.Requests)
		sum += replica.Requests
	}
	if sum == 0 {
		return 0
	}
	return float64(busiest*len(r.PerReplica)) / float64(sum)
}
