package bench

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// overflow is the decision that sends a request elsewhere than its prefix points.
const overflow = "overflow"

// Tally sums outcomes up into a Run. Its methods may be called from many goroutines. The same outcomes in the same order make the
// same Run.
type Tally struct {
	objective time.Duration // TTFT that counts as good; 0 = none

	mu             sync.Mutex
	requests       int
	failed         int
	refused        int
	errors         map[string]int
	good           int // answered whole within the objective
	first, last    time.Duration
	delay          histogram
	ttft, e2e, itl histogram
	decided        int // answers that name their decision
	overflowed     int // of them, by overflow
	prompt, output int // tokens, as reported
	all            share
	replicas       map[string]*share
	samples        reservoir
}

// share is a set of requests and how much of their prompts was cached.
type share struct {
	requests, prompt, cached int
}

// NewTally makes an empty Tally. A request is good if it was answered whole and its TTFT was at most the objective; 0 = nobody asks.
func NewTally(objective time.Duration) *Tally {
	return &Tally{
		objective: objective, errors: map[string]int{}, replicas: map[string]*share{},
		delay: newHistogram(), ttft: newHistogram(), e2e: newHistogram(), itl: newHistogram(),
		samples: reservoir{next: rand.New(rand.NewPCG(1, 1)).IntN},
	}
}

// Add counts one request. The Outcome is the caller's again when Add returns.
func (t *Tally) Add(o *Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.requests == 0 {
		t.first = o.At
	}
	t.first, t.last = min(t.first, o.At), max(t.last, o.At+o.E2E)
	t.requests++
	t.prompt += o.PromptTokens
	t.delay.record(o.SendDelay)
	t.all.add(o)
	if o.Replica != "" {
		if t.replicas[o.Replica] == nil {
			t.replicas[o.Replica] = &share{}
		}
		t.replicas[o.Replica].add(o)
	}
	if o.Decision != "" {
		t.decided++
	}
	if o.Decision == overflow {
		t.overflowed++
	}
	t.samples.add(Sample{At: o.At, TTFT: o.TTFT, Failed: o.Failure != ""})
	if o.Failure != "" {
		t.fail(o)
		return
	}
	t.time(o)
}

func (t *Tally) fail(o *Outcome) {
	t.errors[o.Failure]++
	if o.Refused {
		t.refused++
	} else {
		t.failed++
	}
}

// time takes the latencies of an answer that came whole: those of others would make a failing target look fast.
func (t *Tally) time(o *Outcome) {
	t.e2e.record(o.E2E)
	if !o.NoContent {
		t.ttft.record(o.TTFT)
		if o.TTFT <= t.objective {
			t.good++
		}
	}
	for _, gap := range o.Gaps {
		t.itl.record(gap)
	}
	t.output += o.OutputTokens
}

// add counts a request, and its prompt if the engine says how much of it was cached.
func (s *share) add(o *Outcome) {
	s.requests++
	if o.CacheReported {
		s.prompt += o.PromptTokens
		s.cached += o.CachedTokens
	}
}

func (s *share) hitRate() *float64 {
	if s.prompt == 0 {
		return nil
	}
	rate := round(float64(s.cached)/float64(s.prompt), 4)
	return &rate
}

// Run is the result so far, in engines' time; the caller adds what was played and where.
func (t *Tally) Run() *Run {
	t.mu.Lock()
	defer t.mu.Unlock()
	seconds := (t.last - t.first).Seconds()
	r := &Run{
		TimeScale: 1,
		Requests:  t.requests, Failed: t.failed, Refused: t.refused, Errors: maps.Clone(t.errors), HitRate: t.all.hitRate(),
		TTFT: t.ttft.quantiles(), E2E: t.e2e.quantiles(), ITL: t.itl.quantiles(), SendDelay: t.delay.quantiles(),
		RequestsPerSecond:     perSecond(t.requests-t.failed-t.refused, seconds),
		OutputTokensPerSecond: perSecond(t.output, seconds),
		PromptTokens:          t.prompt, CachedTokens: t.all.cached, OutputTokens: t.output, Seconds: round(seconds, 3),
		Goodput:    t.goodput(seconds),
		PerReplica: []Replica{},
		TTFTCurve:  t.ttft.curve(),
		Samples:    slices.SortedStableFunc(slices.Values(t.samples.kept), func(a, b Sample) int { return cmp.Compare(a.At, b.At) }),
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

func (t *Tally) goodput(seconds float64) *Goodput {
	if t.objective == 0 || t.requests == 0 {
		return nil
	}
	return &Goodput{
		Objective:         float64(t.objective.Microseconds()) / 1000,
		Share:             round(float64(t.good)/float64(t.requests), 4),
		RequestsPerSecond: perSecond(t.good, seconds),
	}
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

// histogram holds times of 1 microsecond to 4 hours to three digits; longer ones count as 4 hours.
type histogram struct{ *hdrhistogram.Histogram }

const longest = 4 * time.Hour

func newHistogram() histogram {
	return histogram{hdrhistogram.New(1, longest.Microseconds(), 3)}
}

func (h histogram) record(d time.Duration) {
	_ = h.RecordValue(min(max(d, 0), longest).Microseconds()) // it is in range
}

func (h histogram) at(percent float64) float64 {
	return round(float64(h.ValueAtPercentile(percent))/1000, 2)
}

func (h histogram) quantiles() Quantiles {
	return Quantiles{P50: h.at(50), P90: h.at(90), P99: h.at(99)}
}

// curve is the distribution in steps of half a percent; nil if nothing was measured.
func (h histogram) curve() []CurvePoint {
	if h.TotalCount() == 0 {
		return nil
	}
	points := []CurvePoint{{Milliseconds: round(float64(h.Min())/1000, 2)}}
	for percent := 0.5; percent <= 100; percent += 0.5 {
		points = append(points, CurvePoint{Milliseconds: h.at(percent), Share: percent / 100})
	}
	return points
}
