package emulator

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// played runs prompts one after the other, each to its end, on an engine of whole prompts, and gives what each found cached.
func played(t *testing.T, slots, store int, chains ...[]uint64) (cached []int) {
	t.Helper()
	core := newTestCore(t, Config{BlockSize: 1, Blocks: store, MaxRunning: slots, Whole: true, Cost: flat})
	for _, chain := range chains {
		r := &Request{Chain: chain, PromptTokens: len(chain), OutputTokens: 1}
		submit(t, core, r)
		drain(core, 0)
		cached = append(cached, r.Cached())
	}
	return cached
}

// after is a chain that shares the first n blocks of another, and has own others.
func after(chain []uint64, n, document, own int) []uint64 {
	return append(append([]uint64{}, chain[:n]...), blocks(document, own)...)
}

// What is expected is what a real server of 2026 did with prompts of ten times the length.
func TestWholePromptsAreKeptAsLlamaCppKeepsThem(t *testing.T) {
	a, b, c := blocks(1, 100), blocks(2, 100), blocks(3, 100)
	for _, tt := range []struct {
		name         string
		slots, store int
		chains       [][]uint64
		want         []int
	}{
		{"a prompt that is given up comes in before another is taken out", 1, 100, [][]uint64{a, b, a, b}, []int{0, 0, 0, 0}},
		{"one slot and a store of three", 1, 300, [][]uint64{a, b, c, a, b, c}, []int{0, 0, 0, 99, 99, 99}},
		{"the oldest leaves the store first", 1, 300, [][]uint64{a, b, c, blocks(4, 100), b, a}, []int{0, 0, 0, 0, 99, 0}},
		{"two slots", 2, 1, [][]uint64{a, b, a, b}, []int{0, 0, 99, 99}},
		{"a continuation stays in its slot", 1, 1, [][]uint64{a, after(a, 100, 9, 100), after(a, 100, 9, 100)}, []int{0, 100, 199}},
		{"what shares less than half takes the slot, though another is empty, and the store keeps the old one", 2, 200,
			[][]uint64{a, after(a, 15, 9, 85), a}, []int{0, 15, 99}},
		{"what shares more than half overwrites it", 2, 100, [][]uint64{a, after(a, 60, 9, 40), a}, []int{0, 60, 60}},
		{"a slot that keeps half asks no store for more", 1, 200,
			[][]uint64{after(a, 40, 7, 160), blocks(8, 20), after(a, 40, 9, 10), after(a, 40, 7, 160)}, []int{0, 0, 0, 40}},
		{"a stored prompt of which less than a quarter is wanted stays", 1, 200, [][]uint64{a, b, after(a, 20, 9, 10), b}, []int{0, 0, 0, 99}},
	} {
		if diff := cmp.Diff(tt.want, played(t, tt.slots, tt.store, tt.chains...)); diff != "" {
			t.Errorf("%s: cached (-want +got):\n%s", tt.name, diff)
		}
	}
}

// The follower of a cold prompt pays in full, on the other slot: nobody waits for what another slot computes.
func TestWholePromptsAreNotShared(t *testing.T) {
	core := newTestCore(t, Config{BlockSize: 1, MaxRunning: 2, Whole: true, Cost: flat})
	var requests []*Request
	for range 3 {
		requests = append(requests, &Request{Chain: blocks(1, 100), PromptTokens: 100, OutputTokens: 1})
	}
	submit(t, core, requests...)
	ends := drain(core, 0)
	for i, want := range []ending{{Cached: 0, First: 200 * time.Millisecond}, {Cached: 0, First: 200 * time.Millisecond}, {Cached: 99, First: 201 * time.Millisecond}} {
		got := ends[requests[i]]
		near(t, "first token", got.First, want.First)
		if got.Cached != want.Cached {
			t.Errorf("request %d: got %d cached tokens, want %d", i+1, got.Cached, want.Cached)
		}
	}
}

// A slot that has never had a prompt takes one out of the store, though most of it is of no use there: four servers did so in every run.
func TestWholePromptsFillASlotThatNeverHadOne(t *testing.T) {
	for share, want := range map[int]struct{ found, left int }{30: {30, 30}, 20: {0, 99}} {
		core := newTestCore(t, Config{BlockSize: 1, Blocks: 300, MaxRunning: 2, Whole: true, Cost: flat})
		stored := blocks(1, 100)
		ask := func(chains ...[]uint64) (cached []int) {
			var requests []*Request
			for _, chain := range chains {
				requests = append(requests, &Request{Chain: chain, PromptTokens: len(chain), OutputTokens: 1})
			}
			submit(t, core, requests...)
			drain(core, 0)
			for _, r := range requests {
				cached = append(cached, r.Cached())
			}
			return cached
		}
		ask(stored)
		second := after(stored, 15, 2, 85)
		ask(second) // in the same slot, so that the first goes to the store
		got := ask(after(second, 100, 3, 10), after(stored, share, 4, 100))
		if got[1] != want.found {
			t.Errorf("%d blocks in common: the slot that was never used found %d, want %d", share, got[1], want.found)
		}
		if got := ask(stored)[0]; got != want.left {
			t.Errorf("%d blocks in common: the stored prompt found %d of itself afterwards, want %d", share, got, want.left)
		}
	}
}

func TestWholePromptsLeaveWithACancelledRequest(t *testing.T) {
	core := newTestCore(t, Config{BlockSize: 1, MaxRunning: 1, Budget: 40, Whole: true, Cost: flat})
	first, second := &Request{Chain: blocks(1, 100), PromptTokens: 100, OutputTokens: 1}, &Request{Chain: blocks(1, 100), PromptTokens: 100, OutputTokens: 1}
	submit(t, core, first, second)
	end, _ := core.Begin(0)
	core.Finish(nil)
	core.Cancel(first)
	drain(core, end)
	if got := second.Cached(); got != 40 {
		t.Errorf("got %d cached tokens, want the 40 that had been computed", got)
	}
	core.ResetCache()
	third := &Request{Chain: blocks(1, 100), PromptTokens: 100, OutputTokens: 1}
	submit(t, core, third)
	drain(core, end)
	if got := third.Cached(); got != 0 {
		t.Errorf("after a reset: got %d cached tokens, want 0", got)
	}
}
