package routing

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/internal/prompt"
)

// oracle decides as KV_AWARE does, written for the eye: every quantity is summed up anew from lists of what has happened. It
// believes the same capacity throughout, and is told the coefficients.
type oracle struct {
	whole    bool
	guessed  bool // the capacity is
	capacity int  // blocks of each replica
	fade     float64
	visits   int
	uses     map[uint64]usage // of blocks that some cache of shared blocks holds
	replicas []*oracleReplica
	coefficients
}

type coefficients struct {
	base, prefill, queue, request float64
	perRequest, perContext        float64
	output                        float64
}

type usage struct {
	count float64
	last  float64 // ms
}

type oracleReplica struct {
	entries []oracleEntry // most recently used first
	flights []*oracleFlight
	wanted  uint64  // the prefix that it misses most
	forgone float64 // ms
}

// An entry is one block, or one whole prompt.
type oracleEntry struct {
	chain []uint64
	visit int
	usage // of a prompt
}

type oracleFlight struct {
	on           *oracleReplica
	visit        int
	held, stored int // leading blocks, before and after
	chain        []uint64
	units        float64
	tokens       float64
	landed       bool
	due          float64 // ms; 0 = its first token is seen
}

func (o *oracle) faded(u usage, now float64) float64 {
	return u.count * math.Exp(-(now-u.last)/o.fade)
}

func (r *oracleReplica) size() (blocks int) {
	for _, e := range r.entries {
		blocks += len(e.chain)
	}
	return blocks
}

func leading(a, b []uint64) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// hit is how many leading blocks of a prompt the replica holds.
func (o *oracle) hit(r *oracleReplica, chain []uint64) (blocks int) {
	if o.whole {
		for _, e := range r.entries {
			if !r.open(e) {
				blocks = max(blocks, leading(e.chain, chain))
			}
		}
		return blocks
	}
	for blocks < len(chain) && slices.ContainsFunc(r.entries, func(e oracleEntry) bool { return e.chain[0] == chain[blocks] }) {
		blocks++
	}
	return blocks
}

// open says that the request which used an entry last is in flight.
func (r *oracleReplica) open(e oracleEntry) bool {
	return slices.ContainsFunc(r.flights, func(f *oracleFlight) bool { return f.visit == e.visit })
}

// rate is how often the last block of the chain has been used of late, by everybody.
func (o *oracle) rate(chain []uint64, now float64) (rate float64) {
	if !o.whole {
		return o.faded(o.uses[chain[len(chain)-1]], now)
	}
	for _, r := range o.replicas {
		for _, e := range r.entries {
			if leading(e.chain, chain) == len(chain) {
				rate += o.faded(e.usage, now)
			}
		}
	}
	return rate
}

// tail is the use of what the replica would displace next.
func (o *oracle) tail(r *oracleReplica) usage {
	e := r.entries[len(r.entries)-1]
	if o.whole {
		return e.usage
	}
	return o.uses[e.chain[0]]
}

// costs are those of one request on every replica, and what of them is waived.
func (o *oracle) costs(chain []uint64, now float64) (costs, waived []float64) {
	o.land(now)
	longest, place := o.longest(chain)
	for _, r := range o.replicas {
		cost, waiver := o.cost(r, chain, o.hit(r, chain), o.place(r, chain), now), 0.0
		if o.hit(r, chain) < longest && r.wanted == chain[longest-1] {
			if price := cost - o.cost(r, chain, longest, place, now); price > 0 && r.forgone >= price*(1-1e-9) {
				waiver = price
			}
		}
		costs, waived = append(costs, cost-waiver), append(waived, waiver)
	}
	return costs, waived
}

// longest is how many leading blocks any replica holds, and how many the prompt would take the place of on the first that does.
func (o *oracle) longest(chain []uint64) (blocks, place int) {
	for _, r := range o.replicas {
		if n := o.hit(r, chain); n > blocks {
			blocks, place = n, o.place(r, chain)
		}
	}
	return blocks, place
}

// place is how many blocks a prompt would take the place of.
func (o *oracle) place(r *oracleReplica, chain []uint64) int {
	if !o.whole {
		return o.hit(r, chain)
	}
	if at, _ := o.continued(r, chain); at >= 0 {
		return len(r.entries[at].chain)
	}
	return 0
}

