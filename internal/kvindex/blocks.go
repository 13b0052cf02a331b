package kvindex

// maxSurplus bounds how many blocks a shrunken cache gives up with one use, beside those that make room for the request.
const maxSurplus = 1024

// batch is how many blocks are looked up at once: see table.warm.
const batch = 64

// blocks is a cache of shared blocks. Every use of a block is one of all blocks before it as well, and they are put in order
// from the head on: so what precedes a block in a chain has been used more recently, and the least recently used block is
// always the end of a chain. What it holds is closed under taking prefixes.
type blocks struct {
	index  *Index
	holder *Holder
	id     uint32
	newest uint32 // pairs
	oldest uint32
	size   int
	log    visits
	dead   bool // forgotten: its pairs are on their way out
}

// newBlocks returns an empty cache under the number of h.
func (x *Index) newBlocks(h *Holder) *blocks {
	c := &blocks{index: x, holder: h, id: h.id, log: newVisits()}
	x.owners[h.id] = c
	return c
}

func (c *blocks) len() int { return c.size }

func (c *blocks) shrink() { c.evict(min(c.size-c.holder.capacity, maxSurplus)) }

// forget leaves the pairs in a grave, under the old number, and begins anew with another.
func (c *blocks) forget() {
	if c.size == 0 {
		return
	}
	x, h := c.index, c.holder
	c.release()
	c.dead = true
	x.graves = append(x.graves, c)
	h.id = x.number()
	h.cache = x.newBlocks(h)
}

func (c *blocks) release() {
	c.index.bytes -= c.log.extra()
	c.log = visits{}
}

func (c *blocks) use(chain []uint64, number uint32, t tick) Visit {
	c.begin(number, t.now)
	held, last := c.touch(chain, number, &t)
	missing := len(chain) - held
	c.evict(min(c.size+missing-c.holder.capacity, missing+maxSurplus))
	stored := held + c.index.makeRoom(c, number, missing, t.now)
	c.add(chain[held:stored], last, number, &t)
	return Visit{number: number, held: uint32(held), stored: uint32(stored)}
}

// begin opens a visit, in a longer log if it needs one and the budget allows.
func (c *blocks) begin(number, now uint32) {
	if c.log.full() {
		c.log.tidy()
		switch more := c.log.growth(); {
		case !c.log.crowded():
		case more > 0 && c.index.claim(more):
			c.log.grow()
		default:
			c.log.merge()
		}
	}
	c.log.begin(number, now)
}

// touch makes the leading blocks that it holds the most recently used. It returns how many there are, and the last of them.
//
// Pairs that follow one another in the chain mostly do so in the order of use; such a run is moved as one.
func (c *blocks) touch(chain []uint64, number uint32, t *tick) (held int, last uint32) {
	from, run := uint32(0), uint32(0) // the visit of the pairs just passed, and how many of them there were
	next := c.child(0, chain, number)
	for next != 0 {
		first, after := next, last
		for adjacent := true; adjacent; adjacent = next != 0 && next == c.index.pairs.at(last).older {
			last = next
			p := c.index.pairs.at(last)
			if p.visit != from {
				c.took(from, run)
				from, run = p.visit, 0
			}
			run++
			p.visit = number
			c.index.nodes.at(p.node).count1(t)
			held++
			next = c.child(last, chain[held:], number)
		}
		c.move(first, last, after)
	}
	c.took(from, run)
	return held, last
}

func (c *blocks) took(from, n uint32) {
	if n > 0 {
		c.log.take(from, n)
	}
}

// count1 counts a use.
func (n *node) count1(t *tick) {
	n.use = float32(t.fade(n.use, n.last) + 1)
	n.last = t.now
}

// child returns the pair of the first block of the rest of a chain, that of the block before being p; 0 if it is not held, or if
// the visit has used it already: no true chain has a block twice.
func (c *blocks) child(p uint32, rest []uint64, number uint32) uint32 {
	if len(rest) == 0 {
		return 0
	}
	likely := c.newest
	if p != 0 {
		likely = c.index.pairs.at(p).older
	}
	next := c.find(rest[0], likely)
	if next != 0 && c.index.pairs.at(next).visit == number {
		return 0
	}
	return next
}

// find returns the pair of a block; 0 if it is not held. It looks at the likely one first, if that is not 0.
func (c *blocks) find(hash uint64, likely uint32) uint32 {
	if likely != 0 && c.index.nodes.at(c.index.pairs.at(likely).node).hash == digestOf(hash) {
		return likely
	}
	n := c.index.nodes.find(hash)
	if n == 0 {
		return 0
	}
	p := c.index.nodes.at(n).first
	for p != 0 && c.index.pairs.at(p).owner != c.id {
		p = c.index.pairs.at(p).sibling
	}
	return p
}

