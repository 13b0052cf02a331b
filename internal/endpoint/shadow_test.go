package endpoint

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warmpath/warmpath/internal/recording"
)

// Copies are treated as the endpoint's requests, but for what would cost or count among its clients.
func TestShadeKeepsTheRest(t *testing.T) {
	e := &Endpoint{
		Name: "chat", Models: []string{"m"}, Aliases: map[string]string{"a": "m"}, Strict: true, NameOnly: true, Timeouts: Timeouts{Total: time.Hour},
		InjectUsage: true, InvocationsPath: "/x", MaxAttempts: 3, Budget: NewBudget(0.2, time.Now), Variants: []*Variant{{Name: "main"}},
		Recorder: &recording.Recorder{},
	}
	budget := e.Budget
	e.Shade(&Variant{Name: "s"}, 0.5, NewRoom(1))
	e.Shade(&Variant{Name: "t"}, 1, NewRoom(1))
	for i, name := range []string{"s", "t"} {
		as, own := *e.Shadows[i].As, *e
		if as.Recorder != nil || as.MaxAttempts != 1 || as.Budget == budget || as.Budget.Retry() || len(as.Shadows) != 0 || len(as.Variants) != 1 || e.Shadows[i].Variant().Name != name {
			t.Errorf("%s sees %+v", name, as)
		}
		if diff := cmp.Diff(own, as, cmpopts.IgnoreFields(Endpoint{}, "Recorder", "MaxAttempts", "Budget", "Shadows", "Variants")); diff != "" {
			t.Errorf("%s (-endpoint +as the copies see it):\n%s", name, diff)
		}
	}
	if e.Budget != budget || e.Pick(0.9).Name != "main" || e.Variant("s") != nil || len(e.AllVariants()) != 3 {
		t.Errorf("the endpoint has changed for its clients: %+v", e)
	}
}

func TestRoom(t *testing.T) {
	r := NewRoom(10)
	for _, c := range []struct {
		take int64
		want bool
	}{{11, false}, {10, true}, {1, false}, {0, true}} {
		if got := r.Take(c.take); got != c.want {
			t.Errorf("Take(%d) = %v, want %v", c.take, got, c.want)
		}
	}
	r.Leave(4)
	if r.Take(5) || !r.Take(4) {
		t.Error("what was left is not free, or more is")
	}
}

func TestRoomIsNeverExceeded(t *testing.T) {
	r := NewRoom(3)
	var inside, most atomic.Int64
	var running sync.WaitGroup
	for range 8 {
		running.Go(func() {
			for range 1000 {
				if !r.Take(1) {
					continue
				}
				if n := inside.Add(1); n > 3 {
					most.Store(n)
				}
				inside.Add(-1)
				r.Leave(1)
			}
		})
	}
	running.Wait()
	if n := most.Load(); n > 0 || !r.Take(3) {
		t.Errorf("%d in room for 3, or not all of it came back", n)
	}
}
