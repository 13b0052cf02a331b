package kvindex

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestBudgetHolds plays histories that do not fit the budget.
func TestBudgetHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := New(rapid.IntRange(0, 300_000).Draw(t, "budget"))
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var holders [4]*Holder
		for i := range holders {
			holders[i] = x.Add(Kind(i%2), rapid.IntRange(1, 8000).Draw(t, "capacity"))
		}
		known := fresh(r, 1000)
		for now := range uint32(rapid.IntRange(1, 60).Draw(t, "uses")) {
			h := holders[r.IntN(len(holders))]
			chain := slices.Concat(known[:r.IntN(1000)], fresh(r, r.IntN(1000)))
			v := h.Use(chain, now, decay)
			h.Close(v)
			if err := x.check(); err != nil {
				t.Fatalf("after use %d: %v", now, err)
			}
			var m Matches
			if x.Match(chain, &m); m.Of(h) != int(v.stored) {
				t.Fatalf("holds %d blocks of a chain just used, want %d", m.Of(h), v.stored)
			}
			if r.IntN(8) == 0 {
				h.Forget()
			}
		}
	})
}

func TestBudgetTakesTheLeastRecentlyUsed(t *testing.T) {
	for _, kind := range []Kind{Shared, Whole} {
		r := rand.New(rand.NewPCG(1, 2))
		x := New(80_000) // 1,023 shared blocks, or some 9,700 blocks of whole prompts
		a, b := x.Add(kind, 1<<20), x.Add(kind, 1<<20)
		n := 400
		if kind == Whole {
			n = 4000
		}
		old, recent, fill := fresh(r, n), fresh(r, n), fresh(r, n)
		a.Use(old, math.MaxUint32-5, decay) // time wraps
		b.Close(b.Use(recent, 10, decay))
		b.Close(b.Use(fill, 20, decay))
		var m Matches
		if x.Match(old, &m); m.Of(a) == n {
			t.Errorf("kind %d: the oldest chain is still whole", kind)
		}
		for _, chain := range [][]uint64{recent, fill} {
			if x.Match(chain, &m); m.Of(b) != n {
				t.Errorf("kind %d: %d blocks left of a newer chain, want %d", kind, m.Of(b), n)
			}
		}
	}
}

func TestChainsBeyondTheBudgetKeepTheirHead(t *testing.T) {
	for _, kind := range []Kind{Shared, Whole} {
		r := rand.New(rand.NewPCG(1, 2))
		x := New(100_000)
		h := x.Add(kind, 1<<20)
		chain := fresh(r, 50_000)
		h.Use(fresh(r, 500), 1, decay)
		h.Close(h.Use(chain, 2, decay))
		var m Matches
		x.Match(chain, &m)
		if got := m.Of(h); got < 1000 || got >= 50_000 || got != h.Len() {
			t.Errorf("kind %d: holds %d blocks of the chain, %d in all", kind, got, h.Len())
		}
	}
}

// TestBytesPerPair compares what an index says it takes with what the runtime says, for blocks that nobody shares.
func TestBytesPerPair(t *testing.T) {
	heap := func() int {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	r := rand.New(rand.NewPCG(1, 2))
	before := heap()
	x := New(1 << 30)
	var holders [8]*Holder
	for i := range holders {
		holders[i] = x.Add(Shared, 1<<20)
	}
	for i := range 800 {
		holders[i%8].Use(fresh(r, 300), uint32(i), decay)
	}
	grown, pairs := heap()-before, x.Pairs()
	t.Logf("%d pairs: %.1f bytes each by its own count, %.1f by the runtime's", pairs, float64(x.Bytes())/float64(pairs), float64(grown)/float64(pairs))
	if pairs != 240_000 || x.Bytes() > 64*pairs || grown > 64*pairs {
		t.Errorf("%d pairs take %d bytes, the heap grew by %d; want at most 64 a pair", pairs, x.Bytes(), grown)
	}
	if off := math.Abs(float64(grown-x.Bytes())) / float64(grown); off > 0.02 {
		t.Errorf("Bytes() = %d, the heap grew by %d", x.Bytes(), grown)
	}
	runtime.KeepAlive(x)
}

func TestNothingIsAllocatedInSteadyState(t *testing.T) {
	for _, kind := range []Kind{Shared, Whole} {
		r := rand.New(rand.NewPCG(1, 2))
		x := New(1 << 20)
		h := x.Add(kind, 2000)
		chain := fresh(r, 100)
		var m Matches
		now := uint32(0)
		allocs := func() float64 {
			return testing.AllocsPerRun(200, func() {
				now++
				for i := range chain {
					chain[i] += 1 << 32
				}
				h.Close(h.Use(chain, now, decay))
				x.Match(chain, &m)
				h.Depth(chain, 50)
				x.Rate(chain, 50, now, decay)
				h.Tail(now, decay)
			})
		}
		allocs() // fills it
		if got := allocs(); got > 0 {
			t.Errorf("kind %d: %v allocations a request", kind, got)
		}
	}
}

// TestDepthOfManyVisits makes more visits than a log tells apart.
func TestDepthOfManyVisits(t *testing.T) {
	const n = 4 * maxSpans
	r := rand.New(rand.NewPCG(1, 2))
	h := New(64<<20).Add(Shared, n)
	chain, visits := fresh(r, n), [n]Visit{}
	for i := range chain {
		visits[i] = h.Use(chain[i:i+1], uint32(i), decay)
	}
	for i := 0; i < n; i += 7 {
		want := n - i
		got, open := h.Depth(chain[i:i+1], 1)
		if got < want || got > min(n, 2*want+2) || !open {
			t.Fatalf("Depth of visit %d = %d, %v, want %d or somewhat more, true", i, got, open, want)
		}
		if want < maxSpans/4 && got != want {
			t.Fatalf("Depth of visit %d = %d, want %d: it is recent", i, got, want)
		}
	}
	for _, v := range visits {
		h.Close(v)
	}
	for _, s := range h.cache.(*blocks).log.spans {
		if s.open != 0 {
			t.Fatalf("%d of visits %d to %d are still open", s.open, s.first, s.last)
		}
	}
}

func TestAShrunkenCacheGivesWayLittleByLittle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := New(64 << 20)
	h := x.Add(Shared, 10_000)
	chain := fresh(r, 10_000)
	h.Use(chain, 1, decay)
	h.SetCapacity(3)
	var m Matches
	for want := 10_000 - maxSurplus; h.Len() > h.Capacity(); want = max(want-maxSurplus, 3) {
		if x.Match(chain, &m); m.Of(h) != want || h.Len() != want {
			t.Fatalf("matches %d, holds %d, want %d", m.Of(h), h.Len(), want)
		}
		h.Use(chain, 2, decay)
		if h.Len() >= want && want > 3 {
			t.Fatalf("holds %d after another use, want less than %d", h.Len(), want)
		}
	}
	if x.Match(chain, &m); m.Of(h) != 3 {
		t.Errorf("matches %d in the end, want 3", m.Of(h))
	}
}

func TestForgottenBlocksAreGivenBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := New(64 << 20)
	a, b := x.Add(Shared, 10_000), x.Add(Shared, 10_000)
	chain := fresh(r, 5000)
	a.Use(chain, 1, decay)
	b.Use(chain[:10], 1, decay)
	stale := a.Use(chain, 1, decay)
	a.Forget()
	var m Matches
	if x.Match(chain, &m); m.Of(a) != 0 || m.Of(b) != 10 || m.Longest() != 10 || x.Pairs() != 10 {
		t.Errorf("matches %d and %d, longest %d, %d pairs, want 0, 10, 10, 10", m.Of(a), m.Of(b), m.Longest(), x.Pairs())
	}
	x.Remove(b)
	a.Undo(chain, stale)
	for range 100 {
		a.Use(chain[:1], 2, decay)
	}
	if x.pairs.live != 1 || x.nodes.live != 1 || len(x.graves) != 0 {
		t.Errorf("%d pairs, %d nodes and %d graves are left, want 1, 1, 0", x.pairs.live, x.nodes.live, len(x.graves))
	}
	if err := x.check(); err != nil {
		t.Error(err)
	}
}

func TestVisitNumbersWrap(t *testing.T) {
	x := New(1 << 20)
	h := x.Add(Shared, 10)
	chain := chainOf(1, 2, 3)
	h.Use(chain, 1, decay)
	h.visits = math.MaxUint32 - 1
	for i := range 3 {
		v := h.Use(chain, 2, decay)
		if depth, open := h.Depth(chain, 3); depth != 3 || !open {
			t.Errorf("use %d: Depth = %d, %v, want 3, true", i, depth, open)
		}
		h.Close(v)
	}
	if err := x.check(); err != nil {
		t.Error(err)
	}
}

func TestWholePromptsAreFew(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	h := New(64<<20).Add(Whole, 1<<20)
	first := fresh(r, 2)
	for now := range uint32(maxPrompts + 20) {
		h.Use(first, now, decay)
		h.Use(fresh(r, 2), now, decay)
	}
	if got := h.Len(); got != 2*maxPrompts {
		t.Errorf("holds %d blocks of prompts of two, want %d", got, 2*maxPrompts)
	}
	if depth, _ := h.Depth(first, 2); depth != 4 {
		t.Errorf("the prompt used before the last lies at depth %d, want 4", depth)
	}
}

// TestADayOfNewChainsMakesNothingLonger counts what look-ups walk along, after a first while and after very many chains.
func TestADayOfNewChainsMakesNothingLonger(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := New(1 << 18)
	x.nodes.seed = r.Uint64() | 1
	var holders [4]*Holder
	for i := range holders {
		holders[i] = x.Add(Shared, 1<<20)
	}
	longest := func() (beside int) {
		for n := range x.nodes.split {
			walk := 0
			for i := x.nodes.bucket(n).over; i != 0; i = x.nodes.at(i).next {
				walk++
			}
			beside = max(beside, walk)
		}
		return beside
	}
	for now := range uint32(20_000) {
		h := holders[r.IntN(len(holders))]
		h.Close(h.Use(fresh(r, 20), now, decay))
		if now%100 != 0 || now < 1000 {
			continue
		}
		if n := longest(); n > 24 { // buckets that are yet to be split have 20 nodes, 29 at times
			t.Fatalf("use %d: %d nodes of one bucket have no slot", now, n)
		}
		for i, h := range holders {
			if n := len(h.cache.(*blocks).log.spans); n > 4096/20*4 {
				t.Fatalf("use %d: holder %d tells %d visits apart, of which at most %d can have a block", now, i, n, 4096/20)
			}
		}
	}
}
