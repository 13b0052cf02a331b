package bench

// Report is the result of a command that plays or simulates workloads: one JSON shape for all of them. Fields may be added and
// are never renamed.
type Report struct {
	Runs []Run `json:"runs"`
}

// Run is what one play of a workload came to. Times are in the workload's own time.
type Run struct {
	Strategy string `json:"strategy"` // of the target, as far as the caller knows
	Target   string `json:"target"`   // base URL
	Knobs    Knobs  `json:"options"`  // of the strategy

	Requests      int            `json:"requests"`         // sent
	Failed        int            `json:"failed"`           // of them, not answered whole; without the refused
	Refused       int            `json:"refused"`          // of them, answered with 429 or 503
	Errors        map[string]int `json:"errors,omitempty"` // failed and refused by kind
	HitRate       *float64       `json:"hit_rate"`         // cached prompt tokens over prompt tokens, 0 to 1; nil = not reported
	OverflowShare float64        `json:"overflow_share"`   // answers that came by overflow over all that name their decision, 0 to 1

	TTFT Quantiles `json:"ttft_ms"` // from the intended start to the first generated content
	E2E  Quantiles `json:"e2e_ms"`  // from the intended start to the end of the answer
	ITL  Quantiles `json:"itl_ms"`  // between one piece of content and the next

	RequestsPerSecond     float64 `json:"requests_per_second"`      // answered whole, over the time to the end of the last
	OutputTokensPerSecond float64 `json:"output_tokens_per_second"` // as the engines report them
	TimeScale             float64 `json:"time_scale"`               // how many times faster than that it was played

	PerReplica []Replica `json:"per_replica"` // by name; empty if the target does not name its replicas
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
