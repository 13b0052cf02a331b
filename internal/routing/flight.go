package routing

import (
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/prompt"
)

// flight is one request that KV_AWARE has placed: what it holds of the replica's backlog, and what will be learned from it.
type flight struct {
	s      *kvAware
	on     *belief
	chain  prompt.Chain
	visit  kvindex.Visit
	at     features
	began  time.Time
	tokens float64 // of the prompt, estimated
	hit    float64 // of them, believed cached
	depth  int     // of the last block believed hit, in blocks of the cache by last use; 0 = none
	young  bool    // and it was put there by a request that was still in flight
	behind float64 // tokens of it that a prompt in flight had, which are found by one that waits for its slot
	used   float64 // what had been sent to the replica before, in blocks
	life   int     // restarts that had been noticed

	due      time.Time // when the first token should come, if nobody will see it
	first    bool      // it has come, or never will
	ttft     time.Duration
	inFlight float64 // on the replica, when it came
	context  float64
}

// Began reserves the request's work on the replica and believes its blocks to be there: the others of a burst follow it.
func (s *kvAware) Began(q *Query, c *Candidate) Flight {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.known[c.Replica]
	f := &flight{
		s: s, on: b, chain: q.Chain, began: q.Now, tokens: c.Cost.PromptTokens, hit: c.Cost.HitTokens, life: b.restarts, used: b.used,
		at: features{
			units: units(c.Cost.PromptTokens-c.Cost.HitTokens, c.Cost.HitTokens), whole: units(c.Cost.PromptTokens, 0),
			queued: c.Cost.QueuedUnits, inFlight: c.Cost.inFlight,
		},
	}
	s.regret(q, c)
	if c.Cost.blocks > 0 {
		f.depth, f.young = b.holder.Depth(q.Chain.Blocks, c.Cost.blocks)
	}
	f.behind = s.ratio.tokensOf(b.holder.InFlight(q.Chain.Blocks) * prompt.BlockBytes)
	b.filled = b.filled || b.holder.Len()+len(q.Chain.Blocks)-c.Cost.blocks > b.holder.Capacity()
	now := s.clock(q.Now)
	f.visit = b.holder.Use(q.Chain.Blocks, now, s.fade)
	s.age(b.holder, now)
	b.queued += f.at.units
	b.context += f.tokens
	b.used += float64(len(q.Chain.Blocks))
	b.waiting++
	b.open++
	if !q.Streamed {
		expected := s.latency.base() + s.latency.expect(f.at)
		f.due = q.Now.Add(time.Duration(expected * float64(time.Millisecond)))
		b.blind = append(b.blind, f)
	}
	return f
}

// regret notes how much less the request would have cost on replicas that have not got its prefix, if they had.
func (s *kvAware) regret(q *Query, c *Candidate) {
	d := &s.latest
	if d.longest == 0 {
		return
	}
	for _, b := range s.beliefs {
		switch {
		case d.matches.Of(b.holder) >= d.longest || slices.Contains(q.Tried, b.replica):
		case b.replica == c.Replica:
			b.forgone = 0
		default:
			b.forgo(d.chain[d.longest-1], c.Cost.Total+c.Cost.Waived-d.withLongest(b).Total)
		}
	}
}

// age follows how long blocks stay unused before they are displaced, by the oldest block of a cache that is full.
func (s *kvAware) age(h *kvindex.Holder, now uint32) {
	if h.Len() < h.Capacity()*9/10 {
		return
	}
	if age, _, ok := h.Tail(now, s.fade); ok && age > 0 {
		s.fade = max(100, s.fade+0.05*(2*float64(age)-s.fade))
	}
}

// FirstToken releases the request's prefill.
func (f *flight) FirstToken(at time.Time) {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.land(at)
}

// land ends the request's part of what is queued on its replica.
func (f *flight) land(at time.Time) {
	if f.first {
		return
	}
	b := f.on
	f.first, f.ttft = true, at.Sub(f.began)
	f.inFlight, f.context = float64(b.replica.InFlight()), b.context
	b.queued = max(0, b.queued-f.at.units)
	if b.waiting--; b.waiting == 0 {
		b.queued = 0 // whatever floating point has left
	}
}

// Ended gives back what the request held and learns from its answer.
func (f *flight) Ended(o Outcome) {
	o = o.plausible()
	s, b := f.s, f.on
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := o.Streamed && f.first
	f.land(o.At)
	b.context = max(0, b.context-f.tokens)
	if b.open--; b.open == 0 {
		b.context = 0
	}
	b.holder.Close(f.visit)
	if !o.Answered {
		if !seen {
			b.holder.Undo(f.chain.Blocks, f.visit)
		}
		return
	}
	if f.chain.Bytes == 0 {
		return // embeddings and the like: not a prompt that fits the model
	}
	if o.PromptTokens > 0 {
		s.ratio.observe(f.chain.Bytes, float64(o.PromptTokens))
	}
	if o.CachedKnown && o.PromptTokens > 0 {
		f.compare(float64(o.CachedTokens) / float64(o.PromptTokens) * f.tokens)
	}
	f.teach(o, seen)
}

// teach gives the answer's times to the models. Of an answer whose first token was not seen, generation is taken off as far as its
// length is known.
func (f *flight) teach(o Outcome, seen bool) {
	s, tokens := f.s, float64(o.OutputTokens)
	took, first := milliseconds(o.At.Sub(f.began)), milliseconds(f.ttft)
	inFlight, context := (f.inFlight+float64(f.on.replica.InFlight()))/2, (f.context+f.on.context)/2
	if seen {
		s.latency.calibrate(f.at, first)
	} else {
		first = took - max(0, tokens-1)*s.decode.step(inFlight, context)
	}
	s.latency.observe(f.at, max(0, first))
	if tokens == 0 {
		return
	}
	if !seen {
		first = priorBase + s.latency.expect(f.at) // what has been learned of the base is what generation was not known to take
	}
	s.decode.observe(tokens, took-first, inFlight, context)
}

// compare corrects what the replica is believed to hold by the tokens that its engine found in its cache, in the estimate's unit.
func (f *flight) compare(cached float64) {
	f.at.units = units(f.tokens-min(cached, f.tokens), cached)
	b := f.on
	if f.life != b.restarts {
		return // what was predicted has been taken back
	}
	tolerance := slack * max(f.s.ratio.tokensOf(prompt.BlockBytes), float64(b.replica.Signals().BlockTokens))
	switch {
	case f.depth == 0 || f.young: // nothing was predicted, or by a request that was only just being computed
	case f.hit-cached > max(tolerance, f.hit*partly):
		b.missed(f, cached < f.hit/2)
		if b.cold == coldToRestart {
			b.restarted()
			b.holder.Close(b.holder.Use(f.chain.Blocks, f.s.clock(f.began), f.s.fade))
		}
	case f.hit > tolerance:
		b.kept(f)
	}
	if b.filled && cached-max(f.hit, f.behind) > tolerance+answersKept*f.s.decode.output {
		b.found()
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
