package bench

import "time"

// Outcome is what became of one request. All times are in the engines' own time.
type Outcome struct {
	At        time.Duration   // intended start, from the beginning of the run
	SendDelay time.Duration   // from At until the player sent it: more than a little means that the player was too slow
	TTFT      time.Duration   // from At to the first generated content
	E2E       time.Duration   // from At to the end of the answer
	Gaps      []time.Duration // between one piece of content and the next
	NoContent bool            // there was no content, hence no TTFT

	Failure string // kind of failure; empty = answered whole
	Refused bool   // the failure is an answer: the target was overloaded or had nobody to ask (429, 503)

	Replica  string // that answered; empty = not known
	Decision string // why it was chosen, as X-Warmpath-Decision says it; empty = not known

	PromptTokens, OutputTokens int  // as the engine reports them; 0 = not reported
	CachedTokens               int  // of PromptTokens
	CacheReported              bool // the engine says how much was cached
}

// Sample is one request in the log of a run.
type Sample struct {
	At     time.Duration // intended start, from the beginning of the run
	TTFT   time.Duration // 0 if Failed, or if there was no content
	Failed bool          // or refused
}

// maxSamples bounds the log of a run: enough for a curve over time, and small for a run of any length.
const maxSamples = 1 << 13

// reservoir keeps a uniform sample of all requests, by Vitter's algorithm R.
type reservoir struct {
	seen int
	kept []Sample
	next func(n int) int // a random number below n
}

func (r *reservoir) add(s Sample) {
	r.seen++
	if len(r.kept) < maxSamples {
		r.kept = append(r.kept, s)
	} else if i := r.next(r.seen); i < maxSamples {
		r.kept[i] = s
	}
}