// regret adds up, on every replica that has not got the longest prefix, what it would have saved there.
func (o *oracle) regret(chosen *oracleReplica, chain []uint64, now float64) {
	longest, place := o.longest(chain)
	if longest == 0 {
		return
	}
	paid := o.cost(chosen, chain, o.hit(chosen, chain), o.place(chosen, chain), now)
	for _, r := range o.replicas {
		saving := paid - o.cost(r, chain, longest, place, now)
		switch {
		case o.hit(r, chain) == longest:
		case r == chosen:
			r.forgone = 0
		case saving <= 0:
		case r.wanted == chain[longest-1]:
			r.forgone += saving
		default:
			if r.forgone -= saving; r.forgone < 0 {
				r.wanted, r.forgone = chain[longest-1], -r.forgone
			}
		}
	}
}

func tokens(blocks int) float64 { return float64(blocks*prompt.BlockBytes) / 4 }

func work(n, behind float64) float64 { return n + 2e-5*n*behind + 1e-5*n*n }

func (o *oracle) own(chain []uint64, hit int) float64 {
	p := tokens(len(chain))
	h := min(tokens(hit), max(0, p-1))
	return o.prefill * work(p-h, h)
}

func (o *oracle) wait(r *oracleReplica) (ms float64) {
	for _, f := range r.flights {
		ms += o.request
		if !f.landed {
			ms += o.queue * f.units
		}
	}
	return ms
}

// cost is that of a request on a replica, if it holds so many leading blocks and the prompt takes the place of so many.
func (o *oracle) cost(r *oracleReplica, chain []uint64, hit, place int, now float64) float64 {
	own := o.own(chain, hit)
	ms := own + o.wait(r)
	for _, f := range r.flights {
		ms += o.output * (o.perRequest + o.perContext*f.tokens)                 // its part of a step, for us
		ms += 0.2*own + o.output*(o.perRequest+o.perContext*tokens(len(chain))) // our prefill and part, for it
	}
	inFlight := 0.0
	for _, other := range o.replicas {
		inFlight += float64(len(other.flights)) / float64(len(o.replicas))
	}
	return ms + o.eviction(r, chain, hit, place, now)*(1+0.2*inFlight)
}

func (o *oracle) eviction(r *oracleReplica, chain []uint64, hit, place int, now float64) float64 {
	deepest, _ := o.longest(chain)
	fresh, room := len(chain)-hit, o.capacity-r.size()
	if fresh == 0 {
		return 0
	}
	displaced := float64(min(fresh, max(0, fresh-room))) / float64(fresh)
	if o.whole {
		need, all := len(chain)-place, 0
		for _, other := range o.replicas {
			all += other.size()
		}
		displaced = 0
		if need > room || o.guessed && place == 0 && r.size() > all/len(o.replicas) {
			displaced = 1
		}
	}
	if displaced > 0 && deepest > hit && len(r.entries) > 0 {
		copies := float64(deepest-hit) / float64(fresh)
		colder := min(1, 4*o.faded(o.tail(r), now)/max(1e-6, o.rate(chain[:deepest], now)))
		displaced *= 1 - copies + copies*colder
	}
	return 1.5 * displaced * o.own(chain, hit)
}

// land ends the prefill of what is due, in the order of dispatch.
func (o *oracle) land(now float64) {
	for _, r := range o.replicas {
		for _, f := range r.flights {
			if f.due == 0 || f.landed {
				continue
			}
			if f.due > now {
				break
			}
			f.landed = true
		}
	}
}

func (o *oracle) dispatch(r *oracleReplica, chain []uint64, streamed bool, now float64) *oracleFlight {
	p := tokens(len(chain))
	h := min(tokens(o.hit(r, chain)), max(0, p-1))
	f := &oracleFlight{on: r, chain: chain, units: work(p-h, h), tokens: p}
	if !streamed {
		f.due = now + o.base + o.own(chain, o.hit(r, chain)) + o.wait(r)
	}
	o.visits++
	f.visit = o.visits
	kept := chain[:min(len(chain), o.capacity)]
	f.held, f.stored = o.hit(r, kept), len(kept)
	if o.whole {
		f.held = o.keepPrompt(r, kept, now)
	} else {
		o.keepBlocks(r, kept, now)
	}
	r.flights = append(r.flights, f)
	if len(r.entries) == 0 || r.size() < o.capacity*9/10 {
		return f
	}
	if age := now - o.tail(r).last; age > 0 {
		o.fade = max(100, 0.95*o.fade+0.05*2*age)
	}
	return f
}

