package emulator

import (
	"math"
	"time"
)

// scheduleSlots starts the next chunk of every sequence that has none under way, each at its own pace, and returns when the
// first of all chunks ends.
func (c *Core) scheduleSlots(now time.Duration) time.Duration {
	end := time.Duration(math.MaxInt64)
	for _, r := range c.running {
		if r.chunk == 0 {
			r.due = now + milliseconds(c.startChunk(r))
		}
		end = min(end, r.due)
	}
	return end
}

// startChunk gives a sequence its whole prompt or its next token to compute, and returns the cost in milliseconds. A prompt can be
// hit from its start on: slots do not wait for each other, and of prompts with one prefix that come together only the first is cold.
func (c *Core) startChunk(r *Request) float64 {
	if r.decoding() {
		r.chunk = 1
		return c.config.Cost.decode(r.computed)
	}
	hit, reusable := 0, c.reusableBlocks(r)
	for hit < reusable && r.shared[hit].computed {
		hit++
	}
	for _, b := range r.shared[hit:] {
		c.cache.computed(b)
	}
	r.cached = hit * c.config.BlockSize
	r.computed, r.chunk = r.cached, r.PromptTokens-r.cached
	return c.config.Cost.T0 + c.config.Cost.prefill(r.computed, r.chunk)
}
