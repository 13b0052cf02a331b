package simulate

import (
	"cmp"
	"container/heap"
	"time"
)

// moment is a point in virtual time at which something happens.
type moment struct {
	at    time.Duration
	kind  kind
	index int // of the change or the replica
	life  int // of the replica whose step ends: that of a process which has died is void
}

type kind uint8

// What happens at a moment, in the order of equal times.
const (
	fleetChange kind = iota
	stepEnd
	arrival
)

// agenda gives the moments to come in order of time. Its order is total, so that a simulation repeats.
type agenda struct {
	moments moments
	work    int // moments that are no changes: without any, no change matters any more
}

func (a *agenda) add(m moment) {
	if m.kind != fleetChange {
		a.work++
	}
	heap.Push(&a.moments, m)
}

// next takes the earliest moment. It reports false when no work is left.
func (a *agenda) next() (moment, bool) {
	if a.work == 0 {
		return moment{}, false
	}
	m := heap.Pop(&a.moments).(moment)
	if m.kind != fleetChange {
		a.work--
	}
	return m, true
}

// moments is a heap.Interface.
type moments []moment

func (m moments) Len() int { return len(m) }

func (m moments) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(m[i].at, m[j].at), cmp.Compare(m[i].kind, m[j].kind), cmp.Compare(m[i].index, m[j].index),
		cmp.Compare(m[i].life, m[j].life)) < 0
}

func (m moments) Swap(i, j int) { m[i], m[j] = m[j], m[i] }

// Push implements heap.Interface.
func (m *moments) Push(x any) { *m = append(*m, x.(moment)) }

// Pop implements heap.Interface.
func (m *moments) Pop() any {
	last := len(*m) - 1
	x := (*m)[last]
	*m = (*m)[:last]
	return x
}
