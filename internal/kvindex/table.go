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
	hash  digest
	first uint32  // the first of its pairs
	count uint32  // how many pairs it has
	use   float32 // decayed number of uses, as of last
	last  uint32  // time of the last use in milliseconds
	next  uint32  // the next node beside the slots of its bucket, or in the list of free nodes
}

// A digest is a hash in two halves, low half first: so a node has no padding.
type digest [2]uint32

func digestOf(hash uint64) digest { return digest{uint32(hash), uint32(hash >> 32)} }

func (d digest) hash() uint64 { return uint64(d[1])<<32 | uint64(d[0]) }

const (
	slots         = 12  // in a bucket
	nodesToBucket = 10  // nodes for each bucket: so 5 % of them find no slot
	bucketChunk   = 128 // buckets that are allocated at once
)

// A bucket fills one cache line.
type bucket struct {
	nodes [slots]uint32 // 0: free
	over  uint32        // the first node that found no slot
	tags  [slots]uint8  // of the nodes' hashes, never 0; 0: free
}

// table finds nodes by their hash. It is a linear hash table (Litwin, VLDB 1980): each time it has gained ten nodes, it gains
// one bucket, taken from one other. So it never stops to move, nor to hold two copies of itself. Node 0 stands for none.
type table struct {
	nodes   []*[chunk]node
	buckets []*[bucketChunk]bucket
	used    uint32 // nodes ever used, node 0 included
	split   uint32 // number of buckets
	mask    uint32 // split-1 rounded up to all ones
	free    uint32 // the first free node among those ever used
	live    int
	seed    uint64 // odd
}

// newTable returns an empty table. Its seed keeps clients, who choose the prompts, from choosing their buckets too; nothing
// that the index answers depends on it.
func newTable() table { return table{used: 1, split: 1, seed: rand.Uint64() | 1} }

func (t *table) at(i uint32) *node { return &t.nodes[i/chunk][i%chunk] }

// slots returns how many nodes it can hold before it has to grow, node 0 included.
func (t *table) slots() int { return len(t.nodes) * chunk }

// room returns how many nodes can be added before it has to grow.
func (t *table) room() int { return max(0, t.slots()-1-t.live) }

// growth returns the bytes that it grows by.
func (t *table) growth() int {
	return int(unsafe.Sizeof([chunk]node{})) + t.newBuckets()*int(unsafe.Sizeof([bucketChunk]bucket{}))
}

// newBuckets returns how many chunks of buckets it needs with the next chunk of nodes.
func (t *table) newBuckets() int {
	if (t.slots()+chunk)/nodesToBucket < len(t.buckets)*bucketChunk {
		return 0
	}
	return 1
}

func (t *table) grow() {
	if t.newBuckets() > 0 {
		t.buckets = append(t.buckets, new([bucketChunk]bucket))
	}
	t.nodes = append(t.nodes, new([chunk]node))
}

// place returns the bucket of a hash, and its tag there.
func (t *table) place(hash uint64) (b *bucket, tag uint8) {
	n, tag := t.number(hash)
	return t.bucket(n), tag
}

func (t *table) bucket(n uint32) *bucket { return &t.buckets[n/bucketChunk][n%bucketChunk] }

func (t *table) number(hash uint64) (bucket uint32, tag uint8) {
	high, low := bits.Mul64(hash, t.seed)
	mix := high ^ low
	bucket = uint32(mix) & t.mask
	beyond := uint32((int64(t.split) - 1 - int64(bucket)) >> 63) // all ones if there is no such bucket; no branch can guess it
	bucket &= t.mask>>1 | ^beyond
	return bucket, max(1, uint8(mix>>56))
}

// find returns the node of hash, 0 if there is none.
func (t *table) find(hash uint64) uint32 {
	if t.live == 0 {
		return 0
	}
	b, tag := t.place(hash)
	want := digestOf(hash)
	for i := range b.tags {
		if b.tags[i] == tag && t.at(b.nodes[i]).hash == want {
			return b.nodes[i]
		}
	}
	i := b.over
	for i != 0 && t.at(i).hash != want {
		i = t.at(i).next
	}
	return i
}

// warm brings what insert and remove will read for these hashes nearer to the processor, and returns something of it. In a
// large table each read is a miss; here, where none waits for another, the misses overlap.
func (t *table) warm(hashes []uint64) (some uint32) {
	if t.live == 0 {
		return 0
	}
	for _, hash := range hashes {
		b, _ := t.place(hash)
		some ^= b.over
	}
	return some
}

// insert adds a node for hash, which must not be there; room must be at least 1.
func (t *table) insert(hash uint64) uint32 {
	i := t.free
	if i != 0 {
		t.free = t.at(i).next
	} else {
		i = t.used
		t.used++
		if t.used > t.split*nodesToBucket {
			t.addBucket()
		}
	}
	t.live++
	n := t.at(i)
	n.hash = digestOf(hash)
	n.first, n.count, n.use, n.last = 0, 0, 0, 0
	b, tag := t.place(hash)
	t.put(b, tag, i)
	return i
}

// put puts node i into a slot of b, or beside them if all are taken.
func (t *table) put(b *bucket, tag uint8, i uint32) {
	for j := range b.nodes {
		if b.nodes[j] == 0 {
			b.nodes[j], b.tags[j] = i, tag
			return
		}
	}
	t.at(i).next, b.over = b.over, i
}

// addBucket adds a bucket and puts into it what belongs there, all from one other.
func (t *table) addBucket() {
	if t.split > t.mask {
		t.mask = t.mask<<1 | 1
	}
	from := t.bucket(t.split & (t.mask >> 1))
	t.split++
	old := *from
	*from = bucket{}
	for _, i := range old.nodes {
		t.putBack(i)
	}
	for i := old.over; i != 0; {
		next := t.at(i).next
		t.putBack(i)
		i = next
	}
}

func (t *table) putBack(i uint32) {
	if i != 0 {
		b, tag := t.place(t.at(i).hash.hash())
		t.put(b, tag, i)
	}
}

// remove takes node i out of the table.
func (t *table) remove(i uint32) {
	n := t.at(i)
	b, _ := t.place(n.hash.hash())
	if j := b.slot(i); j < slots {
		t.fill(b, j)
	} else {
		link := &b.over
		for *link != i {
			link = &t.at(*link).next
		}
		*link = n.next
	}
	n.next, t.free = t.free, i
	t.live--
}

// slot returns the slot of node i, or slots if it has none.
func (b *bucket) slot(i uint32) int {
	for j := range b.nodes {
		if b.nodes[j] == i {
			return j
		}
	}
	return slots
}

// fill frees slot j, or gives it to a node that has none.
func (t *table) fill(b *bucket, j int) {
	i := b.over
	if i == 0 {
		b.nodes[j], b.tags[j] = 0, 0
		return
	}
	n := t.at(i)
	_, tag := t.number(n.hash.hash())
	b.nodes[j], b.tags[j], b.over = i, tag, n.next
}
