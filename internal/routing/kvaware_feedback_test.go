package routing

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/prompt"
)

// blockTokens is what a block of the index is to the engines here.
const blockTokens = prompt.BlockBytes / 4

// engine is a cache that counts as real ones do: the least recently used block goes first, or the least recently used prompt.
type engine struct {
	whole    bool
	capacity int        // blocks
	entries  [][]uint64 // most recently used first: single blocks, or prompts
}

// serve returns how many leading blocks of a prompt were there, and keeps all of it.
func (e *engine) serve(chain []uint64) (cached int) {
	if e.whole {
		return e.servePrompt(chain)
	}
	for cached < len(chain) && slices.ContainsFunc(e.entries, func(b []uint64) bool { return b[0] == chain[cached] }) {
		cached++
	}
	e.keep(chain)
	return cached
}

// keep makes the blocks the most recently used.
func (e *engine) keep(chain []uint64) {
	used := make(map[uint64]bool, len(chain))
	kept := make([][]uint64, 0, len(chain)+len(e.entries))
	for i, hash := range chain {
		used[hash] = true
		kept = append(kept, chain[i:i+1])
	}
	for _, b := range e.entries {
		if !used[b[0]] {
			kept = append(kept, b)
		}
	}
	e.entries = kept[:min(len(kept), e.capacity)]
}

func (e *engine) servePrompt(chain []uint64) (cached int) {
	nearest := -1
	for i, p := range e.entries {
		if n := leading(p, chain); n > cached {
			cached, nearest = n, i
		}
	}
	if 2*cached >= len(chain) && nearest >= 0 {
		e.entries = slices.Delete(e.entries, nearest, nearest+1)
	}
	e.entries = slices.Insert(e.entries, 0, chain)
	for size := 0; ; size = 0 {
		for _, p := range e.entries {
			size += len(p)
		}
		if size <= e.capacity {
			return cached
		}
		e.entries = e.entries[:len(e.entries)-1]
	}
}

// engines serve what a rig sends.
type engines struct {
	*rig
	of    map[*fleet.Replica]*engine
	queue []func() // answers to come, oldest first
}

func newEngines(r *rig, capacity int) *engines {
	e := &engines{rig: r, of: map[*fleet.Replica]*engine{}}
	for _, each := range r.replicas() {
		e.of[each] = &engine{whole: r.s.whole, capacity: capacity}
	}
	return e
}

// request sends a prompt, and lets the request before the last n that are open end with its report.
func (e *engines) request(c prompt.Chain, n int) *exchange {
	x := e.send(c)
	cached := e.of[x.Replica].serve(c.Blocks)
	e.queue = append(e.queue, func() {
		x.firstToken()
		x.end(Outcome{
			Answered: true, PromptTokens: len(c.Blocks) * blockTokens, OutputTokens: 20,
			CachedTokens: min(cached*blockTokens, len(c.Blocks)*blockTokens-1), CachedKnown: true,
		})
	})
	e.pass(50 * time.Millisecond)
	for len(e.queue) > n {
		e.queue[0]()
		e.queue = e.queue[1:]
	}
	return x
}

func (e *engines) capacity(r *fleet.Replica) int { return e.s.known[r].holder.Capacity() }

// TestKVAwareLearnsTheCapacity begins with a belief that is three times too large, right, and three times too small. Documents
// are used so that the cache is too small for them: only then does its size matter.
func TestKVAwareLearnsTheCapacity(t *testing.T) {
	const truth = 400
	for _, whole := range []bool{false, true} {
		for _, believed := range []int64{3 * truth, truth, truth / 3} {
			for _, open := range []int{0, 6} {
				t.Run(fmt.Sprintf("whole %t, believed %d, %d open", whole, believed, open), func(t *testing.T) {
					r := newRig(t, 2, Options{WholePrompts: whole})
					r.publish(believed*blockTokens, 16)
					e := newEngines(r, truth)
					for range 700 {
						e.request(chain(text(r.rng.Uint64N(60), 20), text(r.rng.Uint64(), 1)), open)
					}
					for _, each := range r.replicas() {
						if got := e.capacity(each); got < truth*2/3 || got > truth*3/2 {
							t.Errorf("%s: believed %d blocks after 700 requests, want about %d", each.ID(), got, truth)
						}
					}
				})
			}
		}
	}
}

