// Package session remembers which replica keeps each stateful session of SageMaker's runtime API, for as long as the session lasts.
package session

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

// Limit is how many sessions a Table holds, of all endpoints together: 50 MB of them at most.
const Limit = 100_000

// Pin says where a session is kept, and until when.
type Pin struct {
	// Variant is the label of the endpoint's variant, or inference component, that the session was opened in.
	Variant string
	Replica *fleet.Replica
	// Life ends with the engine process that keeps the session: it is the replica's Lost as it was when the session was opened.
	Life    context.Context
	Expires time.Time
}

// Gone says that nobody keeps the session any more: its replica was removed, or its engine's process was lost.
func (p *Pin) Gone() bool { return p.Life.Err() != nil }

// End is how a session ended, as a metric label.
type End string

// The ways in which a session ends. One whose replica is gone stays until it expires, so that all who ask are told.
const (
	Closed    End = "closed"    // by its engine
	Expired   End = "expired"   // its time was over
	Displaced End = "displaced" // by a new one: the table was full, and no other would have expired sooner
	Forgotten End = "forgotten" // its endpoint was removed
)

// Options are what a Table is made of.
type Options struct {
	// Now is the clock.
	Now func() time.Time
	// Limit is how many sessions there may be, 1 or more.
	Limit int
	// Ended is told of every session that ends. It is called with the table's lock held and must not call it back.
	Ended func(endpoint string, how End)
}

// Table holds the pins of the sessions of all endpoints. Expired ones are dropped as others are asked for, each at the cost of a step
// in a heap. All methods may be called from many goroutines.
type Table struct {
	o Options

	mu     sync.Mutex
	byID   map[string]map[string]*entry // endpoint, session id; no empty maps
	queue  queue
	opened uint64
}

// NewTable makes an empty Table. All options are required.
func NewTable(o Options) *Table { return &Table{o: o, byID: map[string]map[string]*entry{}} }

// Open pins a session, in place of a pin of the same id, and says whether there was none. In a full table it displaces the session that
// would expire first: a new session without a pin would be of no use at all, one that is about to end is likely to be over.
func (t *Table) Open(endpoint, id string, pin Pin) (opened bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	t.opened++
	if e := t.byID[endpoint][id]; e != nil {
		e.pin, e.order = pin, t.opened
		heap.Fix(&t.queue, e.place)
		return false
	}
	for len(t.queue) >= t.o.Limit {
		t.drop(t.queue[0], Displaced)
	}
	if t.byID[endpoint] == nil {
		t.byID[endpoint] = map[string]*entry{}
	}
	e := &entry{endpoint: endpoint, id: id, pin: pin, order: t.opened}
	t.byID[endpoint][id] = e
	heap.Push(&t.queue, e)
	return true
}

// Find gives the pin of a session, unless the session was never opened here, or has ended.
func (t *Table) Find(endpoint, id string) (Pin, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	e := t.byID[endpoint][id]
	if e == nil {
		return Pin{}, false
	}
	return e.pin, true
}

// Close ends a session, if there is one.
func (t *Table) Close(endpoint, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	if e := t.byID[endpoint][id]; e != nil {
		t.drop(e, Closed)
	}
}

// Retain ends the sessions of the endpoints that are not to be kept.
func (t *Table) Retain(keep func(endpoint string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	for endpoint, entries := range t.byID {
		if keep(endpoint) {
			continue
		}
		for _, e := range entries {
			t.drop(e, Forgotten)
		}
	}
}

// Count is the number of an endpoint's sessions.
func (t *Table) Count(endpoint string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire()
	return len(t.byID[endpoint])
}

// expire drops the sessions whose time is over.
func (t *Table) expire() {
	for now := t.o.Now(); len(t.queue) > 0 && !now.Before(t.queue[0].pin.Expires); {
		t.drop(t.queue[0], Expired)
	}
}

func (t *Table) drop(e *entry, how End) {
	heap.Remove(&t.queue, e.place)
	delete(t.byID[e.endpoint], e.id)
	if len(t.byID[e.endpoint]) == 0 {
		delete(t.byID, e.endpoint)
	}
	t.o.Ended(e.endpoint, how)
}

// entry is one session.
type entry struct {
	endpoint, id string
	pin          Pin
	order        uint64 // of opening, which decides between those that expire at once
	place        int    // in the queue
}

// queue is a heap.Interface with the session that expires first in front.
type queue []*entry

// Len is that of heap.Interface.
func (q queue) Len() int { return len(q) }

// Less is that of heap.Interface.
func (q queue) Less(i, j int) bool {
	if a, b := q[i].pin.Expires, q[j].pin.Expires; !a.Equal(b) {
		return a.Before(b)
	}
	return q[i].order < q[j].order
}

// Swap is that of heap.Interface.
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push is that of heap.Interface.
func (q *queue) Push(x any) {
	e := x.(*entry)
	e.place = len(*q)
	*q = append(*q, e)
}

// Pop is that of heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}