func (o *oracle) keepBlocks(r *oracleReplica, chain []uint64, now float64) {
	var front []oracleEntry
	for _, hash := range chain {
		r.entries = slices.DeleteFunc(r.entries, func(e oracleEntry) bool { return e.chain[0] == hash })
		front = append(front, oracleEntry{chain: []uint64{hash}, visit: o.visits})
	}
	r.entries = slices.Concat(front, r.entries)
	r.entries = r.entries[:min(len(r.entries), o.capacity)]
	for _, hash := range chain {
		o.uses[hash] = usage{count: o.faded(o.uses[hash], now) + 1, last: now}
	}
	o.sweep()
}

// sweep forgets how often blocks were used that nobody holds any more.
func (o *oracle) sweep() {
	held := map[uint64]bool{}
	for _, r := range o.replicas {
		for _, e := range r.entries {
			held[e.chain[0]] = true
		}
	}
	for hash := range o.uses {
		if !held[hash] {
			delete(o.uses, hash)
		}
	}
}

// keepPrompt lets a prompt replace the one that it continues.
func (o *oracle) keepPrompt(r *oracleReplica, chain []uint64, now float64) (held int) {
	if len(chain) == 0 {
		return 0
	}
	entry := oracleEntry{chain: chain, visit: o.visits, usage: usage{1, now}}
	at, held := o.continued(r, chain)
	if at >= 0 {
		entry.count += o.faded(r.entries[at].usage, now)
		r.entries = slices.Delete(r.entries, at, at+1)
	}
	r.entries = slices.Insert(r.entries, 0, entry)
	for r.size() > o.capacity {
		r.entries = r.entries[:len(r.entries)-1]
	}
	return held
}

// continued is the prompt whose place another takes, because it has at least half of it, or -1.
func (o *oracle) continued(r *oracleReplica, chain []uint64) (at, held int) {
	at = -1
	for i, e := range r.entries {
		if n := leading(e.chain, chain); n > held && !r.open(e) {
			at, held = i, n
		}
	}
	if at >= 0 && 2*held < len(r.entries[at].chain) {
		return -1, 0
	}
	return at, held
}

func (o *oracle) end(f *oracleFlight, undo bool) {
	r := f.on
	r.flights = slices.DeleteFunc(r.flights, func(other *oracleFlight) bool { return other == f })
	if !undo {
		return
	}
	r.entries = slices.DeleteFunc(r.entries, func(e oracleEntry) bool {
		if e.visit != f.visit {
			return false
		}
		return o.whole && f.held == 0 || !o.whole && slices.Contains(f.chain[f.held:f.stored], e.chain[0])
	})
	for i, e := range r.entries {
		if o.whole && e.visit == f.visit {
			r.entries[i].chain = e.chain[:min(f.held, len(e.chain))]
		}
	}
	o.sweep()
}

func (o *oracle) lose(r *oracleReplica) {
	r.entries = nil
	o.sweep()
}

// TestKVAwareDecidesAsTheOracle compares whole histories of decisions.
func TestKVAwareDecidesAsTheOracle(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := newHistory(t, rt)
		for range rapid.IntRange(1, 80).Draw(rt, "steps") {
			h.step(rt)
		}
		for len(h.open) > 0 {
			h.finish(0, true, 3)
		}
		for r, b := range h.rig.s.known {
			if b.queued != 0 || b.context != 0 || b.open != 0 || b.waiting != 0 {
				rt.Fatalf("%s ends with %g units queued, %g tokens of context, %d flights, %d of them waiting", r.ID(), b.queued, b.context, b.open, b.waiting)
			}
		}
	})
}

// history is one sequence of events that both are told of.
type history struct {
	rig   *rig
	o     *oracle
	start time.Time
	open  []pairOfFlights
}

type pairOfFlights struct {
	x *exchange
	f *oracleFlight
}