// TestKVAwareChatsDoNotInflateTheCapacity serves chats whose engine also caches what it has generated: it always finds more than
// was sent there before.
func TestKVAwareChatsDoNotInflateTheCapacity(t *testing.T) {
	const truth = 600
	r := newRig(t, 2, Options{})
	r.publish(truth*blockTokens, 16)
	e := newEngines(r, truth)
	turns := make([][]uint64, 24)
	for id := range turns {
		turns[id] = text(uint64(id), 10)
	}
	for range 1000 {
		id := r.rng.IntN(len(turns))
		if len(turns[id]) > 60 {
			turns[id] = text(r.rng.Uint64(), 10)
		}
		c := chain(turns[id])
		x := r.send(c)
		engine := e.of[x.Replica]
		cached := engine.serve(c.Blocks)
		answer := int(min(20, r.rng.ExpFloat64()*4)) // blocks
		turns[id] = slices.Concat(turns[id], text(r.rng.Uint64(), answer))
		engine.keep(chain(turns[id]).Blocks)
		turns[id] = slices.Concat(turns[id], text(r.rng.Uint64(), 2))
		r.pass(time.Second)
		x.firstToken()
		x.end(Outcome{
			Answered: true, PromptTokens: len(c.Blocks) * blockTokens, OutputTokens: answer * blockTokens,
			CachedTokens: cached * blockTokens, CachedKnown: true,
		})
	}
	for _, each := range r.replicas() {
		if got := e.capacity(each); got < truth/2 || got > truth*3/2 {
			t.Errorf("%s: believed %d blocks, want about %d", each.ID(), got, truth)
		}
	}
}

// TestKVAwareTakesOneMissForChance among whole prompts: llama.cpp may drop one to fill a slot that has never had any.
func TestKVAwareTakesOneMissForChance(t *testing.T) {
	for _, whole := range []bool{false, true} {
		r := newRig(t, 1, Options{WholePrompts: whole})
		on := r.s.known[r.rank(document(0, 20))[0].Replica]
		for id := range uint64(4) {
			r.send(document(id, 20)).answer()
		}
		answer := func(id uint64, cached int) {
			x := r.send(document(id, 20))
			x.firstToken()
			x.end(Outcome{Answered: true, PromptTokens: 20 * blockTokens, CachedTokens: cached, CachedKnown: true, OutputTokens: 1})
		}
		answer(1, 0) // the third by last use
		if on.learned == whole {
			t.Errorf("whole %t: after a miss the capacity is %d", whole, on.holder.Capacity())
		}
		if !whole {
			continue
		}
		answer(2, 20*blockTokens-1) // as deep as that one was
		answer(0, 0)
		if on.learned {
			t.Errorf("two misses with a find as deep between them: the capacity is %d", on.holder.Capacity())
		}
		answer(0, 20*blockTokens-1) // less deep
		answer(3, 0)
		if !on.learned {
			t.Errorf("two misses with nothing found as deep between them: the capacity is still %d", on.holder.Capacity())
		}
	}
}

// TestKVAwareNoticesARestart empties an engine behind an address that never refused a connection.
func TestKVAwareNoticesARestart(t *testing.T) {
	for _, o := range []Options{{}, {WholePrompts: true}} {
		for _, open := range []int{0, 1, 8} {
			t.Run(fmt.Sprintf("whole %t, %d open", o.WholePrompts, open), func(t *testing.T) {
				r := newRig(t, 1, o)
				r.publish(2000*blockTokens, 16)
				e := newEngines(r, 2000)
				only := r.replicas()[0]
				any := func() prompt.Chain { return document(r.rng.Uint64N(30), 40) }
				for range 200 {
					e.request(any(), open)
				}
				capacity := e.capacity(only)
				e.of[only].entries = nil
				wrong := 0
				for range 100 {
					c := any()
					missing := slices.IndexFunc(e.of[only].entries, func(b []uint64) bool { return b[0] == c.Blocks[0] }) < 0
					if e.request(c, open).Cost.HitTokens > 0 && missing {
						wrong++
					}
				}
				if wrong == 0 || wrong > 10+open {
					t.Errorf("%d hits were predicted in vain after the restart, want 1 to %d", wrong, 10+open)
				}
				if got := e.capacity(only); got != capacity {
					t.Errorf("believed %d blocks after the restart, want %d as before", got, capacity)
				}
				if got := r.s.known[only].restarts; got != 1 {
					t.Errorf("%d restarts are noticed, want 1", got)
				}
				unknown := 0
				for id := range uint64(30) {
					if e.request(document(id, 40), 0).Cost.HitTokens == 0 {
						unknown++
					}
				}
				if unknown > 5 {
					t.Errorf("%d of 30 documents, which the engine holds again, are believed to be gone", unknown)
				}
			})
		}
	}
}

