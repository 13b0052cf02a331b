package kvindex

import (
	"slices"
	"unsafe"
)

// A prompt is one entry of a cache of whole prompts.
type prompt struct {
	chain []uint64
	use   float32 // decayed number of uses, as of last
	last  uint32  // time of the last use in milliseconds
	visit uint32  // the last that used it
	open  bool    // that visit has not ended
}

// maxPrompts bounds the prompts of one cache, because every look-up reads all of them. It is several times as many as an engine of
// this kind keeps, which has a slot for each, and perhaps a few gigabytes of others.
const maxPrompts = 256

// promptBytes is what a prompt takes beside its chain; lists grow by doubling.
const promptBytes = 2 * int(unsafe.Sizeof(prompt{}))

const hashBytes = 8

// prompts is a cache of whole prompts: a list, most recently used first. There are few of them, each with a chain of its own.
type prompts struct {
	index  *Index
	holder *Holder
	list   []prompt
	size   int // blocks
}

func (c *prompts) len() int { return c.size }

func (c *prompts) shrink() {
	for c.size > c.holder.capacity && len(c.list) > 1 {
		c.take(len(c.list) - 1)
	}
	if c.size > c.holder.capacity {
		c.cut(0, c.holder.capacity)
	}
}

func (c *prompts) forget() {
	for i := range c.list {
		c.index.bytes -= c.list[i].bytes()
	}
	c.list, c.size = nil, 0
}

func (c *prompts) release() {}

func (p *prompt) bytes() int { return promptBytes + hashBytes*cap(p.chain) }

// use lets the chain take the place of the prompt that shares the most with it, if at least half of that is shared.
func (c *prompts) use(chain []uint64, number uint32, t tick) Visit {
	if len(chain) == 0 {
		return Visit{number: number}
	}
	p := prompt{use: 1, last: t.now, visit: number, open: true}
	var spare []uint64
	i, held := c.nearest(chain)
	if held = c.kept(i, held); held > 0 {
		old := c.take(i)
		spare, p.use = old.chain, float32(t.fade(old.use, old.last)+1)
	}
	for c.size+len(chain) > c.holder.capacity || len(c.list) >= maxPrompts {
		spare = c.take(len(c.list) - 1).chain
	}
	p.chain = c.index.chainOf(len(chain), spare, t.now)
	stored := copy(p.chain, chain)
	if stored > 0 {
		c.list = slices.Insert(c.list, 0, p)
		c.size += stored
	}
	return Visit{number: number, held: uint32(min(held, stored)), stored: uint32(stored)}
}

// take removes prompt i and returns it.
func (c *prompts) take(i int) prompt {
	p := c.list[i]
	c.index.bytes -= p.bytes()
	c.size -= len(p.chain)
	c.list = slices.Delete(c.list, i, i+1)
	return p
}

// cut shortens prompt i to n blocks.
func (c *prompts) cut(i, n int) {
	p := &c.list[i]
	c.size -= len(p.chain) - n
	p.chain = p.chain[:n]
}

// nearest returns the prompt that shares most leading blocks with the chain, the most recently used of several, and how many. A prompt
// in flight keeps its slot to itself.
func (c *prompts) nearest(chain []uint64) (i, shared int) { return c.most(chain, false) }

// most is nearest among the prompts that are in flight or among the others.
func (c *prompts) most(chain []uint64, open bool) (i, shared int) {
	for j := range c.list {
		if c.list[j].open != open {
			continue
		}
		if n := common(c.list[j].chain, chain, shared); n > shared {
			i, shared = j, n
		}
	}
	return i, shared
}

// common returns how many leading blocks two chains share, or least if they share no more than that.
func common(a, b []uint64, least int) int {
	low, high := least, min(len(a), len(b))
	if low >= high || a[low] != b[low] {
		return least
	}
	for low < high {
		mid := (low + high + 1) / 2
		if a[mid-1] == b[mid-1] {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

// match returns how many blocks of the chain are there, and how many its use would take the place of.
func (c *prompts) match(chain []uint64) (shared, place int) {
	i, shared := c.nearest(chain)
	if c.kept(i, shared) > 0 {
		place = len(c.list[i].chain)
	}
	return shared, place
}

// kept is shared if that is enough of prompt i for another to take its place, else 0.
func (c *prompts) kept(i, shared int) int {
	if shared > 0 && 2*shared < len(c.list[i].chain) {
		return 0
	}
	return shared
}

// rate returns the decayed number of uses of the last block of the chain.
func (c *prompts) rate(chain []uint64, t *tick) (sum float64) {
	k := len(chain)
	for i := range c.list {
		if p := &c.list[i]; len(p.chain) >= k && p.chain[k-1] == chain[k-1] {
			sum += t.fade(p.use, p.last)
		}
	}
	return sum
}

func (c *prompts) undo(_ []uint64, v Visit) {
	i := c.of(v)
	if i < 0 {
		return
	}
	if v.held == 0 {
		c.take(i)
		return
	}
	c.cut(i, min(int(v.held), len(c.list[i].chain)))
}

func (c *prompts) close(v Visit) {
	if i := c.of(v); i >= 0 {
		c.list[i].open = false
	}
}

// of returns the prompt that v was the last to use, -1 if there is none.
func (c *prompts) of(v Visit) int {
	return slices.IndexFunc(c.list, func(p prompt) bool { return p.visit == v.number })
}

func (c *prompts) depth(chain []uint64, k int) (blocks int, open bool) {
	for i := range c.list {
		p := &c.list[i]
		blocks += len(p.chain)
		if len(p.chain) >= k && p.chain[k-1] == chain[k-1] {
			return blocks, p.open
		}
	}
	return 0, false
}

func (c *prompts) tail(now uint32, decay float64) (age uint32, use float64, ok bool) {
	if len(c.list) == 0 {
		return 0, 0, false
	}
	p, t := &c.list[len(c.list)-1], newTick(now, decay)
	return now - p.last, t.fade(p.use, p.last), true
}
