package emulator

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// flat makes every prompt token cost a millisecond and everything else next to nothing.
var flat = Cost{T0: 1e-6, P: 1}

func newTestCore(t testing.TB, c Config) *Core {
	t.Helper()
	core, err := NewCore(c)
	if err != nil {
		t.Fatalf("NewCore(%+v): %v", c, err)
	}
	return core
}

// blocks makes the chain of a document: n blocks that share nothing with other documents.
func blocks(document, n int) []uint64 {
	chain := make([]uint64, n)
	for i := range chain {
		chain[i] = mix(uint64(document)<<32 + uint64(i))
	}
	return chain
}

// ending is when a request got its first token and ended, and what it hit.
type ending struct {
	First, End time.Duration
	Cached     int
}

// drain runs the core until it is idle.
func drain(core *Core, now time.Duration) map[*Request]ending {
	ends := make(map[*Request]ending)
	for {
		end, ok := core.Begin(now)
		if !ok {
			return ends
		}
		now = end
		for _, e := range core.Finish(nil) {
			at := ends[e.Request]
			if e.Generated <= 1 {
				at.First, at.Cached = now, e.Request.Cached()
			}
			if e.Finished {
				at.End = now
			}
			ends[e.Request] = at
		}
	}
}

func submit(t testing.TB, core *Core, requests ...*Request) {
	t.Helper()
	for _, r := range requests {
		if err := core.Submit(r); err != nil {
			t.Fatalf("Submit(%d+%d tokens): %v", r.PromptTokens, r.OutputTokens, err)
		}
	}
}

