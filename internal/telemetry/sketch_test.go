package telemetry

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// slotNow is in the upper half of the slots' numbers, which come round again.
var slotNow = slotAt(time.Date(2030, 11, 30, 12, 0, 0, 0, time.UTC))

// hashed gives the bits of a number as if drawn, as a key's are (splitmix64).
func hashed(n uint64) uint64 {
	n *= 0x9E3779B97F4A7C15
	n = (n ^ n>>30) * 0xBF58476D1CE4E5B9
	n = (n ^ n>>27) * 0x94D049BB133111EB
	return n ^ n>>31
}

func TestSketchCounts(t *testing.T) {
	for _, slot := range []uint64{0, 1, slotNow, slotMask} {
		r := rand.New(rand.NewPCG(1, slot))
		var s sketch
		n := 0
		for _, want := range []int{0, 1, 2, 10, 100, 1000, 1300, 2000, 10_000, 50_000} {
			for ; n < want; n++ {
				key := r.Uint64()
				s.add(key, slot)
				s.add(key, slot)
			}
			got := s.count(slot)
			if off := math.Abs(got - float64(want)); off > 0.15*float64(want) || want <= 10 && off > 0 { // three standard errors
				t.Errorf("slot %d: %v keys of %d", slot, got, want)
			}
		}
	}
}

func TestSketchForgets(t *testing.T) {
	var s sketch
	slot := slotNow
	for i := range uint64(20) { // ten keys in each slot
		for j := range uint64(10) {
			s.add(hashed(i*10+j), slot+i)
		}
	}
	for after, want := range map[uint64]float64{0: 80, 4: 40, 7: 10, 8: 0, 1000: 0} {
		if got := s.count(slot + 19 + after); math.Abs(got-want) > 0.15*want {
			t.Errorf("%d slots later: %v keys, want %v", after, got, want)
		}
	}
}

func TestSketchKeepsAStragglersKey(t *testing.T) {
	var s sketch
	s.add(1<<63, slotNow)
	s.add(1<<63|1<<20, slotNow-1) // ends in the same register
	s.add(1<<62, slotNow-1)
	if got := s.count(slotNow); got != 2 {
		t.Errorf("%v registers' keys, want 2", got)
	}
}

func TestSketchIsShared(t *testing.T) {
	var s sketch
	var wg sync.WaitGroup
	for w := range uint64(4) {
		wg.Go(func() {
			for i := range uint64(2000) {
				s.add(hashed(i+w%2*2000), slotNow+i/1000)
				if i%500 == 0 {
					s.count(slotNow)
				}
			}
		})
	}
	wg.Wait()
	if got := s.count(slotNow + 1); math.Abs(got-4000) > 600 {
		t.Errorf("%v keys, want about 4000", got)
	}
}

func BenchmarkSketch(b *testing.B) {
	var s sketch
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		key := uint64(1)
		for pb.Next() {
			key++
			s.add(hashed(key), slotNow)
		}
	})
}
