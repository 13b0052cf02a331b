package kvindex

import (
	"math"
	"slices"
)

// model is an index written for the eye: lists and maps, one per replica, and the same answers.
type model struct {
	uses    map[uint64]*count // of blocks that some shared cache holds
	holders []*modelHolder
}

type count struct {
	use  float64
	last uint32
}

type modelHolder struct {
	kind     Kind
	capacity int
	visits   uint32
	open     map[uint32]bool
	blocks   []modelBlock  // most recently used first
	prompts  []modelPrompt // most recently used first
}

type modelBlock struct {
	hash  uint64
	visit uint32
}

type modelPrompt struct {
	chain []uint64
	count
	visit uint32
}

func newModel() *model { return &model{uses: map[uint64]*count{}} }

func (m *model) add(kind Kind, capacity int) {
	m.holders = append(m.holders, &modelHolder{kind: kind, capacity: capacity, open: map[uint32]bool{}})
}

func (m *model) remove(i int) {
	m.holders = slices.Delete(m.holders, i, i+1)
	m.sweep()
}

func (m *model) forget(i int) {
	m.holders[i].blocks, m.holders[i].prompts = nil, nil
	m.sweep()
}

// sweep drops the counts of blocks that nobody holds.
func (m *model) sweep() {
	for hash := range m.uses {
		if !slices.ContainsFunc(m.holders, func(h *modelHolder) bool { return h.place(hash) >= 0 }) {
			delete(m.uses, hash)
		}
	}
}

func (h *modelHolder) place(hash uint64) int {
	return slices.IndexFunc(h.blocks, func(b modelBlock) bool { return b.hash == hash })
}

func (h *modelHolder) len() int {
	n := len(h.blocks)
	for _, p := range h.prompts {
		n += len(p.chain)
	}
	return n
}

func shared(a, b []uint64) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

func (h *modelHolder) match(chain []uint64) (n int) {
	if h.kind == Whole {
		for _, p := range h.prompts {
			if !h.open[p.visit] {
				n = max(n, shared(p.chain, chain))
			}
		}
		return n
	}
	for n < len(chain) && h.place(chain[n]) >= 0 {
		n++
	}
	return n
}

func decayed(c count, now uint32, decay float64) float64 {
	return c.use * math.Exp(-float64(now-c.last)/decay)
}

func (m *model) use(i int, chain []uint64, now uint32, decay float64) Visit {
	h := m.holders[i]
	chain = chain[:min(len(chain), h.capacity)]
	h.visits++
	h.open[h.visits] = true
	v := Visit{number: h.visits, held: uint32(h.match(chain)), stored: uint32(len(chain))}
	if h.kind == Whole {
		v.held = h.usePrompt(chain, now, decay)
		return v
	}
	var used []modelBlock
	for _, hash := range chain {
		used = append(used, modelBlock{hash, h.visits})
		if j := h.place(hash); j >= 0 {
			h.blocks = slices.Delete(h.blocks, j, j+1)
		}
	}
	h.blocks = append(used, h.blocks...)
	h.blocks = h.blocks[:min(len(h.blocks), h.capacity)]
	m.sweep()
	for _, hash := range chain {
		c := m.uses[hash]
		if c == nil {
			c = &count{last: now}
			m.uses[hash] = c
		}
		*c = count{decayed(*c, now, decay) + 1, now}
	}
	return v
}

func (h *modelHolder) usePrompt(chain []uint64, now uint32, decay float64) (held uint32) {
	if len(chain) == 0 {
		return 0
	}
	nearest, best := h.continued(chain)
	use := 1.0
	if nearest >= 0 {
		use += decayed(h.prompts[nearest].count, now, decay)
		h.prompts = slices.Delete(h.prompts, nearest, nearest+1)
	}
	h.prompts = slices.Insert(h.prompts, 0, modelPrompt{slices.Clone(chain), count{use, now}, h.visits})
	h.fit()
	return uint32(best)
}

// continued is the prompt whose place another takes, because it shares at least half of it, or -1.
func (h *modelHolder) continued(chain []uint64) (nearest, best int) {
	nearest = -1
	for i, p := range h.prompts {
		if n := shared(p.chain, chain); n > best && !h.open[p.visit] {
			nearest, best = i, n
		}
	}
	if nearest >= 0 && 2*best < len(h.prompts[nearest].chain) {
		return -1, 0
	}
	return nearest, best
}

func (h *modelHolder) replaced(chain []uint64) int {
	if h.kind == Shared {
		return h.match(chain)
	}
	if i, _ := h.continued(chain); i >= 0 {
		return len(h.prompts[i].chain)
	}
	return 0
}

// fit evicts what is beyond the capacity.
func (h *modelHolder) fit() {
	h.blocks = h.blocks[:min(len(h.blocks), h.capacity)]
	for h.len() > h.capacity && len(h.prompts) > 1 {
		h.prompts = h.prompts[:len(h.prompts)-1]
	}
	if len(h.prompts) == 1 {
		p := &h.prompts[0]
		p.chain = p.chain[:min(len(p.chain), h.capacity)]
	}
}

func (m *model) setCapacity(i, capacity int) {
	m.holders[i].capacity = capacity
	m.holders[i].fit()
	m.sweep()
}

func (m *model) undo(i int, chain []uint64, v Visit) {
	h := m.holders[i]
	for _, hash := range chain[min(v.held, v.stored):v.stored] {
		h.blocks = slices.DeleteFunc(h.blocks, func(b modelBlock) bool { return b.hash == hash && b.visit == v.number })
	}
	for j, p := range h.prompts {
		if p.visit == v.number {
			h.prompts[j].chain = p.chain[:min(len(p.chain), int(v.held))]
		}
	}
	h.prompts = slices.DeleteFunc(h.prompts, func(p modelPrompt) bool { return len(p.chain) == 0 })
	delete(h.open, v.number)
	m.sweep()
}

func (m *model) close(i int, v Visit) { delete(m.holders[i].open, v.number) }

func (m *model) depth(i int, chain []uint64, k int) (int, bool) {
	h := m.holders[i]
	if h.kind == Shared {
		if j := h.place(chain[k-1]); j >= 0 {
			return j + 1, h.open[h.blocks[j].visit]
		}
		return 0, false
	}
	sum := 0
	for _, p := range h.prompts {
		sum += len(p.chain)
		if shared(p.chain, chain) >= k {
			return sum, h.open[p.visit]
		}
	}
	return 0, false
}

func (m *model) tail(i int, now uint32, decay float64) (uint32, float64, bool) {
	h := m.holders[i]
	if n := len(h.prompts); n > 0 {
		c := h.prompts[n-1].count
		return now - c.last, decayed(c, now, decay), true
	}
	if n := len(h.blocks); n > 0 {
		c := *m.uses[h.blocks[n-1].hash]
		return now - c.last, decayed(c, now, decay), true
	}
	return 0, 0, false
}

func (m *model) rate(chain []uint64, k int, now uint32, decay float64) (rate float64) {
	if c := m.uses[chain[k-1]]; c != nil {
		rate = decayed(*c, now, decay)
	}
	for _, h := range m.holders {
		for _, p := range h.prompts {
			if shared(p.chain, chain) >= k {
				rate += decayed(p.count, now, decay)
			}
		}
	}
	return max(rate, 1e-6)
}
