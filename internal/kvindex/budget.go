package kvindex

// maxLooks bounds the search for a victim: among so many holders the least recently used block is found for certain, among
// more that of a sample, another one each time.
const maxLooks = 64

// A dead cache gives back at least minDrain pairs with every use of a living one, and drainRate for each block added.
const (
	minDrain  = 64
	drainRate = 2
)

// claim counts bytes as taken if the budget has them.
func (x *Index) claim(bytes int) bool {
	if x.bytes+bytes > x.budget {
		return false
	}
	x.bytes += bytes
	return true
}

// makeRoom makes room for n more blocks of c, which visit number adds, and returns how many fit: fewer only if nothing else is
// left that could go.
func (x *Index) makeRoom(c *blocks, number uint32, n int, now uint32) int {
	x.drain(minDrain + drainRate*n)
	fits := x.grow(n)
	for left := maxSurplus + 4*n; fits < n && left > 0; fits = x.grow(n) {
		freed := x.reclaim(c, number, n-fits, now)
		if freed == 0 {
			break
		}
		left -= freed
	}
	return fits
}

// reclaim takes up to n pairs from a dead cache, else from the one with the least recently used block. It returns how many,
// 0 if all that is left are blocks of c that visit number uses itself.
func (x *Index) reclaim(c *blocks, number uint32, n int, now uint32) int {
	if len(x.graves) > 0 {
		return x.drain(n)
	}
	victim := x.victim(c, number, now)
	if victim == nil {
		return 0
	}
	n = min(n, int(victim.log.tail().live))
	victim.evict(n)
	return n
}

// grow returns for how many of n blocks there is room, after it has taken what the budget allows. What has least room for
// blocks grows first, so that the budget's end does not leave many nodes and no pairs.
func (x *Index) grow(n int) int {
	for {
		switch {
		case x.nodes.room() < n && (x.nodes.slots() <= x.pairs.slots() || x.pairs.room() >= n):
			if !x.claim(x.nodes.growth()) {
				return min(n, x.nodes.room(), x.pairs.room())
			}
			x.nodes.grow()
		case x.pairs.room() < n:
			if !x.claim(pairChunkBytes) {
				return min(n, x.nodes.room(), x.pairs.room())
			}
			x.pairs.grow()
		default:
			return n
		}
	}
}

// drain gives back up to n pairs of dead caches, and returns how many.
func (x *Index) drain(n int) (drained int) {
	for drained < n && len(x.graves) > 0 {
		last := len(x.graves) - 1
		c := x.graves[last]
		some := min(n-drained, c.size)
		c.evict(some)
		drained += some
		if c.size == 0 {
			x.bury(c.id)
			x.graves[last] = nil
			x.graves = x.graves[:last]
		}
	}
	return drained
}

// bury gives back the number of a cache that no pair carries any more.
func (x *Index) bury(id uint32) {
	x.owners[id] = nil
	x.unused = append(x.unused, id)
}

// victim returns the cache with the least recently used block; nil if all that is left are blocks of c that visit number uses.
func (x *Index) victim(c *blocks, number, now uint32) (victim *blocks) {
	oldest := uint32(0)
	list := x.holders[Shared]
	for range min(len(list), maxLooks) {
		x.hand++
		b := list[x.hand%len(list)].cache.(*blocks)
		if b.size == 0 || b == c && b.log.tail().first == number {
			continue
		}
		if age := now - b.log.tail().time; victim == nil || age > oldest {
			victim, oldest = b, age
		}
	}
	return victim
}

// chainOf returns room for the chain of a prompt of n blocks, in spare if that fits. It is shorter than n only if all other
// prompts have gone.
func (x *Index) chainOf(n int, spare []uint64, now uint32) []uint64 {
	if cap(spare) >= n && cap(spare) <= 2*n && x.claim(promptBytes+hashBytes*cap(spare)) {
		return spare[:n]
	}
	for !x.claim(promptBytes + hashBytes*n) {
		if c := x.oldestPrompt(now); c != nil {
			c.take(len(c.list) - 1)
		} else if n = (x.budget - x.bytes - promptBytes) / hashBytes; n <= 0 {
			return nil
		}
	}
	return make([]uint64, n)
}

// oldestPrompt returns the cache with the least recently used prompt, nil if there is none.
func (x *Index) oldestPrompt(now uint32) (victim *prompts) {
	oldest := uint32(0)
	list := x.holders[Whole]
	for range min(len(list), maxLooks) {
		x.hand++
		c := list[x.hand%len(list)].cache.(*prompts)
		if len(c.list) == 0 {
			continue
		}
		if age := now - c.list[len(c.list)-1].last; victim == nil || age > oldest {
			victim, oldest = c, age
		}
	}
	return victim
}
