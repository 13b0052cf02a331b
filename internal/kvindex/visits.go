package kvindex

import (
	"slices"
	"sort"
	"unsafe"
)

// maxSpans bounds the log of one cache: 4,096 requests with blocks in it that nobody has used since are told apart.
const maxSpans = 4096

// minSpans is the room a log begins with.
const minSpans = 16

const spanBytes = int(unsafe.Sizeof(span{}))

// A span is one visit, or several successive ones that were merged to save room.
type span struct {
	first, last uint32 // numbers of visits
	live        uint32 // blocks that were last used by it
	taken       uint32 // leading blocks of its chain that later visits have used
	time        uint32 // when it began in milliseconds; of several, the latest
	open        uint32 // visits that have not ended
}

// visits is the log of the requests that a cache has seen, oldest first. It tells how deep a block lies in the order of use
// without walking it: blocks lie in the order of visits, and inside a visit in the order of the chain.
type visits struct {
	spans  []span
	oldest int // all before it are empty
}

func newVisits() visits { return visits{spans: make([]span, 0, minSpans)} }

// full reports whether there is no room for another visit.
func (l *visits) full() bool { return len(l.spans) == cap(l.spans) }

// crowded reports whether it would soon be full again, once it is tidy.
func (l *visits) crowded() bool { return len(l.spans) > cap(l.spans)*3/4 }

// growth returns by how many bytes it may grow.
func (l *visits) growth() int {
	if n := cap(l.spans); n < maxSpans {
		return n * spanBytes
	}
	return 0
}

// grow doubles the room.
func (l *visits) grow() { l.spans = append(make([]span, 0, 2*cap(l.spans)), l.spans...) }

// extra returns the bytes by which it has grown.
func (l *visits) extra() int { return max(0, cap(l.spans)-minSpans) * spanBytes }

// begin notes a visit, the number of which is greater than all before.
func (l *visits) begin(number, now uint32) {
	l.spans = append(l.spans, span{first: number, last: number, time: now, open: 1})
}

// tidy drops what is empty and closed.
func (l *visits) tidy() {
	l.spans = slices.DeleteFunc(l.spans, func(s span) bool { return s.live == 0 && s.open == 0 })
	l.oldest = 0
}

// merge merges each two neighbours in the older half.
func (l *visits) merge() {
	half := len(l.spans) / 2
	kept := l.spans[:0]
	for i := 0; i+1 < half; i += 2 {
		s, next := l.spans[i], l.spans[i+1]
		kept = append(kept, span{
			first: s.first, last: next.last,
			live: s.live + next.live, open: s.open + next.open,
			time: next.time,
		})
	}
	l.spans, l.oldest = append(kept, l.spans[half&^1:]...), 0
}

// find returns the place of the span that has the visit, -1 if it is gone.
func (l *visits) find(visit uint32) int {
	i := sort.Search(len(l.spans), func(i int) bool { return l.spans[i].last >= visit })
	if i == len(l.spans) || l.spans[i].first > visit {
		return -1
	}
	return i
}

// end notes that a visit has ended.
func (l *visits) end(visit uint32) {
	if i := l.find(visit); i >= 0 && l.spans[i].open > 0 {
		l.spans[i].open--
	}
}

// take notes that the newest visit has used n blocks that visit was the last to use.
func (l *visits) take(visit uint32, n uint32) {
	if i := l.find(visit); i >= 0 {
		l.spans[i].live -= n
		l.spans[i].taken += n
	}
	l.spans[len(l.spans)-1].live += n
}

// drop notes that n blocks are gone which visit was the last to use.
func (l *visits) drop(visit, n uint32) {
	own := l.tail() // blocks mostly go in the order of use
	if visit < own.first || visit > own.last {
		i := l.find(visit)
		if i < 0 {
			return
		}
		own = &l.spans[i]
	}
	own.live -= n
}

// tail returns the span of the least recently used block.
func (l *visits) tail() *span {
	for l.oldest < len(l.spans)-1 && l.spans[l.oldest].live == 0 {
		l.oldest++
	}
	return &l.spans[l.oldest]
}

// depth returns how deep in the order of use block k of a chain lies that visit was the last to use, k >= 1 and the most
// recently used block at depth 1, and whether that visit is open. Where visits were merged it is that of their last block.
func (l *visits) depth(visit uint32, k int) (blocks int, open bool) {
	i := l.find(visit)
	if i < 0 {
		return 0, false
	}
	own := &l.spans[i]
	blocks = int(own.live)
	if own.first == own.last {
		blocks = k - int(own.taken)
	}
	for j := i + 1; j < len(l.spans); j++ {
		blocks += int(l.spans[j].live)
	}
	return blocks, own.open > 0
}
