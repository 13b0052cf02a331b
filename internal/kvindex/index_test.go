package kvindex

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

const decay = 1000.0

// chainOf makes a chain of symbols: as with real chains, each hash covers all symbols before it.
func chainOf(symbols ...byte) []uint64 {
	chain := make([]uint64, len(symbols))
	hash := uint64(14695981039346656037)
	for i, s := range symbols {
		hash = (hash ^ uint64(s+1)) * 1099511628211
		hash ^= hash >> 29
		chain[i] = hash
	}
	return chain
}

// twins are an index and its model.
type twins struct {
	index   *Index
	holders []*Holder
	model   *model
	now     uint32
	matches Matches
	visits  []dispatched
}

type dispatched struct {
	holder *Holder
	chain  []uint64
	v      Visit
}

func newTwins(budget int) *twins {
	return &twins{index: New(budget), model: newModel(), now: math.MaxUint32 - 5000}
}

func (w *twins) add(kind Kind, capacity int) {
	w.holders = append(w.holders, w.index.Add(kind, capacity))
	w.model.add(kind, capacity)
}

func (w *twins) remove(i int) {
	w.index.Remove(w.holders[i])
	w.visits = slices.DeleteFunc(w.visits, func(d dispatched) bool { return d.holder == w.holders[i] })
	w.holders = slices.Delete(w.holders, i, i+1)
	w.model.remove(i)
}

func (w *twins) forget(i int) {
	w.holders[i].Forget()
	w.model.forget(i)
}

func (w *twins) resize(i, capacity int) {
	w.holders[i].SetCapacity(capacity)
	w.model.setCapacity(i, capacity)
}

func (w *twins) use(i int, chain []uint64) error {
	v := w.holders[i].Use(chain, w.now, decay)
	if want := w.model.use(i, chain, w.now, decay); v != want {
		return fmt.Errorf("Use(%x) = %+v, want %+v", chain, v, want)
	}
	w.visits = append(w.visits, dispatched{w.holders[i], chain, v})
	return nil
}

// end ends visit j: it fails, or not.
func (w *twins) end(j int, failed bool) {
	d := w.visits[j]
	w.visits = slices.Delete(w.visits, j, j+1)
	i := slices.Index(w.holders, d.holder)
	if failed {
		d.holder.Undo(d.chain, d.v)
		w.model.undo(i, d.chain, d.v)
		return
	}
	d.holder.Close(d.v)
	w.model.close(i, d.v)
}

// compare asks both all that can be asked about a chain.
func (w *twins) compare(chain []uint64) error {
	w.index.Match(chain, &w.matches)
	longest, pairs := 0, 0
	for i, h := range w.holders {
		want := w.model.holders[i].match(chain)
		longest, pairs = max(longest, want), pairs+h.Len()
		if got := w.matches.Of(h); got != want {
			return fmt.Errorf("replica %d: match = %d, want %d", i, got, want)
		}
		if got, want := w.matches.Place(h), w.model.holders[i].replaced(chain); got != want {
			return fmt.Errorf("replica %d: the chain takes the place of %d blocks, want %d", i, got, want)
		}
		if got, want := h.Len(), w.model.holders[i].len(); got != want || got > h.Capacity() {
			return fmt.Errorf("replica %d: Len() = %d, want %d of %d", i, got, want, h.Capacity())
		}
		for k := 1; k <= want; k++ {
			got, open := h.Depth(chain, k)
			if want, still := w.model.depth(i, chain, k); got != want || open != still {
				return fmt.Errorf("replica %d: Depth(%d) = %d, %v, want %d, %v", i, k, got, open, want, still)
			}
		}
		age, use, ok := h.Tail(w.now, decay)
		wantAge, wantUse, wantOK := w.model.tail(i, w.now, decay)
		if age != wantAge || ok != wantOK || !near(use, wantUse) {
			return fmt.Errorf("replica %d: Tail() = %d, %v, %v, want %d, %v, %v", i, age, use, ok, wantAge, wantUse, wantOK)
		}
	}
	if got := w.matches.Longest(); got != longest {
		return fmt.Errorf("longest match = %d, want %d", got, longest)
	}
	if got := w.index.Pairs(); got != pairs {
		return fmt.Errorf("Pairs() = %d, want %d", got, pairs)
	}
	for k := 1; k <= len(chain); k++ {
		if got, want := w.index.Rate(chain, k, w.now, decay), w.model.rate(chain, k, w.now, decay); len(w.index.graves) == 0 && !near(got, want) {
			return fmt.Errorf("Rate(%d) = %v, want %v", k, got, want)
		}
	}
	return nil
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-4*max(1e-2, math.Abs(b)) }

// Random histories are played on an index and on its model, and all their answers compared.
func TestIndexIsItsModel(t *testing.T) { rapid.Check(t, play) }

