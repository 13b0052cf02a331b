package endpoint

import (
	"testing"
	"time"
)

func TestBudget(t *testing.T) {
	now := time.Unix(1000, 0)
	b := NewBudget(0.2, func() time.Time { return now })
	spend := func() (n int) {
		for b.Retry() {
			n++
		}
		return n
	}
	if got := spend(); got != budgetFloor {
		t.Errorf("a quiet endpoint may retry %d times, want %d", got, budgetFloor)
	}
	for range 100 {
		b.Request()
	}
	if got := spend(); got != 20 {
		t.Errorf("100 requests allow %d retries more, want 20", got)
	}
	now = now.Add(9 * time.Second)
	if got := spend(); got != 0 {
		t.Errorf("after 9 s: %d", got)
	}
	now = now.Add(time.Second)
	if got := spend(); got != budgetFloor {
		t.Errorf("after 10 s all is forgotten: %d, want %d", got, budgetFloor)
	}
	now = now.Add(time.Hour)
	if got := spend(); got != budgetFloor {
		t.Errorf("after an hour: %d, want %d", got, budgetFloor)
	}
	if none := NewBudget(0, time.Now); none.Retry() || none.Share() != 0 {
		t.Error("a share of 0 allows a retry")
	}
}