func near(t *testing.T, what string, got, want time.Duration) {
	t.Helper()
	if math.Abs(float64(got-want)) > float64(time.Millisecond)/2 {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestStepTimeFollowsCostModel(t *testing.T) {
	core := newTestCore(t, Config{Cost: Cost70B})
	r := &Request{PromptTokens: 1000, OutputTokens: 3}
	submit(t, core, r)
	got := drain(core, 0)[r]
	first := 12 + 0.08*1000 + 1.6e-6*1000*500
	last := first + 2*12 + (0.06 + 1.5e-5*1000) + (0.06 + 1.5e-5*1001)
	want := ending{First: milliseconds(first), End: milliseconds(last)}
	near(t, "first token", got.First, want.First)
	near(t, "end", got.End, want.End)
}

func TestColdPromptsContend(t *testing.T) {
	alone := newTestCore(t, Config{Cost: flat, Budget: 512})
	one := &Request{PromptTokens: 4096, OutputTokens: 1}
	submit(t, alone, one)
	single := drain(alone, 0)[one].End

	both := newTestCore(t, Config{Cost: flat, Budget: 512})
	a, b := &Request{PromptTokens: 4096, OutputTokens: 1}, &Request{PromptTokens: 4096, OutputTokens: 1}
	submit(t, both, a, b)
	ends := drain(both, 0)
	near(t, "the first of two", ends[a].End, single)
	near(t, "the second of two", ends[b].End, 2*single)
}

func TestHitsLeaveOneTokenToCompute(t *testing.T) {
	for _, tt := range []struct {
		name         string
		prompt, want int
	}{
		{"within the first block", 10, 0},
		{"one full block", 16, 0},
		{"one token more", 17, 16},
		{"k full blocks hit k-1", 64, 48},
		{"k blocks and a tail", 70, 64},
	} {
		t.Run(tt.name, func(t *testing.T) {
			core := newTestCore(t, Config{})
			chain := blocks(1, tt.prompt/16)
			cold := &Request{Chain: chain, PromptTokens: tt.prompt, OutputTokens: 1}
			warm := &Request{Chain: chain, PromptTokens: tt.prompt, OutputTokens: 1}
			submit(t, core, cold)
			if got := drain(core, 0)[cold].Cached; got != 0 {
				t.Errorf("cold: got %d cached tokens, want 0", got)
			}
			submit(t, core, warm)
			if got := drain(core, 0)[warm].Cached; got != tt.want {
				t.Errorf("repeated: got %d cached tokens, want %d", got, tt.want)
			}
		})
	}
}

func TestFollowersWaitForTheLeader(t *testing.T) {
	core := newTestCore(t, Config{Cost: flat, Budget: 256})
	chain := blocks(1, 64)
	leader := &Request{Chain: chain, PromptTokens: 1030, OutputTokens: 1}
	follower := &Request{Chain: chain, PromptTokens: 1040, OutputTokens: 1}
	stranger := &Request{PromptTokens: 256, OutputTokens: 1}
	submit(t, core, leader, follower, stranger)
	ends := drain(core, 0)
	near(t, "leader", ends[leader].End-ends[leader].First, 0)
	if got := ends[follower].Cached; got != 1024 {
		t.Errorf("follower: got %d cached tokens, want the leader's 1024", got)
	}
	near(t, "all work", max(ends[follower].End, ends[stranger].End), 1030*time.Millisecond+16*time.Millisecond+256*time.Millisecond)
}

func TestFollowerTakesOverFromCancelledLeader(t *testing.T) {
	core := newTestCore(t, Config{Cost: flat, Budget: 256})
	chain := blocks(1, 64)
	leader := &Request{Chain: chain, PromptTokens: 1030, OutputTokens: 1}
	follower := &Request{Chain: chain, PromptTokens: 1030, OutputTokens: 1}
	submit(t, core, leader, follower)
	core.Begin(0)
	core.Finish(nil)
	core.Cancel(leader)
	got := drain(core, 0)[follower]
	if got.Cached != 256 {
		t.Errorf("got %d cached tokens, want the 256 the leader had computed", got.Cached)
	}
	near(t, "the rest", got.End, (1030-256)*time.Millisecond)
}

func TestGeneratedTokensEnterTheCache(t *testing.T) {
	core := newTestCore(t, Config{})
	chain := blocks(1, 10)
	turn1 := &Request{Chain: chain[:4], PromptTokens: 40, OutputTokens: 30}
	turn2 := &Request{Chain: chain, PromptTokens: 160, OutputTokens: 1}
	submit(t, core, turn1)
	drain(core, 0)
	submit(t, core, turn2)
	// 70 tokens, of which the last was never fed back: 69 in the cache, 4 full blocks.
	if got := drain(core, 0)[turn2].Cached; got != 64 {
		t.Errorf("got %d cached tokens, want 64", got)
	}
}

func TestEvictionTakesTailsBeforeHeads(t *testing.T) {
	core := newTestCore(t, Config{Blocks: 12})
	document := blocks(1, 8)
	old := &Request{Chain: document, PromptTokens: 8*16 + 1}
	submit(t, core, old)
	drain(core, 0)
	other := &Request{Chain: blocks(2, 6), PromptTokens: 6 * 16}
	submit(t, core, other)
	drain(core, 0)
	again := &Request{Chain: document, PromptTokens: 8*16 + 1}
	submit(t, core, again)
	if got, want := drain(core, 0)[again].Cached, 6*16; got != want {
		t.Errorf("got %d cached tokens, want the head's %d", got, want)
	}
}

func TestSlotsAndRoomLimitAdmission(t *testing.T) {
	for _, tt := range []struct {
		name   string
		config Config
		want   int
	}{
		{"slots", Config{MaxRunning: 2, Blocks: 1000}, 2},
		{"room", Config{Blocks: 30}, 3}, // ten blocks each
		{"neither", Config{Blocks: 1000}, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			core := newTestCore(t, tt.config)
			for i := range 5 {
				submit(t, core, &Request{Chain: blocks(i, 8), PromptTokens: 130, OutputTokens: 30})
			}
			core.Begin(0)
			got := core.Load()
			if got.Running != tt.want || got.Waiting != 5-tt.want {
				t.Errorf("got %d running and %d waiting, want %d running", got.Running, got.Waiting, tt.want)
			}
			core.Finish(nil)
			if ends := drain(core, 0); len(ends) != 5 {
				t.Errorf("got %d ended, want all 5", len(ends))
			}
		})
	}
}

func TestCancelFreesAtOnce(t *testing.T) {
	core := newTestCore(t, Config{Blocks: 10})
	running := &Request{PromptTokens: 100, OutputTokens: 60}
	queued := &Request{PromptTokens: 100, OutputTokens: 60}
	submit(t, core, running, queued)
	core.Begin(0)
	core.Cancel(running)
	core.Cancel(running)
	if got := core.Load(); got.Running != 0 || got.Usage != 0 {
		t.Errorf("after cancel: got %+v, want nothing running", got)
	}
	if events := core.Finish(nil); len(events) != 0 {
		t.Errorf("got events %v of a cancelled request", events)
	}
	if ends := drain(core, 0); len(ends) != 1 || ends[queued].End == 0 {
		t.Errorf("got %v, want the queued request to end", ends)
	}
}

func TestSubmitRefuses(t *testing.T) {
	core := newTestCore(t, Config{Blocks: 4})
	if err := core.Submit(&Request{PromptTokens: 60, OutputTokens: 5}); !errors.Is(err, ErrTooLong) {
		t.Errorf("65 tokens into 64: got %v, want ErrTooLong", err)
	}
	if err := core.Submit(&Request{OutputTokens: 5}); err == nil {
		t.Error("no prompt: got no error")
	}
	r := &Request{PromptTokens: 60, OutputTokens: 4}
	submit(t, core, r)
	if err := core.Submit(r); err == nil {
		t.Error("twice: got no error")
	}
}

func TestNewCoreRefusesBadConfig(t *testing.T) {
	for _, c := range []Config{{BlockSize: -1}, {Blocks: -1}, {Budget: -1}, {MaxRunning: -1}, {Cost: Cost{P: 1}}} {
		if _, err := NewCore(c); err == nil {
			t.Errorf("NewCore(%+v): got no error", c)
		}
	}
}

// checkCache asserts what always holds of the cache.
func checkCache(t *rapid.T, core *Core) {
	c := core.cache
	if c.pinned+c.reserved+c.idle > c.capacity || c.pinned < 0 || c.reserved < 0 {
		t.Fatalf("pinned %d + reserved %d + idle %d exceed %d blocks", c.pinned, c.reserved, c.idle, c.capacity)
	}
	refs, reserved := make(map[*block]int), 0
	for _, r := range core.running {
		reserved += r.reserved
		for i, b := range r.shared {
			refs[b]++
			if c.blocks[r.Chain[i]] != b {
				t.Fatalf("a pinned block was evicted")
			}
		}
	}
	idle := 0
	for b := c.lru.next; b != &c.lru; b = b.next {
		idle++
	}
	if len(refs) != c.pinned || reserved != c.reserved || idle != c.idle || len(c.blocks) != c.pinned+c.idle {
		t.Fatalf("leak: %d referenced, %d reserved, %d in the ring, %d known; counted %d, %d, %d",
			len(refs), reserved, idle, len(c.blocks), c.pinned, c.reserved, c.idle)
	}
	for hash, b := range c.blocks {
		if b.refs != refs[b] || b.hash != hash || (b.refs == 0 && !b.computed) || (b.computed && b.owner != nil) {
			t.Fatalf("block %x: %+v, %d references", hash, *b, refs[b])
		}
	}
}

// checkPrefixes asserts that no cached block has outlived its predecessor.
func checkPrefixes(t *rapid.T, core *Core, requests []*Request) {
	for _, r := range requests {
		for i := 1; i < len(r.Chain); i++ {
			if core.cache.blocks[r.Chain[i]] != nil && core.cache.blocks[r.Chain[i-1]] == nil {
				t.Fatalf("block %d of a chain is cached, block %d is not", i, i-1)
			}
		}
	}
}

// drawRequest draws one of a few documents, cut at any length, so that prefixes are shared.
func drawRequest(t *rapid.T) *Request {
	prompt, output := rapid.IntRange(1, 60).Draw(t, "prompt"), rapid.IntRange(0, 20).Draw(t, "output")
	known := rapid.IntRange(0, (prompt+output)/4).Draw(t, "known")
	fork := rapid.IntRange(0, known).Draw(t, "fork")
	document, branch := rapid.IntRange(0, 1).Draw(t, "document"), rapid.IntRange(0, 2).Draw(t, "branch")
	return &Request{
		Chain:        append(blocks(document, fork), blocks(100+10*fork+branch+1000*document, known)[fork:]...),
		PromptTokens: prompt, OutputTokens: output,
	}
}

func TestCoreProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config := Config{
			BlockSize: 4, Blocks: rapid.IntRange(20, 40).Draw(t, "blocks"), Budget: rapid.IntRange(1, 64).Draw(t, "budget"),
			MaxRunning: rapid.IntRange(1, 6).Draw(t, "slots"), Cost: rapid.SampledFrom([]Cost{Cost8B, apart}).Draw(t, "cost"),
		}
		core, err := NewCore(config)
		if err != nil {
			t.Fatal(err)
		}
		live := make(map[*Request]bool)
		var order []*Request
		finish := func() {
			for _, e := range core.Finish(nil) {
				r := e.Request
				if !live[r] || e.Finished != (r.Generated() == r.OutputTokens) || r.Cached() >= r.PromptTokens || r.Cached()%4 != 0 {
					t.Fatalf("event %+v of %+v", e, *r)
				}
				if e.Finished {
					delete(live, r)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"submit": func(t *rapid.T) {
				r := drawRequest(t)
				if err := core.Submit(r); err != nil {
					t.Fatal(err)
				}
				live[r] = true
				order = append(order, r)
			},
			"cancel": func(t *rapid.T) {
				if len(order) > 0 {
					r := rapid.SampledFrom(order).Draw(t, "request")
					core.Cancel(r)
					delete(live, r)
				}
			},
			"cancel within a step": func(t *rapid.T) {
				core.Begin(0)
				if len(order) > 0 {
					r := rapid.SampledFrom(order).Draw(t, "request")
					core.Cancel(r)
					delete(live, r)
				}
				finish()
			},
			"reset": func(*rapid.T) {
				core.ResetCache()
				if core.cache.idle != 0 {
					t.Fatalf("%d blocks are idle after a reset", core.cache.idle)
				}
			},
			"step": func(t *rapid.T) {
				if end, ok := core.Begin(0); ok && end <= 0 {
					t.Fatal("a step took no time")
				}
				finish()
			},
			"": func(t *rapid.T) {
				checkCache(t, core)
				checkPrefixes(t, core, order)
			},
		})
		for range 10000 {
			if _, ok := core.Begin(0); !ok {
				break
			}
			finish()
		}
		if len(live) != 0 {
			t.Fatalf("%d requests never ended", len(live))
		}
		checkCache(t, core)
		if load := core.Load(); load.Usage != 0 || load.Running != 0 || load.Waiting != 0 {
			t.Fatalf("idle, but %+v", load)
		}
	})
}

