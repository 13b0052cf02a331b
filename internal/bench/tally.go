package bench

import (
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// overflow is the decision that sends a request elsewhere than its prefix points.
const overflow = "overflow"

// tally sums outcomes up. Its methods may be called from many goroutines.
type tally struct {
	mu             sync.Mutex
	requests       int
	failed         int
	refused        int
	errors         map[string]int
	ttft, e2e, itl histogram
	output         int // tokens generated
	decided        int // answers that name their decision
	overflowed     int // of them, by overflow
	all            share
	replicas       map[string]*share
}

// share is a set of requests and how much of their prompts was cached.
type share struct {
	requests, prompt, cached int
}

func newTally() *tally {
	return &tally{
		errors: map[string]int{}, replicas: map[string]*share{},
		ttft: newHistogram(), e2e: newHistogram(), itl: newHistogram(),
	}
}

func (t *tally) add(o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests++
	t.all.add(&o)
	if o.replica != "" {
		if t.replicas[o.replica] == nil {
			t.replicas[o.replica] = &share{}
		}
		t.replicas[o.replica].add(&o)
	}
	if o.decision != "" {
		t.decided++
	}
	if o.decision == overflow {
		t.overflowed++
	}
	if o.failure != "" {
		t.fail(&o)
		return
	}
	t.time(&o)
}

func (t *tally) fail(o *outcome) {
	t.errors[o.failure]++
	if o.refused() {
		t.refused++
	} else {
		t.failed++
	}
}

// time takes the latencies of an answer that came whole: those of others would make a failing target look fast.
func (t *tally) time(o *outcome) {
	t.e2e.record(o.ended.Sub(o.intended))
	if !o.answer.first.IsZero() {
		t.ttft.record(o.answer.first.Sub(o.intended))
	}
	for _, gap := range o.answer.gaps {
		t.itl.record(gap)
	}
	if o.answer.usage != nil {
		t.output += o.answer.usage.Output
	}
}

// add counts a request, and its prompt if the engine says how much of it was cached.
func (s *share) add(o *outcome) {
	s.requests++
	if cached, reported := o.answer.usage.cached(); reported {
		s.prompt += o.answer.usage.Prompt
		s.cached += cached
	}
}

func (s *share) hitRate() *float64 {
	if s.prompt == 0 {
		return nil
	}
	rate := round(float64(s.cached)/float64(s.prompt), 4)
	return &rate
}

// run is the result of a play that took elapsed, in real time.
func (t *tally) run(o Options, elapsed time.Duration) *Run {
	t.mu.Lock()
	defer t.mu.Unlock()
	seconds := elapsed.Seconds() * o.TimeScale
	r := &Run{
		Target: o.Target, TimeScale: o.TimeScale,
		Requests: t.requests, Failed: t.failed, Refused: t.refused, Errors: t.errors, HitRate: t.all.hitRate(),
		TTFT: t.ttft.quantiles(o.TimeScale), E2E: t.e2e.quantiles(o.TimeScale), ITL: t.itl.quantiles(o.TimeScale),
		RequestsPerSecond:     perSecond(t.requests-t.failed-t.refused, seconds),
		OutputTokensPerSecond: perSecond(t.output, seconds),
		PerReplica:            []Replica{},
	}
	if t.decided > 0 {
		r.OverflowShare = round(float64(t.overflowed)/float64(t.decided), 4)
	}
	for _, name := range slices.Sorted(maps.Keys(t.replicas)) {
		s := t.replicas[name]
		r.PerReplica = append(r.PerReplica, Replica{Name: name, Requests: s.requests, HitRate: s.hitRate()})
	}
	return r
}

func perSecond(n int, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return round(float64(n)/seconds, 2)
}

// round leaves the digits that a measurement has.
func round(x float64, digits int) float64 {
	scale := math.Pow10(digits)
	return math.Round(x*scale) / scale
}

// histogram holds times of 1 microsecond to 1 hour to three digits; longer ones count as 1 hour.
type histogram struct{ *hdrhistogram.Histogram }

const longest = time.Hour

func newHistogram() histogram {
	return histogram{hdrhistogram.New(1, longest.Microseconds(), 3)}
}

func (h histogram) record(d time.Duration) {
	_ = h.RecordValue(min(max(d, 0), longest).Microseconds()) // it is in range
}

// quantiles multiplies the times by scale.
func (h histogram) quantiles(scale float64) Quantiles {
	at := func(percent float64) float64 {
		return round(float64(h.ValueAtPercentile(percent))/1000*scale, 2)
	}
	return Quantiles{P50: at(50), P90: at(90), P99: at(99)}
}
