package routing

import (
	"context"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/prompt"
)

// belief is what KV_AWARE thinks of one replica.
type belief struct {
	replica *fleet.Replica
	life    context.Context // of its engine process, as far as the fleet knows
	holder  *kvindex.Holder
	queued  float64   // units sent to it that have no first token yet
	context float64   // prompt tokens of the requests in flight on it
	waiting int       // flights without a first token
	open    int       // flights
	blind   []*flight // whose first token nobody will see, in the order of dispatch
	learned bool      // its capacity is what reports have taught, not what was first believed
	wanted  uint64    // the last block of a prefix that it has not got
	forgone float64   // ms that a copy of it would have saved
	proven  int       // the greatest depth by last use, in blocks, at which a prompt was found
	used    float64   // blocks of all prompts sent to it
	doubted bool      // prompts have been missed since one was last found
	doubt   float64   // what had been sent when the first of them was
	cold    int       // of them, those most of which was missing far within the proven depth
	sure    int       // its capacity when a prompt was last found, in blocks
	lacking int       // the depth at which one whole prompt was missed, and none was found since that was as deep; 0 = none

	restarts int  // that were noticed
	filled   bool // blocks have been displaced since the last of them
}

// firstCapacity is the cache that a replica is believed to have until it says or shows, in tokens. It is high: believing in three
// times too much costs a few per cent where caches are tight, in a third 20 to 30 %, and too much is soon found out.
const firstCapacity = 1 << 21

// look brings the beliefs in line with a view: new replicas have empty caches, those that left are forgotten, and so is what
// an engine held whose process was lost, or which fell asleep.
func (s *kvAware) look(v *fleet.View, now time.Time) {
	if s.view != v {
		s.view = v
		s.beliefs = s.beliefs[:0]
		for _, r := range v.Eligible {
			s.beliefs = append(s.beliefs, s.believe(r))
		}
		s.forgetRemoved()
	}
	for _, b := range s.beliefs {
		if life := b.replica.Awake(); life != b.life {
			b.life = life
			b.restarted()
		}
		b.settle(now)
		s.resize(b)
	}
}

// forgetRemoved drops what replicas held that have left the fleet, and the replicas themselves once their requests have ended.
func (s *kvAware) forgetRemoved() {
	for r, b := range s.known {
		switch {
		case !r.Removed():
		case b.open > 0:
			b.holder.Forget()
		default:
			s.index.Remove(b.holder)
			delete(s.known, r)
		}
	}
}

func (s *kvAware) believe(r *fleet.Replica) *belief {
	b := s.known[r]
	if b == nil {
		kind := kvindex.Shared
		if s.whole {
			kind = kvindex.Whole
		}
		b = &belief{replica: r, life: r.Awake(), holder: s.index.Add(kind, s.blocks(firstCapacity))}
		s.known[r] = b
	}
	return b
}

// mostBlocks is more than any cache holds: 64 G tokens or so.
const mostBlocks = 1 << 30

// blocks is a number of tokens in blocks of the index, at least one.
func (s *kvAware) blocks(tokens float64) int {
	return int(min(max(1, tokens*s.ratio.bytesPerToken()/prompt.BlockBytes), mostBlocks))
}

// Corrections of what a replica is believed to hold, by reports of cached tokens.
const (
	slack         = 2    // blocks, of the larger of the index's and the engine's, that a prediction may be off
	partly        = 0.1  // share of it that may be missing: the ends of chains go one by one
	answersKept   = 4    // mean answers by which a prediction may be too low: engines cache what they generate, too
	capacityPace  = 0.25 // share of the way to a capacity that a miss has shown, and by which it grows
	capacityStep  = 0.02 // share by which it shrinks where a miss shows only the direction
	coldToRestart = 3    // answers in a row
)

// kept notes that what was believed of a flight's prompt was still there. While a restart is suspected, that counts only if nobody has
// used the prompt since: otherwise a restarted engine would have it, too.
func (b *belief) kept(f *flight) {
	if b.doubted && float64(f.depth) <= f.used-b.doubt {
		return
	}
	if b.cold > 0 {
		b.proven = f.depth // what was missing from less deep was no sign of a restart
	}
	b.proven = max(b.proven, f.depth)
	if f.depth >= b.lacking {
		b.lacking = 0
	}
	b.doubted, b.cold, b.sure = false, 0, b.holder.Capacity()
}

