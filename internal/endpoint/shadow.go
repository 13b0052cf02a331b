package endpoint

import (
	"slices"
	"sync/atomic"
	"time"
)

// Shadow is a variant that gets copies of an endpoint's requests.
type Shadow struct {
	Share float64 // of the endpoint's requests, 0 to 1
	// As is the endpoint as the copies see it: with the shadow as its only variant, without retries, and not recorded.
	As *Endpoint
	// Room is for copies under way.
	Room *Room
}

// Shade adds a shadow variant to the endpoint, which must have all its other settings by then.
func (e *Endpoint) Shade(v *Variant, share float64, room *Room) {
	as := *e
	as.Variants, as.Shadows, as.MaxAttempts, as.Recorder = []*Variant{v}, nil, 1, nil
	as.Budget = NewBudget(0, time.Now)
	e.Shadows = append(e.Shadows, &Shadow{Share: share, As: &as, Room: room})
}

// AllVariants lists the variants, then the shadows.
func (e *Endpoint) AllVariants() []*Variant {
	all := slices.Clip(e.Variants)
	for _, s := range e.Shadows {
		all = append(all, s.Variant())
	}
	return all
}

// Variant is the shadow itself.
func (s *Shadow) Variant() *Variant { return s.As.Variants[0] }

// Room is a bound on something that many share, of which nobody waits for a part.
type Room struct {
	most int64
	used atomic.Int64
}

// NewRoom makes room for most units.
func NewRoom(most int64) *Room { return &Room{most: most} }

// Take takes n units if they are free, and says whether they were.
func (r *Room) Take(n int64) bool {
	for {
		used := r.used.Load()
		if n > r.most-used {
			return false
		}
		if r.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// Leave gives n units back.
func (r *Room) Leave(n int64) { r.used.Add(-n) }