// TestKVAwareTakesNoMissesForARestart serves an engine whose cache is much smaller than believed: most of what is predicted is
// not there, but something is.
func TestKVAwareTakesNoMissesForARestart(t *testing.T) {
	r := newRig(t, 1, Options{})
	e := newEngines(r, 300)
	only := r.replicas()[0]
	for range 600 {
		e.request(chain(text(1, 20), text(2+r.rng.Uint64N(100), 40)), 0)
	}
	if got := e.capacity(only); math.Abs(float64(got)-300) > 100 {
		t.Errorf("believed %d blocks, want about 300", got)
	}
}

func TestKVAwareBelievesWhatEnginesPublishUntilReportsSayOtherwise(t *testing.T) {
	r := newRig(t, 1, Options{})
	b := func() *belief { return r.s.known[r.replicas()[0]] }
	r.send(document(1, 40)).answer()
	if got := b().holder.Capacity(); got != firstCapacity/blockTokens {
		t.Errorf("unknown: %d blocks are believed, want %d", got, firstCapacity/blockTokens)
	}
	r.publish(6400, 16)
	r.send(document(1, 40)).answer()
	if got := b().holder.Capacity(); got != 100 {
		t.Errorf("published: %d blocks are believed, want 100", got)
	}
	r.send(document(2, 40)).answer()
	r.send(document(3, 40)).answer()
	x := r.send(document(1, 40)) // evicted, as is believed
	x.firstToken()
	x.end(Outcome{Answered: true, PromptTokens: 2560, OutputTokens: 1, CachedTokens: 2559, CachedKnown: true})
	want := b().holder.Capacity()
	if want <= 100 {
		t.Errorf("after an unexpected hit: %d blocks are believed, want more than 100", want)
	}
	r.send(document(2, 40)).answer()
	if got := b().holder.Capacity(); got != want {
		t.Errorf("learned: %d blocks are believed, want %d, whatever is published", got, want)
	}
}

func TestKVAwareAllowsForTheBlocksOfTheEngine(t *testing.T) {
	tests := []struct {
		name   string
		block  int64 // tokens
		cached int   // of 2,560
		moves  bool
	}{
		{"all but the last token", 16, 2559, false},
		{"all but two blocks of the index", 16, 2432, false},
		{"a third", 16, 800, true},
		{"all but a large block of the engine", 1024, 1536, false},
		{"nothing, of large blocks", 1024, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 1, Options{})
			r.publish(64_000, tt.block)
			r.send(document(1, 40)).answer()
			before := r.s.known[r.replicas()[0]].holder.Capacity()
			x := r.send(document(1, 40))
			x.firstToken()
			x.end(Outcome{Answered: true, PromptTokens: 2560, OutputTokens: 1, CachedTokens: tt.cached, CachedKnown: true})
			if got := r.s.known[r.replicas()[0]].holder.Capacity(); (got != before) != tt.moves {
				t.Errorf("the capacity went from %d to %d blocks", before, got)
			}
		})
	}
}

// TestKVAwareMeetsWarmEngines begins before engines that have served others: they hold what nobody here has sent.
func TestKVAwareMeetsWarmEngines(t *testing.T) {
	r := newRig(t, 2, Options{})
	r.publish(800*blockTokens, 16)
	e := newEngines(r, 800)
	for id := range uint64(19) {
		for _, engine := range e.of {
			engine.serve(document(id, 40).Blocks)
		}
	}
	for range 300 {
		e.request(document(r.rng.Uint64N(19), 40), 2)
	}
	for _, each := range r.replicas() {
		if got := e.capacity(each); got != 800 {
			t.Errorf("%s: believed %d blocks, want 800 as published", each.ID(), got)
		}
	}
}
