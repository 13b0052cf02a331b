package emulator

// block is one full block of the paged prefix cache. It is in exactly one state: pending (not computed, referenced by
// running requests), pinned (computed and referenced) or idle (computed, unreferenced, in the LRU ring).
type block struct {
	hash       uint64
	refs       int
	owner      *Request // who computes it; nil when computed, or when its owner was cancelled
	computed   bool
	prev, next *block // LRU ring while idle; next alone links the spares
}

// cache is a paged prefix cache with LRU eviction. It counts blocks rather than placing them: pinned + reserved + idle
// never exceeds capacity. Since a request references the whole chain in front of any block it uses, and releases tails
// before heads, a block never outlives its predecessors.
type cache struct {
	capacity int // in blocks
	blocks   map[uint64]*block
	lru      block  // sentinel of the ring; lru.next is evicted first
	spare    *block // evicted blocks, to be used again
	pinned   int    // blocks referenced by running requests
	reserved int    // unshared blocks promised to running requests: prompt tails and answers
	idle     int
}

func newCache(capacity int) *cache {
	c := &cache{capacity: capacity, blocks: make(map[uint64]*block)}
	c.lru.prev, c.lru.next = &c.lru, &c.lru
	return c
}

// fits reports whether a request of need blocks, of which chain may be shared, finds room beside the running ones. Only
// blocks that are pinned already come free: an idle one that is hit can no longer be evicted for the rest.
func (c *cache) fits(chain []uint64, need int) bool {
	free := c.capacity - c.pinned - c.reserved
	if need <= free {
		return true
	}
	if need-len(chain) > free {
		return false
	}
	for _, hash := range chain {
		b := c.blocks[hash]
		if b == nil || b.refs == 0 {
			return false
		}
		if need--; need <= free {
			return true
		}
	}
	return false
}

// pin references the block of a hash. A block that is not there is made: pending, and owner's to compute.
func (c *cache) pin(hash uint64, owner *Request) *block {
	b := c.blocks[hash]
	if b == nil {
		b = c.insert(hash)
		b.owner = owner
	}
	if b.refs == 0 {
		c.reference(b)
	}
	b.refs++
	return b
}

// adopt turns one reserved block, now full of generated tokens, into the cached block of a hash. A copy that exists
// already takes its place.
func (c *cache) adopt(hash uint64) *block {
	c.reserved--
	b := c.pin(hash, nil)
	c.computed(b)
	return b
}

// computed makes a block hittable.
func (c *cache) computed(b *block) {
	b.computed, b.owner = true, nil
}

// reserve promises n blocks that no other request can share.
func (c *cache) reserve(n int) {
	c.reserved += n
	c.evict()
}

// release gives back what owner held: its reserved blocks, and its references from tail to head, so that under
// pressure a chain loses its tail before its head.
func (c *cache) release(owner *Request, blocks []*block, reserved int) {
	c.reserved -= reserved
	for i := len(blocks) - 1; i >= 0; i-- {
		b := blocks[i]
		if b.owner == owner {
			b.owner = nil
		}
		if b.refs--; b.refs > 0 {
			continue
		}
		c.pinned--
		if b.computed {
			c.rest(b)
		} else {
			c.drop(b)
		}
	}
}

// reference moves a block that has no references out of the LRU ring and makes room for it.
func (c *cache) reference(b *block) {
	if b.computed {
		b.prev.next, b.next.prev = b.next, b.prev
		b.prev, b.next = nil, nil
		c.idle--
	}
	c.pinned++
	c.evict()
}

// rest appends a block to the LRU ring as the most recently used.
func (c *cache) rest(b *block) {
	b.prev, b.next = c.lru.prev, &c.lru
	b.prev.next, c.lru.prev = b, b
	c.idle++
}

// evict drops least recently used blocks until what is left fits.
func (c *cache) evict() { c.shrink(c.capacity - c.pinned - c.reserved) }

// shrink drops least recently used blocks until at most so many are idle, if there are more.
func (c *cache) shrink(idle int) {
	for c.idle > max(0, idle) {
		b := c.lru.next
		b.prev.next, b.next.prev = b.next, b.prev
		c.idle--
		c.drop(b)
	}
}

func (c *cache) insert(hash uint64) *block {
	b := c.spare
	if b == nil {
		b = new(block)
	} else {
		c.spare = b.next
	}
	*b = block{hash: hash}
	c.blocks[hash] = b
	return b
}

func (c *cache) drop(b *block) {
	delete(c.blocks, b.hash)
	*b = block{next: c.spare}
	c.spare = b
}
