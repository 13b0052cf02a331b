package kvindex

// Matches tells how much of one chain each replica holds. The zero value is ready for Index.Match, and can be used again and
// again. It is valid until the index changes.
type Matches struct {
	depths  []uint32 // by the number of the cache; 0: holds nothing of it
	places  []uint32 // likewise, of whole prompts: blocks of the prompt whose place the chain would take
	found   uint32   // how many caches of shared blocks have a depth, dead ones too
	longest int
}

// Of returns the number of leading blocks of the chain that h is believed to hold.
func (m *Matches) Of(h *Holder) int {
	if int(h.id) >= len(m.depths) {
		return 0
	}
	return int(m.depths[h.id])
}

// Place returns how many blocks of h the chain would take the place of: of shared blocks those that it finds there, of whole prompts
// the prompt of which it has at least half, if there is one.
func (m *Matches) Place(h *Holder) int {
	switch {
	case h.kind == Shared:
		return m.Of(h)
	case int(h.id) >= len(m.places):
		return 0
	}
	return int(m.places[h.id])
}

// Longest returns the greatest number of leading blocks that any replica is believed to hold.
func (m *Matches) Longest() int { return m.longest }

// Match finds how many leading blocks of the chain each replica is believed to hold, and writes it to m.
func (x *Index) Match(chain []uint64, m *Matches) {
	m.reset(len(x.owners))
	if len(chain) > 0 {
		x.search(chain, x.step(chain, 1), step{k: len(chain) + 1}, m)
	}
	for _, h := range x.holders[Whole] {
		k, place := h.cache.(*prompts).match(chain)
		m.depths[h.id], m.places[h.id] = uint32(k), uint32(place)
		m.longest = max(m.longest, k)
	}
}

func (m *Matches) reset(n int) {
	if cap(m.depths) < n {
		m.depths, m.places = make([]uint32, n, n+n/4), make([]uint32, n, n+n/4)
	}
	m.depths, m.places = m.depths[:n], m.places[:n]
	clear(m.depths)
	clear(m.places)
	m.found, m.longest = 0, 0
}

// A step is block k of a chain, counted from 1.
type step struct {
	k     int
	first uint32 // of its pairs, 0 if nobody holds it
	count uint32 // how many caches hold it
}

func (x *Index) step(chain []uint64, k int) step {
	s := step{k: k}
	if n := x.nodes.find(chain[k-1]); n != 0 {
		s.first, s.count = x.nodes.at(n).first, x.nodes.at(n).count
	}
	return s
}

// search writes to m who holds block low, and how far beyond it; who holds block high is known already.
//
// Who holds a block of shared blocks also holds all blocks before it, so along a chain the set of holders only shrinks: where
// two blocks have equally many, they have the same, and so has all between. A few look-ups find the blocks at which the set
// changes, from the last to the first, and only the sets at these are read.
func (x *Index) search(chain []uint64, low, high step, m *Matches) {
	switch {
	case low.count <= high.count:
	case low.k+1 == high.k:
		x.mark(low, m)
	default:
		mid := x.step(chain, (low.k+high.k)/2)
		x.search(chain, mid, high, m)
		x.search(chain, low, mid, m)
	}
}

// mark writes the depth of a step to those of its holders that have none yet.
func (x *Index) mark(s step, m *Matches) {
	for p := s.first; p != 0 && m.found < s.count; {
		pair := x.pairs.at(p)
		if m.depths[pair.owner] == 0 {
			m.depths[pair.owner] = uint32(s.k)
			m.found++
			if !x.owners[pair.owner].dead {
				m.longest = max(m.longest, s.k)
			}
		}
		p = pair.sibling
	}
}