func newHistory(t *testing.T, rt *rapid.T) *history {
	whole := rapid.Bool().Draw(rt, "whole")
	n := rapid.IntRange(1, 5).Draw(rt, "replicas")
	h := &history{
		rig: newRig(t, n, Options{WholePrompts: whole}),
		o:   &oracle{whole: whole, guessed: rapid.Bool().Draw(rt, "guessed"), capacity: rapid.IntRange(1, 80).Draw(rt, "capacity"), fade: 30_000, uses: map[uint64]usage{}},
	}
	h.start = h.rig.now
	h.rig.rank(prompt.Chain{}) // so that there are beliefs
	for _, r := range h.rig.replicas() {
		h.rig.s.known[r].holder.SetCapacity(h.o.capacity)
		h.rig.s.known[r].learned = !h.o.guessed
		h.o.replicas = append(h.o.replicas, &oracleReplica{})
	}
	return h
}

func (h *history) ms() float64 { return float64(h.rig.now.Sub(h.start).Milliseconds()) }

func (h *history) step(rt *rapid.T) {
	i := 0
	if len(h.open) > 0 {
		i = rapid.IntRange(0, len(h.open)-1).Draw(rt, "flight")
	}
	switch action := rapid.IntRange(0, 9).Draw(rt, "action"); {
	case action < 5 || len(h.open) == 0:
		h.request(rt)
	case action == 5:
		h.rig.pass(time.Duration(rapid.IntRange(1, 20_000).Draw(rt, "ms")) * time.Millisecond)
	case action == 6 && h.open[i].x.query.Streamed:
		h.open[i].x.firstToken()
		h.open[i].f.landed = true
	case action == 9 && rapid.IntRange(0, 3).Draw(rt, "lost") == 0:
		lost := rapid.IntRange(0, len(h.o.replicas)-1).Draw(rt, "replica")
		h.rig.replicas()[lost].MarkLost()
		h.o.lose(h.o.replicas[lost])
	default:
		h.finish(i, action < 9, rapid.IntRange(0, 500).Draw(rt, "output"))
	}
}

func (h *history) request(rt *rapid.T) {
	c := chain(
		text(1, rapid.IntRange(0, 8).Draw(rt, "preamble")),
		text(rapid.Uint64Range(2, 7).Draw(rt, "document"), rapid.IntRange(0, 30).Draw(rt, "blocks")),
	)
	s := h.rig.s
	l := s.Learned()
	h.o.coefficients = coefficients{
		base: l.Latency.Base, prefill: l.Latency.Prefill, queue: l.Latency.Queue, request: l.Latency.Request,
		perRequest: l.StepPerRequest, perContext: l.StepPerToken, output: l.OutputTokens,
	}
	want, waived := h.o.costs(c.Blocks, h.ms())
	for _, got := range h.rig.rank(c) {
		i := slices.Index(h.rig.replicas(), got.Replica)
		if math.Abs(got.Cost.Total-want[i]) > 1e-6*want[i]+1e-9 {
			rt.Fatalf("replica %d costs %.9g ms: %+v; want %.9g, with %.9g waived", i, got.Cost.Total, got.Cost, want[i], waived[i])
		}
	}
	x := h.rig.place(Query{Chain: c, Streamed: rapid.Bool().Draw(rt, "streamed")})
	chosen := slices.Index(h.rig.replicas(), x.Replica)
	if best := slices.Min(want); want[chosen] > best*(1+1e-6)+2e-6 { // a millionth of a millisecond makes no difference
		rt.Fatalf("replica %d is chosen, which costs %g of %v", chosen, want[chosen], want)
	}
	h.o.regret(h.o.replicas[chosen], c.Blocks, h.ms())
	f := h.o.dispatch(h.o.replicas[chosen], c.Blocks, x.query.Streamed, h.ms())
	h.open = append(h.open, pairOfFlights{x, f})
}

func (h *history) finish(i int, answered bool, output int) {
	p := h.open[i]
	h.open = slices.Delete(h.open, i, i+1)
	seen := p.f.landed && p.x.query.Streamed
	p.x.end(Outcome{Answered: answered, OutputTokens: output})
	h.o.end(p.f, !answered && !seen)
}
