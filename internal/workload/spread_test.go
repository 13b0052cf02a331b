package workload

import (
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fixed is a workload of the times given.
type fixed []time.Duration

func (w fixed) Requests() iter.Seq[Request] {
	return func(yield func(Request) bool) {
		for _, at := range w {
			if !yield(Request{At: at}) {
				return
			}
		}
	}
}
func (w fixed) Err() error   { return nil }
func (w fixed) Name() string { return "fixed" }
func (w fixed) Len() int     { return len(w) }

func TestSpread(t *testing.T) {
	steps := fixed{0, 0, 0, 0, 3, 3, 3, 9, 9, 9, 9, 9}
	for i := range steps {
		steps[i] *= time.Second
	}
	w := Spread(steps, 4*time.Second, 1)
	got := slices.Collect(w.Requests())
	if n, known := Len(w); !known || n != len(steps) || len(got) != n {
		t.Fatalf("Len = %d, known %v; got %d requests of %d", n, known, len(got), len(steps))
	}
	windows := map[time.Duration]time.Duration{0: 3 * time.Second, 3 * time.Second: 4 * time.Second, 9 * time.Second: 4 * time.Second}
	for i, r := range got {
		if offset := r.At - steps[i]; offset <= 0 || offset >= windows[steps[i]] {
			t.Errorf("request %d moved from %v to %v", i, steps[i], r.At)
		}
		if i > 0 && r.At < got[i-1].At {
			t.Errorf("request %d is before the one before it", i)
		}
	}
	if diff := cmp.Diff(got, slices.Collect(w.Requests())); diff != "" {
		t.Errorf("a second iteration differs:\n%s", diff)
	}
	if other := slices.Collect(Spread(steps, time.Second, 2).Requests()); cmp.Equal(other, slices.Collect(Spread(steps, time.Second, 1).Requests())) {
		t.Error("another seed gives the same times")
	}
	for range w.Requests() {
		break
	}
}