// add appends blocks that it does not hold behind pair last; 0: before all.
func (c *blocks) add(chain []uint64, last, number uint32, t *tick) {
	if len(chain) == 0 {
		return
	}
	x := c.index
	rest := c.newest // what comes behind the new ones
	if last != 0 {
		rest = x.pairs.at(last).older
	}
	known := true // to other caches; after the first block that nobody has, nobody has any
	for i, hash := range chain {
		if i%batch == 0 {
			x.warmth ^= x.nodes.warm(chain[i:min(i+batch, len(chain))])
		}
		n := uint32(0)
		if known {
			n = x.nodes.find(hash)
			known = n != 0
		}
		if n == 0 {
			n = x.nodes.insert(hash)
		}
		last = c.pair(n, last, number, t)
	}
	c.join(last, rest)
	c.size += len(chain)
	c.log.spans[len(c.log.spans)-1].live += uint32(len(chain))
}

// pair adds the pair of a node behind pair newer, and counts the use.
func (c *blocks) pair(n, newer, number uint32, t *tick) uint32 {
	x := c.index
	node := x.nodes.at(n)
	node.count1(t)
	node.count++
	p := x.pairs.take()
	*x.pairs.at(p) = pair{node: n, owner: c.id, newer: newer, sibling: node.first, visit: number}
	if node.first != 0 {
		x.pairs.at(node.first).before = p
	}
	node.first = p
	if newer != 0 {
		x.pairs.at(newer).older = p
	} else {
		c.newest = p
	}
	return p
}

// move puts the run of pairs from first to last behind pair after; 0: before all.
func (c *blocks) move(first, last, after uint32) {
	if c.index.pairs.at(first).newer == after {
		return
	}
	c.unlink(first, last)
	c.link(first, last, after)
}

func (c *blocks) link(first, last, after uint32) {
	before := c.newest
	if after != 0 {
		before = c.index.pairs.at(after).older
	}
	c.join(after, first)
	c.join(last, before)
}

func (c *blocks) unlink(first, last uint32) {
	c.join(c.index.pairs.at(first).newer, c.index.pairs.at(last).older)
}

// join makes two pairs neighbours in the order of use; 0: the one or the other end of it.
func (c *blocks) join(newer, older uint32) {
	if newer != 0 {
		c.index.pairs.at(newer).older = older
	} else {
		c.newest = older
	}
	if older != 0 {
		c.index.pairs.at(older).newer = newer
	} else {
		c.oldest = newer
	}
}

// evict removes the n least recently used blocks, fewer if it has fewer.
func (c *blocks) evict(n int) {
	for n > 0 && c.oldest != 0 {
		n -= c.evictBatch(min(n, batch))
	}
}

// evictBatch removes up to n of the least recently used blocks, n at most a batch, and returns how many.
func (c *blocks) evictBatch(n int) int {
	x := c.index
	var hashes [batch]uint64
	some := 0
	for p := c.oldest; p != 0 && some < n; some++ {
		pair := x.pairs.at(p)
		hashes[some] = x.nodes.at(pair.node).hash.hash()
		p = pair.newer
	}
	x.warmth ^= x.nodes.warm(hashes[:some])
	from, run := uint32(0), uint32(0) // the visit of the pairs just passed, and how many of them there were
	p := c.oldest
	for range some {
		pair := x.pairs.at(p)
		if pair.visit != from {
			c.dropped(from, run)
			from, run = pair.visit, 0
		}
		run++
		next := pair.newer
		x.release(p)
		p = next
	}
	c.dropped(from, run)
	c.size -= some
	c.join(p, 0)
	return some
}

func (c *blocks) dropped(visit, n uint32) {
	if n > 0 && !c.dead {
		c.log.drop(visit, n)
	}
}

// remove takes out one block.
func (c *blocks) remove(i uint32) {
	c.unlink(i, i)
	c.size--
	c.dropped(c.index.pairs.at(i).visit, 1)
	c.index.release(i)
}

// release gives back a pair, and its node if it was the last.
func (x *Index) release(i uint32) {
	p := x.pairs.at(i)
	node := x.nodes.at(p.node)
	if p.before != 0 {
		x.pairs.at(p.before).sibling = p.sibling
	} else {
		node.first = p.sibling
	}
	if p.sibling != 0 {
		x.pairs.at(p.sibling).before = p.before
	}
	node.count--
	if node.count == 0 {
		x.nodes.remove(p.node)
	}
	x.pairs.give(i)
}

func (c *blocks) undo(chain []uint64, v Visit) {
	likely := uint32(0)
	for i := int(v.stored); i > int(v.held); i-- {
		p := c.find(chain[i-1], likely)
		if p == 0 || c.index.pairs.at(p).visit != v.number {
			likely = 0
			continue
		}
		likely = c.index.pairs.at(p).newer
		c.remove(p)
	}
}

func (c *blocks) close(v Visit) { c.log.end(v.number) }

func (c *blocks) depth(chain []uint64, k int) (blocks int, open bool) {
	p := c.find(chain[k-1], 0)
	if p == 0 {
		return 0, false
	}
	return c.log.depth(c.index.pairs.at(p).visit, k)
}

func (c *blocks) tail(now uint32, decay float64) (age uint32, use float64, ok bool) {
	if c.oldest == 0 {
		return 0, 0, false
	}
	n := c.index.nodes.at(c.index.pairs.at(c.oldest).node)
	t := newTick(now, decay)
	return now - n.last, t.fade(n.use, n.last), true
}
