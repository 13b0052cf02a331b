package kvindex

import "unsafe"

// A pair is one block in one cache.
type pair struct {
	node    uint32
	owner   uint32 // the number of the cache
	newer   uint32 // neighbours in the order of use of that cache
	older   uint32
	sibling uint32 // the next pair of the node
	before  uint32 // the pair of which this is the sibling; 0: the node's first
	visit   uint32 // the last visit that used it
}

const pairChunkBytes = int(unsafe.Sizeof([chunk]pair{}))

// pairs allocates pairs. Pair 0 stands for none.
type pairs struct {
	chunks []*[chunk]pair
	used   uint32 // pairs ever used, without pair 0
	free   uint32 // the first free pair among those ever used, linked by older
	live   int
}

func (s *pairs) at(i uint32) *pair { return &s.chunks[i/chunk][i%chunk] }

// room returns how many pairs can be added before it has to grow.
func (s *pairs) room() int { return max(0, s.slots()-1-s.live) }

func (s *pairs) slots() int { return len(s.chunks) * chunk }

func (s *pairs) grow() { s.chunks = append(s.chunks, new([chunk]pair)) }

// take returns a pair to fill in; room must be at least 1.
func (s *pairs) take() uint32 {
	s.live++
	if i := s.free; i != 0 {
		s.free = s.at(i).older
		return i
	}
	s.used++
	return s.used
}

func (s *pairs) give(i uint32) {
	s.at(i).older, s.free = s.free, i
	s.live--
}
