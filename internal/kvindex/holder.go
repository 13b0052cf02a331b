package kvindex

import "math"

// Holder is what one replica is believed to hold. It belongs to the Index that made it.
type Holder struct {
	index    *Index
	kind     Kind
	capacity int    // blocks
	id       uint32 // what pairs of its blocks carry
	place    int    // in the index's list of its kind
	visits   uint32 // how many there have been
	cache    cache
}

// Visit names one dispatch of a request to a replica, for Undo and Close. The zero Visit names none.
type Visit struct {
	number uint32
	held   uint32 // leading blocks that were there already
	stored uint32 // leading blocks that were there afterwards
}

// A cache is the belief itself, counted one way or the other.
type cache interface {
	len() int
	shrink() // evicts what is beyond the capacity, at least some of it
	forget()
	release() // gives back what it took from the budget; it is empty, and not used again
	use(chain []uint64, number uint32, t tick) Visit
	undo(chain []uint64, v Visit)
	close(v Visit)
	depth(chain []uint64, k int) (blocks int, open bool)
	tail(now uint32, decay float64) (age uint32, use float64, ok bool)
}

// A tick is the time of a use: now in milliseconds, and the decay time of the counts of use in milliseconds. It remembers the
// last factor it computed: neighbouring blocks mostly have the same age.
type tick struct {
	now    uint32
	decay  float64
	age    uint32
	factor float64
}

func newTick(now uint32, decay float64) tick { return tick{now: now, decay: decay, factor: 1} }

// fade returns what remains of a count of use that was true at time last.
func (t *tick) fade(use float32, last uint32) float64 {
	if age := t.now - last; age != t.age {
		t.age, t.factor = age, math.Exp(-float64(age)/t.decay)
	}
	return float64(use) * t.factor
}

// Len returns the number of blocks it is believed to hold. It is at most Capacity, but for the first uses after the capacity
// was reduced by a great deal. A cache of whole prompts keeps 256 of them at most.
func (h *Holder) Len() int { return h.cache.len() }

// Capacity returns the number of blocks it has room for.
func (h *Holder) Capacity() int { return h.capacity }

// SetCapacity changes the number of blocks it has room for, at least 1, and evicts what is beyond: at once if that is little,
// else part of it now and the rest with later uses.
func (h *Holder) SetCapacity(blocks int) {
	h.capacity = max(1, blocks)
	h.cache.shrink()
}

// Forget empties it, in constant time: the replica has restarted.
func (h *Holder) Forget() { h.cache.forget() }

// Use notes that a request with this chain has been dispatched to the replica at time now, in milliseconds from any start; it
// may wrap, only differences count. All blocks of the chain become the most recently used, the first one most of all; those
// that were missing are added, and the least recently used ones make room. Of a chain longer than the cache or than what the
// budget allows, the head is kept.
//
// Each block kept is counted as used once more: the counts decay to 1/e in decay milliseconds, which must be positive.
func (h *Holder) Use(chain []uint64, now uint32, decay float64) Visit {
	if h.visits == math.MaxUint32 {
		h.Forget()
		h.visits = 0
	}
	h.visits++
	return h.cache.use(chain[:min(len(chain), h.capacity)], h.visits, newTick(now, decay))
}

// Undo takes a use back: the request failed before it was computed. Blocks that v added and no later request used are
// removed. It closes v, too.
func (h *Holder) Undo(chain []uint64, v Visit) {
	h.cache.undo(chain, v)
	h.cache.close(v)
}

// Close notes that the request of v has ended: its blocks are no longer in flight. Closing twice does no harm.
func (h *Holder) Close(v Visit) { h.cache.close(v) }

// Depth tells of block k of the chain, k >= 1, how many blocks lie at its place or nearer in the order of use, 1 if it is the
// most recently used, and whether the last request that used it is still in flight. Of whole prompts it is the last block of
// the prompt that counts, for a prompt goes as a whole. It returns 0, false if the block is not believed held.
func (h *Holder) Depth(chain []uint64, k int) (blocks int, open bool) { return h.cache.depth(chain, k) }

// InFlight returns how many leading blocks of the chain a prompt in flight has that others cannot use before it has ended: of whole
// prompts, of which each has a slot to itself. Of shared blocks it is 0.
func (h *Holder) InFlight(chain []uint64) int {
	p, whole := h.cache.(*prompts)
	if !whole {
		return 0
	}
	_, shared := p.most(chain, true)
	return shared
}

// Tail tells of the least recently used block how many milliseconds ago it was last used by any replica, and its decayed
// number of uses; ok is false while the cache is empty. Of whole prompts, uses elsewhere are not counted.
func (h *Holder) Tail(now uint32, decay float64) (age uint32, use float64, ok bool) {
	return h.cache.tail(now, decay)
}
