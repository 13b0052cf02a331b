package routing

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/kvindex"
)

// TestKVAwareLivesBesideChurn runs whole lives of requests while the fleet changes and others look on. Each worker uses the memory
// of a chain again once its request has ended, so that the race detector sees who still reads it.
func TestKVAwareLivesBesideChurn(t *testing.T) {
	for _, o := range []Options{{}, {WholePrompts: true}} {
		r := newRig(t, 6, o)
		var workers, others sync.WaitGroup
		for worker := range uint64(8) {
			workers.Go(func() { r.live(worker, 150) })
		}
		done := make(chan struct{})
		until := func(act func()) {
			others.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
						act()
					}
				}
			})
		}
		rng := newRand(99)
		until(func() {
			targets := make([]fleet.Target, 1+rng.IntN(7))
			for i := range targets {
				targets[i].URL = fmt.Sprintf("http://10.0.0.%d:8000", rng.IntN(8))
			}
			r.f.Apply(targets)
			for _, each := range r.replicas() {
				r.f.SetHealth(each, rng.IntN(4) > 0)
				each.SetSignals(fleet.Signals{CacheTokens: 1000 + rng.Int64N(10_000)})
				if rng.IntN(8) == 0 {
					each.MarkLost()
				}
			}
		})
		until(func() { r.s.Learned() })
		workers.Wait()
		close(done)
		others.Wait()
		r.f.Apply(nil)
		r.rank(document(1, 1))
		if n := len(r.s.known); n > 0 {
			t.Errorf("%d replicas are known after all have left and all requests have ended", n)
		}
	}
}

// live sends n requests, up to three at a time.
func (r *rig) live(worker uint64, n int) {
	rng := newRand(worker)
	mine := &rig{TB: r.TB, f: r.f, s: r.s, now: r.now, rng: rng}
	memory := make([][]uint64, 3)
	open := make([]*exchange, 3)
	for i := range n {
		mine.pass(time.Duration(rng.IntN(100)) * time.Millisecond)
		if x := open[i%3]; x != nil && x.lease != nil {
			if x.query.Streamed && rng.IntN(4) > 0 {
				x.firstToken()
			}
			x.end(Outcome{Answered: rng.IntN(4) > 0, PromptTokens: 640, OutputTokens: 10, CachedTokens: rng.IntN(640), CachedKnown: rng.IntN(2) > 0})
		}
		c := document(rng.Uint64N(30), 1+rng.IntN(20))
		memory[i%3] = append(memory[i%3][:0], c.Blocks...)
		c.Blocks = memory[i%3]
		open[i%3] = mine.place(Query{Chain: c, Streamed: rng.IntN(2) > 0})
	}
	for _, x := range open {
		if x.lease != nil {
			x.fail()
		}
	}
}

// TestKVAwareHoldsItsBudgetForADay sends prompts that nobody has sent before, through 24 hours, to an index that holds a few
// hundred of them.
func TestKVAwareHoldsItsBudgetForADay(t *testing.T) {
	for _, o := range []Options{{}, {WholePrompts: true}} {
		const budget = 1 << 18
		r := newRig(t, 4, o)
		r.s.index = kvindex.New(budget)
		held := make([]int, 24)
		id := uint64(0)
		for hour := range held {
			for range 100 {
				id++
				x := r.send(document(id, 20))
				r.pass(time.Hour / 100)
				x.answer()
				if got := r.s.index.Bytes(); got > budget {
					t.Fatalf("hour %d: the index takes %d bytes, want %d at most", hour, got, budget)
				}
			}
			held[hour] = r.s.index.Pairs()
		}
		if least, most := slices.Min(held[12:]), slices.Max(held[12:]); least < most*95/100 || least < budget/64/2 {
			t.Errorf("%d to %d blocks are held at the end of an hour, want about as many each hour, and %d at least", least, most, budget/64/2)
		}
		for _, b := range r.s.known {
			if b.holder.Len() == 0 || len(b.blind) > 0 {
				t.Errorf("%s holds %d blocks and waits for %d flights", b.replica.ID(), b.holder.Len(), len(b.blind))
			}
		}
	}
}

func TestKVAwareAllocatesItsFlightsOnly(t *testing.T) {
	for _, o := range []Options{{}, {WholePrompts: true}} {
		for _, streamed := range []bool{true, false} {
			r := newRig(t, 8, o)
			r.publish(4000, 16)
			out := make([]Candidate, 0, 8)
			v := r.f.View()
			q := Query{Chain: document(1, 10), Streamed: streamed, Limit: 1}
			request := func() {
				for i := range q.Chain.Blocks {
					q.Chain.Blocks[i] = r.rng.Uint64()
				}
				r.pass(time.Second)
				q.Now, q.Random = r.now, r.rng.Uint64()
				out = r.s.Rank(&q, v, out[:0])
				f := r.s.Began(&q, &out[0])
				f.Ended(Outcome{At: r.now, Answered: true, Streamed: streamed, PromptTokens: 640, OutputTokens: 9, CachedTokens: 0, CachedKnown: true})
			}
			for range 200 {
				request() // fills the caches
			}
			if n := testing.AllocsPerRun(200, request); n != 1 {
				t.Errorf("%+v, streamed %t: %v allocations a request, want 1", o, streamed, n)
			}
		}
	}
}

// BenchmarkKVAwareDecision places prompts of 12,000 tokens, half of which are a document that several replicas hold, and tells
// how long single decisions take.
func BenchmarkKVAwareDecision(b *testing.B) {
	for _, replicas := range []int{8, 64, 1000} {
		b.Run(fmt.Sprintf("replicas=%d", replicas), func(b *testing.B) {
			r := newRig(b, replicas, Options{})
			r.publish(400_000, 16)
			preamble := text(1, 8)
			prompts := make([][]uint64, 64)
			for id := range prompts {
				prompts[id] = chain(preamble, text(uint64(2+id), 180)).Blocks
			}
			r.rank(document(1, 1))
			for _, each := range r.replicas() {
				for range 10 {
					held := chain(preamble, text(2+r.rng.Uint64N(64), 86), text(r.rng.Uint64(), 94))
					r.s.known[each].holder.Use(held.Blocks, 0, r.s.fade)
				}
			}
			out, v := make([]Candidate, 0, 1), r.f.View()
			var took []time.Duration
			q := Query{Chain: document(1, 188), Streamed: true, Limit: 1, Now: r.now}
			b.ReportAllocs()
			for b.Loop() {
				copy(q.Chain.Blocks, prompts[r.rng.IntN(len(prompts))])
				for i := 94; i < 188; i++ {
					q.Chain.Blocks[i] = r.rng.Uint64()
				}
				q.Random, q.Now = r.rng.Uint64(), q.Now.Add(10*time.Millisecond)
				began := time.Now()
				out = r.s.Rank(&q, v, out[:0])
				f := r.s.Began(&q, &out[0])
				took = append(took, time.Since(began))
				f.FirstToken(q.Now)
				f.Ended(Outcome{At: q.Now, Answered: true, Streamed: true, PromptTokens: 12_000, OutputTokens: 100})
			}
			slices.Sort(took)
			for name, share := range map[string]float64{"p50-µs": 0.5, "p99-µs": 0.99} {
				b.ReportMetric(float64(took[int(share*float64(len(took)-1))])/1e3, name)
			}
		})
	}
}
