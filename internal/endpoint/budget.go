package endpoint

import (
	"sync"
	"time"
)

const (
	budgetSeconds = 10 // what "recent" means
	budgetFloor   = 20 // retries in that time that are always allowed, so that a quiet endpoint can retry at all
)

// Budget bounds retries to a share of recent requests, so that a fleet in trouble is not sent a multiple of its load.
type Budget struct {
	share float64
	now   func() time.Time

	mu      sync.Mutex
	buckets [budgetSeconds]bucket
}

type bucket struct {
	second   int64
	requests int
	retries  int
}

// NewBudget allows retries for a share of the requests of the last 10 s, in [0, 1], and 20 on top. now is the clock.
func NewBudget(share float64, now func() time.Time) *Budget {
	return &Budget{share: share, now: now}
}

// Request counts a request.
func (b *Budget) Request() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current().requests++
}

// Retry counts a retry if the budget has room for it, and says whether it has.
func (b *Budget) Retry() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.current()
	requests, retries := 0, 0
	for _, past := range b.buckets {
		if now.second-past.second < budgetSeconds {
			requests += past.requests
			retries += past.retries
		}
	}
	if b.share <= 0 || float64(retries) >= budgetFloor+b.share*float64(requests) {
		return false
	}
	now.retries++
	return true
}

func (b *Budget) current() *bucket {
	second := b.now().Unix()
	c := &b.buckets[second%budgetSeconds]
	if c.second != second {
		*c = bucket{second: second}
	}
	return c
}

// Share is the share of requests that may be retries.
func (b *Budget) Share() float64 { return b.share }
