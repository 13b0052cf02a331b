package routing

import (
	"math"
	"slices"
)

// latency learns how long the engines of an endpoint take, from every answer. Times are in milliseconds; work is in units, the
// prefill of one token without context (see units).
//
// A request of u units that finds U units queued and B requests in flight is expected to have its first token after
//
//	base + prefill*u + queue*U + request*B
//
// On an engine that batches, request is near 0; on one with a few slots it becomes service time / slots, and nobody has to say
// which of the two it is. Two regressions find the four: under overload latency is all queue and says nothing of prefill, so
// what an answer teaches about prefill is weighted by its own share of the time.
type latency struct {
	own   regression // base and prefill
	wait  regression // queue and request
	whole float64    // mean units of a whole prompt, uncached; 0 before the first answer
	first []float64  // times of the first answers of idle replicas, in what they should have been by the priors, in order of size
}

// features are what was known of a request when it was dispatched.
type features struct {
	units    float64 // of its prefill
	whole    float64 // of its prefill if nothing were cached
	queued   float64 // units sent to the replica before it that had no first token yet
	inFlight float64 // requests in flight there
}

// The priors, of a large model on several accelerators (emulator.Cost70B). On engines that batch they are good enough to begin with.
const (
	priorBase    = 12   // ms
	priorPrefill = 0.08 // ms per unit
	priorQueue   = 0.08 // ms per unit
	priorRequest = 0.06 // ms per request
)

func newLatency() latency {
	return latency{own: newRegression(priorBase, priorPrefill), wait: newRegression(priorQueue, priorRequest)}
}

func (l *latency) base() float64    { return l.own.theta[0] }
func (l *latency) prefill() float64 { return l.own.theta[1] }

// queue never exceeds prefill: a unit in front costs at most what computing it costs.
func (l *latency) queue() float64   { return min(l.wait.theta[0], l.prefill()) }
func (l *latency) request() float64 { return l.wait.theta[1] }

// expect is how long the first token of a request takes after its base, in milliseconds.
func (l *latency) expect(x features) float64 {
	return l.prefill()*x.units + l.queue()*x.queued + l.request()*x.inFlight
}

// observe learns from one answer whose first token took ms.
func (l *latency) observe(x features, ms float64) {
	if l.whole == 0 {
		l.whole = x.whole
	}
	l.whole += 0.01 * (x.whole - l.whole)
	l.own.scale[1], l.wait.scale[0] = l.whole, l.whole

	own := l.base() + l.prefill()*x.units
	wait := l.wait.theta[0]*x.queued + l.wait.theta[1]*x.inFlight
	share := own * own / (own*own + wait*wait + 1e-9)
	l.own.add([2]float64{1, x.units}, max(0, ms-wait), share)

	l.wait.limit = l.prefill()
	l.wait.add([2]float64{x.queued, x.inFlight}, max(0, ms-l.base()-l.prefill()*x.units), 1)
}

// Constants of calibrate.
const (
	firstAnswers = 4  // of idle replicas
	farOff       = 2  // times that engines are slower or faster than the priors where these are of no use
	mostOff      = 50 // times that they can be
)

// calibrate brings the priors to the engines' order of magnitude if they are far off, by an answer whose first token was seen after ms.
// Answers do that in the end, but the first dozens of them decide where prompts are kept, and hits say nothing of prefill.
func (l *latency) calibrate(x features, ms float64) {
	if x.queued > 0 || x.inFlight > 0 || len(l.first) == firstAnswers || l.own.seen > ridge {
		return
	}
	l.first = append(l.first, ms/(priorBase+priorPrefill*x.units))
	slices.Sort(l.first)
	slowness := l.first[(len(l.first)-1)/2]
	if slowness > 1./farOff && slowness < farOff {
		slowness = 1
	}
	slowness = min(max(1./mostOff, slowness), mostOff)
	l.own.target[1] = slowness * priorPrefill
	l.wait.target = [2]float64{slowness * priorQueue, slowness * priorRequest}
}

// regression fits y = theta[0]*x[0] + theta[1]*x[1] with both at least 0, by recursive least squares that forget.
type regression struct {
	theta  [2]float64
	target [2]float64    // what theta falls back to where the answers say nothing; follows theta slowly where they do
	scale  [2]float64    // size of x at which the ridge counts; 0 = as large as the answers themselves
	limit  float64       // greatest theta[0]; 0 = none
	xx     [2][2]float64 // weighted sums of x times x
	xy     [2]float64    // and of x times y
	seen   float64       // answers remembered, by the information in them
	weight float64       // sum of their weights
	spread float64       // mean relative error
}

