package telemetry

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// A sketch estimates how many distinct keys it was shown in the last ten minutes, however often it was shown each. It is a HyperLogLog
// (Flajolet, Fusy, Gandouet and Meunier, 2007) whose registers hold one rank for each of the last pieces of time, so that keys go out
// of it by themselves. It takes 4 KiB, never locks, and may be used from any goroutine.
//
// A register is one word: the number of its newest slot of time, and below it the ranks of that slot and those before, the newest
// lowest.
type sketch struct {
	registers [sketchSize]atomic.Uint64
}

const (
	sketchBits = 9 // of a key choose its register
	sketchSize = 1 << sketchBits

	slotTime = 75 // seconds; the window is eight of them, the newest of which is not over
	slots    = 8
	rankBits = 5
	maxRank  = 1<<rankBits - 1

	ranksBits = slots * rankBits
	ranksMask = 1<<ranksBits - 1
	slotMask  = 1<<(64-ranksBits) - 1 // it takes 39 years until a number comes again
)

// slotAt is the number of the slot of time that t is in.
func slotAt(t time.Time) uint64 { return uint64(t.Unix()) / slotTime & slotMask }

// add shows the sketch a key, whose bits must be as if drawn. A nil sketch takes no notice.
func (s *sketch) add(key, slot uint64) {
	if s == nil {
		return
	}
	r := &s.registers[key>>(64-sketchBits)]
	rank := min(uint64(bits.LeadingZeros64(key<<sketchBits))+1, maxRank)
	for {
		old := r.Load()
		now := aged(old, slot)
		if now&maxRank >= rank || r.CompareAndSwap(old, now&^maxRank|rank) {
			return
		}
	}
}

// aged is a register as it is in a later slot. One that is ahead, because its request ended a moment later, stays as it is.
func aged(register, slot uint64) uint64 {
	age := (slot - register>>ranksBits) & slotMask
	if register != 0 && age > slotMask/2 {
		return register
	}
	return slot<<ranksBits | register<<(age*rankBits)&ranksMask
}

// count estimates the number of keys, with a standard error of 1.04/√512: 5 %. Few keys are counted by the registers that have none
// (linear counting), which is closer.
func (s *sketch) count(slot uint64) float64 {
	const alpha = 0.7213 / (1 + 1.079/sketchSize)
	sum, empty := 0.0, 0
	for i := range s.registers {
		rank := highest(aged(s.registers[i].Load(), slot))
		sum += math.Ldexp(1, -rank)
		if rank == 0 {
			empty++
		}
	}
	n := alpha * sketchSize * sketchSize / sum
	if n <= 2.5*sketchSize && empty > 0 {
		n = sketchSize * math.Log(sketchSize/float64(empty))
	}
	return math.Round(n)
}

// highest is the largest rank of a register's slots.
func highest(register uint64) (rank int) {
	for ranks := register & ranksMask; ranks != 0; ranks >>= rankBits {
		rank = max(rank, int(ranks&maxRank))
	}
	return rank
}
