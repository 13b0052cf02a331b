package kvindex

import (
	"math/bits"
	"math/rand/v2"
	"unsafe"
)

// chunk is the number of nodes or pairs that are allocated at once: few enough that a small budget is not wasted.
const chunk = 1024

// A node is one block that at least one cache holds.
type node struct {
	hash  uint64
	first uint32  // the first of its pairs
	count uint32  // how many pairs it has
	use   float32 // decayed number of uses, as of last
	last  uint32  // time of the last use in milliseconds
	next  uint32  // the next node in its bucket, or in the list of free nodes
	head  uint32  // the first node in the bucket that has this node's number: what has room for n nodes has n buckets
}

const nodeChunkBytes = int(unsafe.Sizeof([chunk]node{}))

// table finds nodes by their hash. It is a linear hash table (Litwin, VLDB 1980): with every node that is new to it, it gains
// one bucket, taken from one other. So it never stops to move, nor to hold two copies of itself. Node 0 stands for none.
type table struct {
	chunks []*[chunk]node
	used   uint32 // nodes ever used, and number of buckets; 1 at least: bucket 0 is there from the first chunk on
	mask   uint32 // used-1 rounded up to all ones
	free   uint32 // the first free node among those ever used
	live   int
	seed   uint64 // odd
}

// newTable returns an empty table. Its seed keeps clients, who choose the prompts, from choosing their buckets too; nothing
// that the index answers depends on it.
func newTable() table { return table{used: 1, seed: rand.Uint64() | 1} }

func (t *table) at(i uint32) *node { return &t.chunks[i/chunk][i%chunk] }

// room returns how many nodes can be added before it has to grow.
func (t *table) room() int { return max(0, t.slots()-1-t.live) }

func (t *table) slots() int { return len(t.chunks) * chunk }

func (t *table) grow() { t.chunks = append(t.chunks, new([chunk]node)) }

// bucket returns the node that carries the head of the bucket for hash.
func (t *table) bucket(hash uint64) *node {
	b := t.mix(hash) & t.mask
	if b >= t.used {
		b &= t.mask >> 1
	}
	return t.at(b)
}

func (t *table) mix(hash uint64) uint32 {
	high, low := bits.Mul64(hash, t.seed)
	return uint32(high ^ low>>32)
}

// find returns the node of hash, 0 if there is none.
func (t *table) find(hash uint64) uint32 {
	if t.live == 0 {
		return 0
	}
	i := t.bucket(hash).head
	for i != 0 {
		n := t.at(i)
		if n.hash == hash {
			return i
		}
		i = n.next
	}
	return 0
}

// insert adds a node for hash, which must not be there; room must be at least 1.
func (t *table) insert(hash uint64) uint32 {
	i := t.free
	if i != 0 {
		t.free = t.at(i).next
	} else {
		i = t.used
		t.split()
	}
	t.live++
	n, bucket := t.at(i), t.bucket(hash)
	n.hash, n.first, n.count, n.next = hash, 0, 0, bucket.head
	bucket.head = i
	return i
}

// split adds the bucket of the number used and moves to it what belongs there.
func (t *table) split() {
	added := t.used
	t.used++
	if added > t.mask {
		t.mask = t.mask<<1 | 1
	}
	to, from := &t.at(added).head, &t.at(added&(t.mask>>1)).head
	for *from != 0 {
		n := t.at(*from)
		if t.mix(n.hash)&t.mask != added {
			from = &n.next
			continue
		}
		i := *from
		*from = n.next
		n.next, *to = *to, i
	}
}

// remove takes node i out of the table.
func (t *table) remove(i uint32) {
	n := t.at(i)
	link := &t.bucket(n.hash).head
	for *link != i {
		link = &t.at(*link).next
	}
	*link = n.next
	n.next, t.free = t.free, i
	t.live--
}
