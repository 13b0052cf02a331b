package emulator

import "sort"

// How llama.cpp's server chooses, as shares.
const (
	minSimilar = 0.1  // of a prompt, that a slot's must share to be preferred to the least recently used (--slot-prompt-similarity)
	minKept    = 0.5  // of a slot's prompt, that the next must share or the old one goes to the store
	minRestore = 0.25 // of a stored prompt, that the next must share or it stays where it is
)

// wholePrompts is the cache of llama.cpp's server. Each slot keeps the sequence of its last request; what slots give up goes to a store in
// the host's memory (--cache-ram), out of which the oldest falls first. Nothing is shared: a common beginning is there once a prompt.
type wholePrompts struct {
	capacity int // of the store, in blocks
	stored   int // blocks in it
	slots    []slot
	store    [][]uint64 // chains, the oldest first
	releases int
}

// slot is a place for one request at a time, and what the last one left there.
type slot struct {
	chain []uint64
	busy  bool
	last  int // number of the release
}

func newWholePrompts(capacity, slots int) *wholePrompts {
	return &wholePrompts{capacity: capacity, slots: make([]slot, slots)}
}

// admitWhole gives waiting requests free slots, in order of arrival. A prompt finds what is in its slot by then, and no other.
func (c *Core) admitWhole() {
	for r := c.waiting.peek(); r != nil && len(c.running) < c.config.MaxRunning; r = c.waiting.peek() {
		c.waiting.pop()
		r.state = running
		chain := r.Chain[:c.promptBlocks(r)]
		r.slot = c.whole.take(chain)
		r.cached = min(common(r.slot.chain, chain), c.reusableBlocks(r)) * c.config.BlockSize
		r.computed = r.cached
		c.running = append(c.running, r)
	}
}

// take gives a prompt the free slot that shares most with it, else the one that has been free for longest. There is a free one.
func (p *wholePrompts) take(chain []uint64) *slot {
	var chosen *slot
	shared := int(minSimilar * float64(len(chain)))
	for i := range p.slots {
		if s := &p.slots[i]; !s.busy && common(s.chain, chain) > shared {
			chosen, shared = s, common(s.chain, chain)
		}
	}
	if chosen == nil {
		chosen, shared = p.longestFree(), 0
	}
	chosen.busy = true
	if len(chosen.chain) == 0 { // it may take one of which most is of no use to it
		p.restore(chosen, chain)
	} else if float64(shared) < minKept*float64(len(chosen.chain)) {
		p.save(chosen.chain)
		p.restore(chosen, chain)
	}
	return chosen
}

func (p *wholePrompts) longestFree() *slot {
	var chosen *slot
	for i := range p.slots {
		if s := &p.slots[i]; !s.busy && (chosen == nil || s.last < chosen.last) {
			chosen = s
		}
	}
	return chosen
}

// save puts a prompt into the store, unless it is there as a part of another; prompts that are a part of it leave. One prompt always fits.
func (p *wholePrompts) save(chain []uint64) {
	kept := p.store[:0]
	for _, other := range p.store {
		n := common(other, chain)
		if n == len(chain) {
			return // nothing that is a part of it can have stood before this one: it would be a part of this one, too
		}
		if n < len(other) {
			kept = append(kept, other)
		} else {
			p.stored -= len(other)
		}
	}
	clear(p.store[len(kept):])
	p.store = kept
	p.store = append(p.store, chain)
	p.stored += len(chain)
	for len(p.store) > 1 && p.stored > p.capacity {
		p.remove(0)
	}
}

// restore brings a stored prompt back into a slot if it beats what is there in both: what it shares with the next prompt, and the share
// of itself that this is.
func (p *wholePrompts) restore(s *slot, chain []uint64) {
	best, shared := -1, common(s.chain, chain)
	kept := float64(shared) / float64(max(1, len(s.chain)))
	for i, other := range p.store {
		n := common(other, chain)
		if share := float64(n) / float64(len(other)); share >= minRestore && share > kept && n > shared {
			best, shared, kept = i, n, share
		}
	}
	if best >= 0 {
		s.chain = p.store[best]
		p.remove(best)
	}
}

func (p *wholePrompts) remove(i int) {
	p.stored -= len(p.store[i])
	p.store = append(p.store[:i], p.store[i+1:]...)
}

// release frees a slot, in which the chain stays.
func (p *wholePrompts) release(s *slot, chain []uint64) {
	p.releases++
	*s = slot{chain: chain, last: p.releases}
}

// reset forgets what no running request holds.
func (p *wholePrompts) reset() {
	p.store, p.stored = nil, 0
	for i := range p.slots {
		if s := &p.slots[i]; !s.busy {
			s.chain = nil
		}
	}
}

// common is how many leading blocks two chains share. Each hash covers all before it, so that equal ones end an equal beginning.
func common(a, b []uint64) int {
	return sort.Search(min(len(a), len(b)), func(i int) bool { return a[i] != b[i] })
}