// missed takes the capacity towards the depth at which a block was found missing; one that lay beyond the capacity says only that it
// is too large. A prompt most of which is gone where others have been found far deeper says nothing of the capacity: the engine may
// have been restarted. Nor does one whole prompt, if others are found that were used as long ago: llama.cpp drops one for a slot that
// has never had any. What an engine keeps varies with what it runs, so close to the edge prompts are found and missed by turns.
func (b *belief) missed(f *flight, most bool) {
	if !b.doubted {
		b.doubted, b.doubt = true, f.used
	}
	if most && f.depth <= b.proven*3/4 {
		b.cold++
		return
	}
	if f.s.whole && b.lacking == 0 {
		b.lacking = f.depth
		return
	}
	now, pace, missing := b.holder.Capacity(), capacityPace, f.depth
	if f.s.whole {
		missing -= len(f.chain.Blocks) / 2 // it did not fit as a whole, and by how much is not known
	}
	if b.guessed() {
		pace = 1
	}
	next := float64(now) * (1 - capacityStep)
	if missing < now {
		next = float64(now) + pace*float64(missing-now)
	}
	b.learned = true
	b.holder.SetCapacity(max(int(next), len(f.chain.Blocks), 1))
}

// found raises the capacity: the engine still held what was believed displaced. How much more it holds is not known, but too much
// is found out by the next miss.
func (b *belief) found() {
	b.learned = true
	b.holder.SetCapacity(min(int(float64(b.holder.Capacity())*(1+capacityPace))+1, mostBlocks))
}

// settle lands the flights whose first token nobody sees, when it should have come.
func (b *belief) settle(now time.Time) {
	n := 0
	for n < len(b.blind) && (b.blind[n].first || !now.Before(b.blind[n].due)) {
		b.blind[n].land(b.blind[n].due)
		n++
	}
	b.blind = slices.Delete(b.blind, 0, n)
}

// forgo adds to what a copy of a prefix would have saved, in milliseconds. Of several prefixes the one that would have saved most of
// all is kept, if one would (Boyer and Moore's majority vote).
func (b *belief) forgo(prefix uint64, ms float64) {
	switch {
	case ms <= 0:
	case b.wanted == prefix:
		b.forgone += ms
	case b.forgone < ms:
		b.wanted, b.forgone = prefix, ms-b.forgone
	default:
		b.forgone -= ms
	}
}

// restarted empties the cache. What was missed since a prompt was last found has taught nothing of its capacity.
func (b *belief) restarted() {
	b.holder.Forget()
	b.holder.SetCapacity(max(b.sure, b.holder.Capacity()))
	b.doubted, b.cold, b.filled, b.lacking = false, 0, false, 0
	b.restarts++
}

// resize makes the believed capacity what the engine publishes, if it does, until reports teach otherwise: an engine's blocks also
// hold answers, and some engines keep more in the host's memory than they publish.
func (s *kvAware) resize(b *belief) {
	if b.learned {
		return
	}
	if published := b.replica.Signals().CacheTokens; published > 0 {
		b.setCapacity(s.blocks(float64(published)))
	}
}

// guessed says that its capacity is what was first believed: neither the engine nor its answers have said anything of it.
func (b *belief) guessed() bool { return !b.learned && b.replica.Signals().CacheTokens == 0 }

// setCapacity leaves small changes alone: they come with every answer that moves the bytes per token.
func (b *belief) setCapacity(blocks int) {
	if now := b.holder.Capacity(); blocks > now+now/50 || blocks < now-now/50 {
		b.holder.SetCapacity(blocks)
	}
}

// tokenRatio learns how many bytes of a canonical prompt make a token of the engine's.
type tokenRatio struct{ bytes, tokens float64 }

// newTokenRatio begins with 4 bytes a token, usual for English text, worth one short prompt.
func newTokenRatio() tokenRatio { return tokenRatio{bytes: 400, tokens: 100} }

func (t *tokenRatio) bytesPerToken() float64 { return t.bytes / t.tokens }

// tokensOf is an estimate, at least 1 for a prompt that has bytes.
func (t *tokenRatio) tokensOf(bytes int) float64 {
	if bytes == 0 {
		return 0
	}
	return max(1, float64(bytes)/t.bytesPerToken())
}

// observe learns from a prompt of known length. A hundred prompts are remembered.
func (t *tokenRatio) observe(bytes int, tokens float64) {
	const keep = 0.99
	t.bytes = keep*t.bytes + float64(bytes)
	t.tokens = keep*t.tokens + tokens
}