// Constants of the regression, found by simulation over sixteen workloads of batching engines and engines with slots.
const (
	forget     = 0.005 // share of what is known that one answer replaces
	ridge      = 10    // answers that the target is worth
	targetPace = 200   // answers in which the target follows
	leastError = 0.02  // the relative error that counts as usual at least
)

func newRegression(first, second float64) regression {
	theta := [2]float64{first, second}
	return regression{theta: theta, target: theta, spread: 0.3}
}

// add takes one answer, whose information counts share, 0 to 1. Large expected values weigh less, and an answer far off the
// usual error weighs as if it were only that far off (Huber).
func (r *regression) add(x [2]float64, y, share float64) {
	expected := r.theta[0]*x[0] + r.theta[1]*x[1]
	size := max(expected, 1)
	weight := share / size
	off := math.Abs(y-expected) / size
	if off > r.spread {
		weight *= r.spread / off
	}
	r.spread = max(leastError, r.spread+0.02*share*(min(off, 4*r.spread)-r.spread))

	keep := 1 - forget*share
	for i := range 2 {
		for j := range 2 {
			r.xx[i][j] = keep*r.xx[i][j] + weight*x[i]*x[j]
		}
		r.xy[i] = keep*r.xy[i] + weight*x[i]*y
	}
	r.seen = keep*r.seen + share
	r.weight = keep*r.weight + weight
	r.moveTargets(share)
	for range 4 { // coordinate descent; both are bounded, so it cannot run away
		r.solve(0)
		r.solve(1)
	}
}

// pull is how strongly theta[i] is drawn to its target.
func (r *regression) pull(i int) float64 {
	p := ridge * r.xx[i][i] / (r.seen + 1e-9)
	if r.scale[i] > 0 {
		p = max(p, ridge*r.weight/(r.seen+1e-9)*r.scale[i]*r.scale[i])
	}
	return p
}

func (r *regression) moveTargets(share float64) {
	for i := range 2 {
		told := r.xx[i][i] / (r.xx[i][i] + r.pull(i) + 1e-12)
		r.target[i] += share * told * (r.theta[i] - r.target[i]) / targetPace
	}
}

// solve sets theta[i] to the best value while the other stays.
func (r *regression) solve(i int) {
	pull := r.pull(i)
	weight := r.xx[i][i] + pull
	if weight <= 1e-12 {
		r.theta[i] = r.target[i]
		return
	}
	r.theta[i] = max(0, (r.xy[i]+pull*r.target[i]-r.xx[i][1-i]*r.theta[1-i])/weight)
	if i == 0 && r.limit > 0 {
		r.theta[0] = min(r.theta[0], r.limit)
	}
}

// units is the work of n tokens behind hit others, in prefills of one token without context: attention makes tokens dearer the more
// of them precede (causal attention at 2e-5 of a token's linear cost for each, as in emulator.Cost70B).
func units(n, hit float64) float64 { return n * (1 + 2e-5*(hit+n/2)) }

// decoding learns what a step of generation costs: per request in the batch and per prompt token of its context, in milliseconds.
type decoding struct {
	scale   float64 // of the priors
	output  float64 // mean output tokens of an answer
	answers float64 // that taught it
}

const (
	priorStep        = 12     // ms of a step of generation
	priorStepRequest = 0.06   // ms per request in the batch
	priorStepContext = 1.5e-5 // ms per prompt token in flight
	priorOutput      = 200    // tokens, before the first answer
)

func newDecoding() decoding { return decoding{scale: 1, output: priorOutput} }

func (d *decoding) perRequest() float64 { return priorStepRequest * d.scale }
func (d *decoding) perContext() float64 { return priorStepContext * d.scale }

// step is the time of one step of generation in a batch.
func (d *decoding) step(inFlight, context float64) float64 {
	return d.scale * (priorStep + priorStepRequest*inFlight + priorStepContext*context)
}

// observe learns from an answer of n output tokens, of which all but the first took ms together beside inFlight requests
// with context prompt tokens. The scale is the lower quartile of what answers show: most of them are slowed by other requests'
// prefill, which is no part of it.
func (d *decoding) observe(n, ms, inFlight, context float64) {
	d.answers++
	d.output += (n - d.output) / min(d.answers, 100)
	if n <= 4 {
		return
	}
	const quantile, pace, most = 0.25, 0.02, 1000 // a scale beyond that could not return before thousands of answers
	if ms/(n-1) > d.step(inFlight, context) {
		d.scale = min(d.scale*(1+pace*quantile), most)
	} else {
		d.scale = max(d.scale*(1-pace*(1-quantile)), 1./most)
	}
}
