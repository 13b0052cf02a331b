package emulator

// queue is the first-in-first-out line of waiting requests. Cancelled ones are skipped when they reach the head, which
// keeps cancellation O(1); len counts the others.
type queue struct {
	items []*Request
	head  int
	len   int
}

func (q *queue) push(r *Request) {
	if q.head > 64 && q.head*2 > len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, r)
	q.len++
}

// peek returns the first request that is still waiting, or nil.
func (q *queue) peek() *Request {
	for q.head < len(q.items) {
		if r := q.items[q.head]; r.state == waiting {
			return r
		}
		q.items[q.head] = nil
		q.head++
	}
	return nil
}

// pop removes the request that peek returned.
func (q *queue) pop() {
	q.items[q.head] = nil
	q.head++
	q.len--
}
