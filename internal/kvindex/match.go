package kvindex

// Matches tells how much of one chain each replica holds. The zero value is ready for Index.Match, and can be used again and
// again. It is valid until the index changes.
type Matches struct {
	depths  []uint32 // by the number of the cache; 0: holds nothing of it
	longest int
}

// Of returns the number of leading blocks of the chain that h is believed to hold.
func (m *Matches) Of(h *Holder) int {
	if int(h.id) >= len(m.depths) {
		return 0
	}
	return int(m.depths[h.id])
}

// Longest returns the greatest number of leading blocks that any replica is believed to hold.
func (m *Matches) Longest() int { return m.longest }

// Match finds how many leading blocks of the chain each replica is believed to hold, and writes it to m.
//
// Who holds a block of shared blocks also holds all blocks before it, so along a chain the set of holders only shrinks: where
// two blocks have equally many, they have the same. So a few look-ups find the blocks at which the set changes, and nothing
// but the sets at these is read.
func (x *Index) Match(chain []uint64, m *Matches) {
	m.reset(len(x.owners))
	seen := uint32(0)
	for k, n := x.deepest(chain); n != 0; {
		count := x.nodes.at(n).count
		seen += x.mark(n, k, count-seen, m)
		k, n = x.wider(chain, k, count)
	}
	for _, h := range x.holders[Whole] {
		k := h.cache.(*prompts).match(chain)
		m.depths[h.id] = uint32(k)
		m.longest = max(m.longest, k)
	}
}

func (m *Matches) reset(n int) {
	if cap(m.depths) < n {
		m.depths = make([]uint32, n, n+n/4)
	}
	m.depths = m.depths[:n]
	clear(m.depths)
	m.longest = 0
}

// deepest returns the last block of the chain that any cache holds, counted from 1, and its node; 0, 0 if there is none.
func (x *Index) deepest(chain []uint64) (k int, node uint32) {
	low, high := 0, len(chain) // low is held, or 0; nothing beyond high is
	for low < high {
		mid := (low + high + 1) / 2
		if n := x.nodes.find(chain[mid-1]); n != 0 {
			low, node = mid, n
		} else {
			high = mid - 1
		}
	}
	return low, node
}

// wider returns the last block before k that has more holders than count, which is what block k has, and its node; 0, 0 if
// there is none.
func (x *Index) wider(chain []uint64, k int, count uint32) (wider int, node uint32) {
	low, high := 0, k-1
	for low < high {
		mid := (low + high + 1) / 2
		if n := x.nodes.find(chain[mid-1]); n != 0 && x.nodes.at(n).count > count {
			low, node = mid, n
		} else {
			high = mid - 1
		}
	}
	return low, node
}

// mark writes depth k to those holders of a node that have none yet, of which there are fresh, and returns how many it found.
func (x *Index) mark(node uint32, k int, fresh uint32, m *Matches) (found uint32) {
	for p := x.nodes.at(node).first; p != 0 && found < fresh; {
		pair := x.pairs.at(p)
		if m.depths[pair.owner] == 0 {
			m.depths[pair.owner] = uint32(k)
			found++
			if !x.owners[pair.owner].dead {
				m.longest = max(m.longest, k)
			}
		}
		p = pair.sibling
	}
	return found
}
