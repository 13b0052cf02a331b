package routing

import (
	"math"
	"math/rand/v2"
	"testing"
)

// engineTime is a model engine: what an answer takes, in milliseconds.
type engineTime func(x features, r *rand.Rand) float64

// linear is an engine with exactly the terms that are learned, and noise of a share of the whole.
func linear(base, prefill, queue, request, noise float64) engineTime {
	return func(x features, r *rand.Rand) float64 {
		return (base + prefill*x.units + queue*x.queued + request*x.inFlight) * (1 + noise*(2*r.Float64()-1))
	}
}

// traffic draws a request that finds some of a replica's backlog.
type traffic func(r *rand.Rand) features

func busy(hitShare, load float64) traffic {
	return func(r *rand.Rand) features {
		whole := 2000 + 6000*r.Float64()
		waiting := math.Floor(load * r.Float64())
		x := features{units: whole, whole: whole, inFlight: waiting + math.Floor(load*r.Float64())}
		if r.Float64() < hitShare {
			x.units = 0.02 * whole
		}
		for range int(waiting) {
			x.queued += 2000 + 6000*r.Float64()
		}
		return x
	}
}

func learn(l *latency, n int, of engineTime, from traffic, r *rand.Rand) {
	for range n {
		x := from(r)
		l.observe(x, of(x, r))
	}
}

// near says that a figure is within a share of what it should be.
func near(t *testing.T, name string, got, want, share float64) {
	t.Helper()
	if math.Abs(got-want) > share*math.Abs(want) {
		t.Errorf("%s: got %.4g, want %.4g within %.0f %%", name, got, want, 100*share)
	}
}

func TestLatencyLearnsAnEngineThatBatches(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	l := newLatency()
	learn(&l, 2000, linear(25, 0.2, 0.15, 0.5, 0.1), busy(0.5, 4), r)
	near(t, "base", l.base(), 25, 0.3)
	near(t, "prefill", l.prefill(), 0.2, 0.1)
	near(t, "queue", l.queue(), 0.15, 0.15)
}

func TestLatencyLearnsAnEngineWithSlots(t *testing.T) {
	// Four slots of 300 ms: every request in flight beyond them costs 75 ms, and queued work itself nothing.
	r := rand.New(rand.NewPCG(2, 1))
	l := newLatency()
	learn(&l, 2000, linear(100, 0.1, 0, 75, 0.1), busy(0.5, 8), r)
	near(t, "prefill", l.prefill(), 0.1, 0.25)
	near(t, "request", l.request(), 75, 0.15)
	if l.queue() > 0.03 {
		t.Errorf("queue: got %.4g ms per unit, want near 0", l.queue())
	}
}

func TestLatencyKeepsPrefillUnderOverload(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	l := newLatency()
	learn(&l, 500, linear(20, 0.1, 0.1, 0, 0.1), busy(0.5, 2), r)
	overloaded := func(r *rand.Rand) features {
		x := busy(0.5, 4)(r)
		x.queued += 400_000
		return x
	}
	learn(&l, 3000, linear(20, 0.1, 0.1, 0, 0.2), overloaded, r)
	near(t, "prefill after a queue of 40 s", l.prefill(), 0.1, 0.35)
}

func TestLatencyKeepsPrefillWhileEverythingHits(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 1))
	l := newLatency()
	learn(&l, 500, linear(20, 0.16, 0.1, 0, 0.1), busy(0.3, 2), r)
	before := l.prefill()
	learn(&l, 3000, linear(20, 0.16, 0.1, 0, 0.1), busy(1, 2), r)
	near(t, "prefill after 3,000 hits", l.prefill(), before, 0.35)
}

func TestLatencyFollowsAChangeOfRegime(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	l := newLatency()
	learn(&l, 1000, linear(12, 0.08, 0.08, 0, 0.1), busy(0.5, 4), r)
	learn(&l, 4000, linear(48, 0.32, 0.32, 0, 0.1), busy(0.5, 4), r) // four times slower
	near(t, "prefill", l.prefill(), 0.32, 0.15)
	near(t, "queue", l.queue(), 0.32, 0.2)
}

// TestLatencyFindsTheOrderOfMagnitude by answers of idle replicas, of which one took far too long.
func TestLatencyFindsTheOrderOfMagnitude(t *testing.T) {
	missed := features{units: 1000, whole: 1000}
	for slowness, factor := range map[float64]float64{0.1: 0.1, 0.7: 1, 1: 1, 1.5: 1, 10: 10, 1000: 50} {
		l := newLatency()
		for _, outlier := range []float64{1, 1, 30, 1} {
			l.calibrate(missed, outlier*slowness*(priorBase+priorPrefill*missed.units))
		}
		near(t, "prefill", l.own.target[1], factor*priorPrefill, 0.01)
		near(t, "queue", l.wait.target[0], factor*priorQueue, 0.01)
		near(t, "request", l.wait.target[1], factor*priorRequest, 0.01)
	}
	l := newLatency()
	learn(&l, 200, linear(priorBase, priorPrefill, priorQueue, priorRequest, 0), busy(0.5, 4), newRand(6))
	for range 10 {
		l.calibrate(missed, 1e4)
	}
	near(t, "prefill, when much is known", l.own.target[1], priorPrefill, 0.1)
	l = newLatency()
	for range 10 {
		l.calibrate(features{units: 1000, whole: 1000, queued: 1000, inFlight: 1}, 1e4)
	}
	near(t, "prefill, of busy replicas", l.own.target[1], priorPrefill, 0.1)
}

func TestLatencyBeginsWithItsPriors(t *testing.T) {
	l := newLatency()
	if l.base() != 12 || l.prefill() != 0.08 || l.queue() != 0.08 || l.request() != 0.06 {
		t.Errorf("got %+v", l.coefficients())
	}
}

func TestLatencyStaysFiniteAndNeverNegative(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	l := newLatency()
	extremes := []float64{0, 1e-9, 1, 1e6, 1e12}
	for range 20_000 {
		draw := func() float64 { return extremes[r.IntN(len(extremes))] }
		l.observe(features{units: draw(), whole: draw(), queued: draw(), inFlight: draw()}, draw())
		for _, c := range []float64{l.base(), l.prefill(), l.queue(), l.request()} {
			if math.IsNaN(c) || math.IsInf(c, 0) || c < 0 {
				t.Fatalf("coefficients: %+v", l.coefficients())
			}
		}
	}
}

func TestDecodingLearnsTheLowerQuartile(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 1))
	d := newDecoding()
	for range 3000 {
		n, inFlight, context := float64(50+r.IntN(100)), float64(r.IntN(8)), 4000*r.Float64()
		step := 3 * (priorStep + priorStepRequest*inFlight + priorStepContext*context)
		if r.Float64() < 0.6 {
			step *= 1 + 2*r.Float64() // another request's prefill came in between
		}
		d.observe(n, step*(n-1), inFlight, context)
	}
	near(t, "per request", d.perRequest(), 3*priorStepRequest, 0.1)
	near(t, "output", d.output, 100, 0.15)
}

func TestDecodingForgetsThePriorLengthAtOnce(t *testing.T) {
	d := newDecoding()
	if d.output != 200 {
		t.Errorf("before an answer: got %v", d.output)
	}
	d.observe(8, 100, 1, 1000)
	d.observe(16, 100, 1, 1000)
	if d.output != 12 {
		t.Errorf("after answers of 8 and 16: got %v, want 12", d.output)
	}
}