func FuzzIndexIsItsModel(f *testing.F) { f.Fuzz(rapid.MakeFuzz(play)) }

// play is one history.
func play(t *rapid.T) {
	w := newTwins(1 << 20)
	chains := rapid.Custom(func(t *rapid.T) []uint64 {
		return chainOf(rapid.SliceOfN(rapid.ByteRange(0, 2), 0, 8).Draw(t, "symbols")...)
	})
	some := func(do func(t *rapid.T, i int)) func(*rapid.T) { // does it to one of the replicas
		return func(t *rapid.T) {
			if n := len(w.holders); n > 0 {
				do(t, rapid.IntRange(0, n-1).Draw(t, "replica"))
			}
		}
	}
	end := func(t *rapid.T, failed bool) {
		if n := len(w.visits); n > 0 {
			w.end(rapid.IntRange(0, n-1).Draw(t, "visit"), failed)
		}
	}
	use := some(func(t *rapid.T, i int) {
		if err := w.use(i, chains.Draw(t, "chain")); err != nil {
			t.Fatal(err)
		}
	})
	t.Repeat(map[string]func(*rapid.T){
		"add": func(t *rapid.T) {
			w.add(Kind(rapid.IntRange(0, 1).Draw(t, "kind")), rapid.IntRange(1, 20).Draw(t, "capacity"))
		},
		"remove":    some(func(_ *rapid.T, i int) { w.remove(i) }),
		"use":       use,
		"use again": use,
		"use more":  use,
		"close":     func(t *rapid.T) { end(t, false) },
		"undo":      func(t *rapid.T) { end(t, true) },
		"forget":    some(func(_ *rapid.T, i int) { w.forget(i) }),
		"resize": some(func(t *rapid.T, i int) {
			w.resize(i, rapid.IntRange(1, 20).Draw(t, "capacity"))
		}),
		"wait": func(t *rapid.T) { w.now += rapid.Uint32Range(0, 3000).Draw(t, "ms") },
		"": func(t *rapid.T) {
			if err := w.compare(chains.Draw(t, "chain")); err != nil {
				t.Fatal(err)
			}
			if err := w.index.check(); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// check looks for damage inside an index.
func (x *Index) check() error {
	if limit := max(x.budget, x.base()); x.bytes > limit {
		return fmt.Errorf("%d bytes, budget %d", x.bytes, limit)
	}
	live := 0
	for id, c := range x.owners {
		if c == nil {
			continue
		}
		if err := c.check(uint32(id)); err != nil {
			return fmt.Errorf("cache %d: %w", id, err)
		}
		live += c.size
	}
	if live != x.pairs.live {
		return fmt.Errorf("%d pairs in caches, %d in all", live, x.pairs.live)
	}
	return x.checkNodes()
}

// base is what the index takes for replicas that hold nothing.
func (x *Index) base() int { return holderBytes * (len(x.holders[Shared]) + len(x.holders[Whole])) }

func (c *blocks) check(id uint32) error {
	size, newer := 0, uint32(0)
	live := map[int]int{}
	for p := c.newest; p != 0; p = c.index.pairs.at(p).older {
		got := c.index.pairs.at(p)
		if got.owner != id || got.newer != newer {
			return fmt.Errorf("pair %d: owner %d, newer %d, want %d, %d", p, got.owner, got.newer, id, newer)
		}
		newer = p
		size++
		live[c.log.find(got.visit)]++
	}
	if newer != c.oldest || size != c.size {
		return fmt.Errorf("%d pairs up to %d, want %d up to %d", size, newer, c.size, c.oldest)
	}
	if c.dead {
		return nil
	}
	for i, s := range c.log.spans {
		if int(s.live) != live[i] {
			return fmt.Errorf("visit %d has %d blocks, want %d", s.first, s.live, live[i])
		}
	}
	return nil
}

func (x *Index) checkNodes() error {
	nodes, pairs := 0, 0
	for n := uint32(1); n < x.nodes.used; n++ {
		node, count := x.nodes.at(n), uint32(0)
		if node.count == 0 {
			continue
		}
		for p := node.first; p != 0; p = x.pairs.at(p).sibling {
			count++
		}
		if count != node.count {
			return fmt.Errorf("node %d has %d pairs, want %d", n, count, node.count)
		}
		nodes++
		pairs += int(count)
		if got := x.nodes.find(node.hash.hash()); got != n {
			return fmt.Errorf("node %d is found as %d", n, got)
		}
	}
	if nodes != x.nodes.live || pairs != x.pairs.live {
		return fmt.Errorf("%d nodes, %d pairs, want %d, %d", nodes, pairs, x.nodes.live, x.pairs.live)
	}
	return nil
}
