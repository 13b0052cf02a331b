package kvindex

import (
	"math/rand/v2"
	"testing"
)

// fresh returns a chain of n blocks that nobody has seen.
func fresh(r *rand.Rand, n int) []uint64 {
	chain := make([]uint64, n)
	for i := range chain {
		chain[i] = r.Uint64()
	}
	return chain
}

// crowd returns an index of n replicas that hold some 400,000 blocks in all, so that it does not fit the processor's nearest
// caches.
func crowd(r *rand.Rand, n int) (*Index, []*Holder) {
	x := New(256 << 20)
	holders := make([]*Holder, n)
	for i := range holders {
		holders[i] = x.Add(Shared, 400_000/n)
	}
	for now := range uint32(400) {
		holders[r.IntN(n)].Use(fresh(r, 1000), now, 30_000)
	}
	return x, holders
}

// BenchmarkMatch looks up a chat of 2,000 blocks: 8 replicas have each seen another turn of it; of 1,000 that share a preamble of
// 8 blocks, 10 have.
func BenchmarkMatch(b *testing.B) {
	b.Run("8", func(b *testing.B) {
		r := rand.New(rand.NewPCG(1, 2))
		x, holders := crowd(r, 8)
		var chains [64][]uint64
		for i := range chains {
			chains[i] = fresh(r, 2000)
			for j, h := range holders {
				h.Use(chains[i][:200*(j+1)], 500, 30_000)
			}
		}
		var m Matches
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			x.Match(chains[i%len(chains)], &m)
		}
	})
	b.Run("1000", func(b *testing.B) {
		r := rand.New(rand.NewPCG(1, 2))
		x, holders := crowd(r, 1000)
		chain := fresh(r, 2000)
		for i, h := range holders {
			h.Use(chain[:8], 500, 30_000)
			if i%100 == 0 {
				h.Use(chain[:150+i], 500, 30_000)
			}
		}
		var m Matches
		b.ReportAllocs()
		for b.Loop() {
			x.Match(chain, &m)
		}
	})
}

// BenchmarkUse is a request of 2,000 blocks: all new, in a full cache, so that as many have to go; or all known.
func BenchmarkUse(b *testing.B) {
	b.Run("new", func(b *testing.B) {
		r := rand.New(rand.NewPCG(1, 2))
		_, holders := crowd(r, 8)
		var chains [400][]uint64
		for i := range chains {
			chains[i] = fresh(r, 2000)
		}
		for i, chain := range chains {
			holders[i%8].Use(chain, 1000, 30_000)
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			holders[i%8].Use(chains[i%len(chains)], 2000, 30_000) // twice the capacity: it has gone again
		}
	})
	b.Run("known", func(b *testing.B) {
		r := rand.New(rand.NewPCG(1, 2))
		_, holders := crowd(r, 8)
		var chains [160][]uint64
		for i := range chains {
			chains[i] = fresh(r, 2000)
			holders[i%8].Use(chains[i], 1000, 30_000)
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			holders[i%8].Use(chains[i%len(chains)], 2000, 30_000)
		}
	})
}
