// Package kvindex holds what a router believes of the replicas' KV caches: how far into a chain of blocks each replica holds it.
package kvindex

import "unsafe"

// Kind says how an engine's cache counts.
type Kind uint8

const (
	// Shared is the cache of vLLM, SGLang and TensorRT-LLM: prompts share the blocks they have in common, and the least
	// recently used block goes first, tails before heads.
	Shared Kind = iota
	// Whole is the cache of llama.cpp: it keeps whole prompts, a common preamble once per prompt. The least recently used
	// prompt goes first; a new prompt takes the place of one of which it shares at least half. A prompt in flight cannot be used by others.
	Whole

	kinds = 2
)

// holderBytes is what a holder takes beside its blocks: itself, its cache, and its places in the lists of the index.
const holderBytes = int(unsafe.Sizeof(Holder{})+unsafe.Sizeof(blocks{})) + minSpans*spanBytes + 4*8

// minRate is the least rate that is reported, so that rates can be divided by one another.
const minRate = 1e-6

// Index holds what every replica is believed to have cached.
//
// A chain is the list of a prompt's block hashes. Each hash covers all blocks before it: equal hashes at one place of two
// chains mean that the chains are equal up to there. An Index is not safe for concurrent use.
type Index struct {
	budget  int
	bytes   int
	nodes   table
	pairs   pairs
	owners  []*blocks // by the number that pairs carry; nil where a number is free or belongs to whole prompts
	unused  []uint32  // free numbers
	graves  []*blocks // caches that are empty by now: their pairs are given back little by little
	holders [kinds][]*Holder
	hand    int    // where the next search for a victim begins
	warmth  uint32 // what table.warm returns goes here, so that it cannot be left out
}

// New returns an empty index that takes at most budget bytes. What no cache can do without, some 600 bytes a replica, is
// counted, but never refused; a first block takes 64 KiB.
func New(budget int) *Index {
	return &Index{budget: budget, nodes: newTable()}
}

// Add adds a replica whose cache is empty and has room for capacity blocks, at least 1.
func (x *Index) Add(kind Kind, capacity int) *Holder {
	h := &Holder{index: x, kind: kind, capacity: max(1, capacity), id: x.number(), place: len(x.holders[kind])}
	switch kind {
	case Whole:
		h.cache = &prompts{index: x, holder: h}
	default:
		h.cache = x.newBlocks(h)
	}
	x.holders[kind] = append(x.holders[kind], h)
	x.bytes += holderBytes
	return h
}

// Remove forgets a replica and all that it held, at once; h must not be used afterwards.
func (x *Index) Remove(h *Holder) {
	h.Forget()
	h.cache.release()
	x.bury(h.id)
	list := x.holders[h.kind]
	last := list[len(list)-1]
	list[h.place], last.place = last, h.place
	list[len(list)-1] = nil
	x.holders[h.kind] = list[:len(list)-1]
	x.bytes -= holderBytes
}

// Bytes returns the memory that the index takes, never more than its budget. Memory that blocks once took is kept for others.
func (x *Index) Bytes() int { return x.bytes }

// Pairs returns the number of blocks believed held, each counted once for every replica that holds it.
func (x *Index) Pairs() int {
	n := 0
	for _, list := range x.holders {
		for _, h := range list {
			n += h.Len()
		}
	}
	return n
}

// Rate returns the decayed number of uses of block k of the chain, k >= 1, by all replicas that hold it, at time now in
// milliseconds: each use counts exp(-age/decay), decay in milliseconds. It is at least 1e-6.
func (x *Index) Rate(chain []uint64, k int, now uint32, decay float64) float64 {
	rate, t := 0.0, newTick(now, decay)
	if n := x.nodes.find(chain[k-1]); n != 0 {
		node := x.nodes.at(n)
		rate = t.fade(node.use, node.last)
	}
	for _, h := range x.holders[Whole] {
		rate += h.cache.(*prompts).rate(chain[:k], &t)
	}
	return max(minRate, rate)
}

// number returns a number that no pair carries, for a new cache.
func (x *Index) number() uint32 {
	if n := len(x.unused); n > 0 {
		id := x.unused[n-1]
		x.unused = x.unused[:n-1]
		return id
	}
	x.owners = append(x.owners, nil)
	return uint32(len(x.owners) - 1)
}
