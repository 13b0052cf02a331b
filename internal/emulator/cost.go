package emulator

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Cost holds the constants of the step-time model, all in milliseconds. A step of a continuous-batching engine takes
//
//	T0 + sum over decoding sequences (D + K*context) + sum over prefill chunks (P*n + A*n*(before + n/2))
//
// where context is the sequence's tokens so far, n the tokens of the chunk and before the tokens that precede it. The
// last term is causal attention: token i of a prompt attends to i tokens. A chunk of fewer than M tokens takes as long as one of M:
// engines compute in tiles.
//
// With Slots, sequences share no steps and do not slow each other down: each takes T0 + P*n + A*n*(before + n/2) for the n tokens
// of its prompt that are not cached, and D + K*context for each token of its answer but the first.
type Cost struct {
	T0 float64 // fixed cost of a step; with Slots of a prompt
	P  float64 // per prefill token
	D  float64 // per decoding sequence
	K  float64 // per decoding sequence and context token
	A  float64 // per prefill token and token before it
	M  float64 // tokens that a prefill chunk takes at least

	Slots bool // sequences share no steps
}

// Cost70B is a 70-billion-parameter model on eight data-centre GPUs: 12,500 prompt tokens a second.
var Cost70B = Cost{T0: 12, P: 0.08, D: 0.06, K: 1.5e-5, A: 1.6e-6}

// Cost8B is an 8-billion-parameter model on one data-centre GPU: 25,000 prompt tokens a second. It is an estimate.
var Cost8B = Cost{T0: 6, P: 0.04, D: 0.03, K: 1.0e-5, A: 0.6e-6}

// CostSlots is an engine whose slots are independent of each other: a request takes 100 ms and 25 us for each character of its
// prompt that is not cached. It is a rig to compare routers on, where load and hits are all there is, and models no engine.
var CostSlots = Cost{T0: 100, P: 0.1, Slots: true}

const mostCost = 1e6

// Preset returns the cost constants that a specification NAME[:constant=value,...] describes: those that go by the name "70b", "8b" or
// "slots", with others in the place of some, from 0 to a million milliseconds: 8b:t0=3,p=0.2. Constants are t0, p, d, k, a and m,
// which is a number of tokens. The error says what can be written instead.
func Preset(spec string) (Cost, error) {
	name, list, hasConstants := strings.Cut(spec, ":")
	cost, ok := map[string]Cost{"70b": Cost70B, "8b": Cost8B, "slots": CostSlots}[name]
	if !ok {
		return Cost{}, fmt.Errorf("preset %q: not known; use 70b, 8b or slots", name)
	}
	if !hasConstants {
		return cost, nil
	}
	constants := map[string]*float64{"t0": &cost.T0, "p": &cost.P, "d": &cost.D, "k": &cost.K, "a": &cost.A, "m": &cost.M}
	for pair := range strings.SplitSeq(list, ",") {
		constant, text, _ := strings.Cut(pair, "=")
		target, ok := constants[constant]
		if !ok {
			return Cost{}, fmt.Errorf("preset %s: %q is no constant; write t0, p, d, k, a or m, each with = and a number", name, constant)
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil || !(value >= 0 && value <= mostCost) {
			return Cost{}, fmt.Errorf("preset %s: %s is %q; give a number from 0 to %g, such as 0.08", name, constant, text, mostCost)
		}
		*target = value
	}
	return cost, nil
}

// Scale returns the constants of an engine that is factor times slower.
func (c Cost) Scale(factor float64) Cost {
	return Cost{T0: c.T0 * factor, P: c.P * factor, D: c.D * factor, K: c.K * factor, A: c.A * factor, M: c.M, Slots: c.Slots}
}

// decode is the cost in milliseconds of one more token for a sequence of context tokens.
func (c Cost) decode(context int) float64 {
	return c.D + c.K*float64(context)
}

// prefill is the cost in milliseconds of a chunk of n prompt tokens behind before others.
func (c Cost) prefill(before, n int) float64 {
	if n == 0 {
		return 0
	}
	tokens := max(float64(n), c.M)
	return c.P*tokens + c.A*tokens*(float64(before)+tokens/2)
}

// milliseconds converts the unit of the cost model into a time.Duration.
func milliseconds(ms float64) time.Duration {
	return time.Duration(ms * float64(time.Millisecond))
}
