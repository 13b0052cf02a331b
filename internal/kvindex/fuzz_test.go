package kvindex

import "testing"

// FuzzAnyHashes feeds chains that no prompt can have, as if hashes collided: the answers may then be wrong, but the index must
// neither break nor grow beyond its budget.
func FuzzAnyHashes(f *testing.F) {
	f.Add([]byte{0, 5, 1, 2, 3, 1, 2, 0, 5, 1, 2, 3, 1, 2, 2, 0, 6, 1, 1, 1, 1, 1, 1})
	f.Add([]byte{0, 3, 7, 8, 9, 3, 0, 4, 3, 8, 7, 9, 1, 4, 0, 2, 1, 1})
	f.Fuzz(func(t *testing.T, script []byte) {
		x := New(1 << 17)
		holders := []*Holder{x.Add(Shared, 7), x.Add(Whole, 9), x.Add(Shared, 5)}
		var m Matches
		var chain []uint64
		var v Visit
		for now := uint32(0); len(script) > 1; now++ {
			op, n := script[0], int(script[1])
			h := holders[int(op/8)%len(holders)]
			script = script[2:]
			switch op % 8 {
			case 0, 1, 2, 3:
				n = min(n%16, len(script))
				chain = chain[:0]
				for _, b := range script[:n] {
					chain = append(chain, uint64(b%8))
				}
				script = script[n:]
				v = h.Use(chain, now, decay)
			case 4:
				if int(v.stored) <= len(chain) {
					h.Undo(chain, v)
				}
			case 5:
				h.Forget()
			case 6:
				h.SetCapacity(n % 10)
			case 7:
				h.Close(v)
			}
			x.Match(chain, &m)
			for k := 1; k <= len(chain); k++ {
				h.Depth(chain, k)
				x.Rate(chain, k, now, decay)
			}
			if h.Tail(now, decay); x.Bytes() > 1<<17 || h.Len() > h.Capacity() || m.Of(h) > len(chain) {
				t.Fatalf("%d bytes, %d of %d blocks, %d of %d match", x.Bytes(), h.Len(), h.Capacity(), m.Of(h), len(chain))
			}
		}
		for _, h := range holders {
			x.Remove(h)
		}
		x.drain(1 << 20)
		if x.pairs.live != 0 || x.nodes.live != 0 {
			t.Fatalf("%d pairs and %d nodes are left", x.pairs.live, x.nodes.live)
		}
	})
}