func TestCoreIsDeterministic(t *testing.T) {
	run := func() []ending {
		core := newTestCore(t, Config{Blocks: 200, Budget: 128})
		var requests []*Request
		for i := range 60 {
			requests = append(requests, &Request{Chain: blocks(i%7, 20), PromptTokens: 325 + i, OutputTokens: i % 9})
		}
		submit(t, core, requests...)
		ends := drain(core, 0)
		out := make([]ending, len(requests))
		for i, r := range requests {
			out[i] = ends[r]
		}
		return out
	}
	if diff := cmp.Diff(run(), run()); diff != "" {
		t.Errorf("two equal runs differ:\n%s", diff)
	}
}

func TestEveryTokenIsComputedOrCached(t *testing.T) {
	core := newTestCore(t, Config{Cost: flat, Budget: 100, Blocks: 400})
	var requests []*Request
	for i := range 40 {
		requests = append(requests, &Request{Chain: blocks(i%3, 30), PromptTokens: 490, OutputTokens: 1})
	}
	submit(t, core, requests...)
	var end time.Duration
	cached := 0
	for _, e := range drain(core, 0) {
		end, cached = max(end, e.End), cached+e.Cached
	}
	near(t, "time", end, time.Duration(40*490-cached)*time.Millisecond)
	if cached == 0 {
		t.Error("got no cached tokens")
	}
}

func BenchmarkCoreSteps(b *testing.B) {
	b.Run("decode 64", func(b *testing.B) {
		core := newTestCore(b, Config{Blocks: 1 << 20})
		benchmarkSteps(b, core, 64, func(i int) *Request {
			return &Request{Chain: blocks(i, 64), PromptTokens: 1024, OutputTokens: 1 << 17}
		})
	})
	b.Run("prefill 128k into 2M tokens", func(b *testing.B) {
		core := newTestCore(b, Config{Blocks: 1 << 17})
		benchmarkSteps(b, core, 1, func(i int) *Request {
			return &Request{Chain: blocks(i, 8192), PromptTokens: 131072, OutputTokens: 1}
		})
	})
}

// benchmarkSteps keeps the core busy with groups of requests.
func benchmarkSteps(b *testing.B, core *Core, group int, next func(int) *Request) {
	var events []Event
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if _, ok := core.Begin(0); ok {
			events = core.Finish(events[:0])
			continue
		}
		for range group {
			i++
			submit(b, core, next(i))
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "steps/s")
}
