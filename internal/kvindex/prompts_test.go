package kvindex

import "testing"

// A slot of llama.cpp has its prompt to itself: a request that shares it gets another slot, and computes it anew.
func TestWholePromptsInFlightAreNobodyElses(t *testing.T) {
	x := New(1 << 20)
	h, shared := x.Add(Whole, 100), x.Add(Shared, 100)
	chain := []uint64{1, 2, 3, 4}
	var m Matches
	want := func(when string, free, inFlight, held int) {
		t.Helper()
		x.Match(chain, &m)
		if m.Of(h) != free || h.InFlight(chain) != inFlight || h.Len() != held {
			t.Errorf("%s: match %d, in flight %d, holds %d blocks; want %d, %d, %d", when, m.Of(h), h.InFlight(chain), h.Len(), free, inFlight, held)
		}
		if m.Of(shared) != 4 || shared.InFlight(chain) != 0 {
			t.Errorf("%s: shared blocks: match %d, in flight %d; want 4 and 0", when, m.Of(shared), shared.InFlight(chain))
		}
	}
	shared.Use(chain, 0, decay)
	first := h.Use([]uint64{1, 2, 3, 5}, 0, decay)
	want("one in flight", 0, 3, 4)
	second := h.Use(chain, 1, decay)
	want("two in flight", 0, 4, 8)
	h.Close(first)
	want("the first has ended", 3, 4, 8)
	h.Close(second)
	want("both have ended", 4, 0, 8)
}

// What counts is how much of the old prompt is left: a long one that has only its beginning in common stays beside the new one.
func TestWholePromptsReplaceWhatTheyKeepHalfOf(t *testing.T) {
	old := []uint64{1, 2, 3, 4, 5, 6}
	for _, tt := range []struct {
		name  string
		chain []uint64
		want  int // blocks held afterwards
	}{
		{"a continuation", []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, 14},
		{"half of the old one in a long one", []uint64{1, 2, 3, 7, 8, 9, 10, 11, 12}, 9},
		{"less than half of it, though most of the new one", []uint64{1, 2, 7}, 9},
	} {
		h := New(1<<20).Add(Whole, 100)
		h.Close(h.Use(old, 0, decay))
		h.Close(h.Use(tt.chain, 1, decay))
		if got := h.Len(); got != tt.want {
			t.Errorf("%s: holds %d blocks, want %d", tt.name, got, tt.want)
		}
	}
}
