package emulator

import (
	"errors"
	"fmt"
	"time"
)

// Config describes an emulated engine. The zero value of a field selects its default.
type Config struct {
	BlockSize  int  // tokens in a cache block; default 16
	Blocks     int  // blocks in the cache; default 65,536 tokens' worth
	Whole      bool // the cache keeps whole prompts, as llama.cpp's does: one a slot, and in Blocks those that slots gave up
	Budget     int  // tokens computed in one step, decode and prefill together; default 4096
	MaxRunning int  // requests that run at once, "slots" when small; default 128
	Cost       Cost // default Cost70B
}

func (c Config) withDefaults() Config {
	c.BlockSize = orDefault(c.BlockSize, 16)
	c.Blocks = orDefault(c.Blocks, max(1, 65536/max(1, c.BlockSize)))
	c.Budget = orDefault(c.Budget, 4096)
	c.MaxRunning = orDefault(c.MaxRunning, 128)
	c.Cost = orDefault(c.Cost, Cost70B)
	return c
}

func orDefault[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

func (c Config) validate() error {
	for _, f := range []struct {
		name  string
		value int
	}{{"block size", c.BlockSize}, {"blocks", c.Blocks}, {"budget", c.Budget}, {"running requests", c.MaxRunning}} {
		if f.value < 1 {
			return fmt.Errorf("%s: %d is out of range; use 1 or more", f.name, f.value)
		}
	}
	if c.Whole && c.Cost.Slots {
		return errors.New("cost: the preset slots has no cache of whole prompts; use another")
	}
	if c.Cost.T0 <= 0 || c.Cost.P < 0 || c.Cost.D < 0 || c.Cost.K < 0 || c.Cost.A < 0 || c.Cost.M < 0 {
		return fmt.Errorf("cost: %+v is out of range; T0 must be positive, the others not negative", c.Cost)
	}
	return nil
}

// ErrTooLong is returned for a request whose prompt and answer together exceed the cache.
var ErrTooLong = errors.New("request is longer than the cache")

// Request is one sequence: a prompt to compute and an answer to generate. The exported fields are set before Submit
// and not changed until the request has finished or was cancelled. A Request is used once.
type Request struct {
	// Chain holds the hashes of the full blocks of prompt and answer, each chained on the one before, so that two
	// requests share a prefix exactly as far as their chains agree. It may end anywhere: blocks beyond it are
	// computed but never cached.
	Chain        []uint64
	PromptTokens int // at least 1
	OutputTokens int // 0 ends the request with its prefill, as for embeddings
	Data         any // the caller's own; the core never reads it

	state     state
	shared    []*block      // referenced blocks, a prefix of Chain
	reserved  int           // blocks beyond shared
	slot      *slot         // that has it, if the cache keeps whole prompts
	computed  int           // tokens whose keys and values are in the cache
	chunk     int           // tokens the current step computes
	due       time.Duration // when they are computed, on an engine whose sequences share no steps
	cached    int
	generated int
}

type state uint8

const (
	created state = iota
	waiting
	running
	ended
)

// Cached returns the prompt tokens that were found in the cache. It is final from the first token on.
func (r *Request) Cached() int { return r.cached }

// Generated returns the tokens generated so far.
func (r *Request) Generated() int { return r.generated }

func (r *Request) decoding() bool { return r.computed >= r.PromptTokens }

// Event says what a step did for a request.
type Event struct {
	Request   *Request
	Generated int  // tokens so far; 1 marks the first token, 0 the end of a prefill without output
	Finished  bool // the request has ended and its blocks are free
}

// Load is what a core has done and is doing.
type Load struct {
	Running, Waiting int     // requests
	Usage            float64 // share of the cache held by running requests, answers included, 0 to 1
	PromptTokens     uint64  // prompt tokens of requests whose prefill has ended
	CachedTokens     uint64  // those of them found in the cache
	GeneratedTokens  uint64
}

// Core is an engine's scheduler and paged prefix cache: a state machine in virtual time, without goroutines, locks or
// clocks. One step at a time: Begin, then Finish when the time it named has come. Requests may be submitted and
// cancelled between the two; they join the next step, unless Begin is called again and lets them in at once. Equal calls
// give equal results. Not safe for concurrent use.
type Core struct {
	config   Config
	cache    *cache
	whole    *wholePrompts // in the place of cache, if whole prompts are kept
	waiting  queue
	running  []*Request    // in order of admission
	blocked  bool          // the head of the queue does not fit, and nothing was released since
	stepping bool          // a step is under way
	end      time.Duration // of that step
	load     Load
}

// NewCore returns a cold engine, or an error when a field of config is out of range.
func NewCore(config Config) (*Core, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	c := &Core{config: config, cache: newCache(config.Blocks)}
	if config.Whole {
		c.whole = newWholePrompts(config.Blocks, config.MaxRunning)
	}
	return c, nil
}

// Config returns the configuration with its defaults filled in.
func (c *Core) Config() Config { return c.config }

// SetCost changes how long steps take, from the next one on.
func (c *Core) SetCost(cost Cost) { c.config.Cost = cost }

// Load returns the core's gauges and counters.
func (c *Core) Load() Load {
	load := c.load
	load.Running, load.Waiting = len(c.running), c.waiting.len
	load.Usage = float64(c.cache.pinned+c.cache.reserved) / float64(c.cache.capacity)
	return load
}

// Submit appends a request to the waiting queue. It returns ErrTooLong for one that can never be admitted.
func (c *Core) Submit(r *Request) error {
	if r.PromptTokens < 1 || r.OutputTokens < 0 || r.state != created {
		return fmt.Errorf("request: %d prompt and %d output tokens; a request has at least one prompt token and is submitted once",
			r.PromptTokens, r.OutputTokens)
	}
	if c.whole == nil && c.blocksOf(r) > c.cache.capacity {
		return ErrTooLong
	}
	r.state = waiting
	c.waiting.push(r)
	return nil
}

// Cancel ends a request at once, waiting or running, and frees its blocks. What it has computed stays cached. The
// step under way still takes its time. A request that has ended is left alone.
func (c *Core) Cancel(r *Request) {
	switch r.state {
	case waiting:
		c.waiting.len--
		c.blocked = false
	case running:
		c.release(r)
		for i, other := range c.running {
			if other == r {
				c.running = append(c.running[:i], c.running[i+1:]...)
				break
			}
		}
	}
	r.state = ended
}

// ResetCache forgets everything that no running request holds.
func (c *Core) ResetCache() {
	c.cache.shrink(0)
	if c.whole != nil {
		c.whole.reset()
	}
}

// Begin admits waiting requests and schedules one step at now. It returns when the step ends, or false when there is
// nothing to compute. Called again during a step, it returns the end of that step; where sequences share no steps
// (Cost.Slots), it first starts those that have found a slot, and the end may come earlier.
func (c *Core) Begin(now time.Duration) (end time.Duration, ok bool) {
	if c.stepping && !c.config.Cost.Slots {
		return c.end, true
	}
	if c.whole != nil {
		c.admitWhole()
	} else {
		c.admit()
	}
	if c.stepping = len(c.running) > 0; !c.stepping {
		return now, false
	}
	if c.config.Cost.Slots {
		c.end = c.scheduleSlots(now)
	} else {
		c.end = now + milliseconds(c.config.Cost.T0+c.schedule())
	}
	return c.end, true
}

// Finish ends the step that Begin scheduled and appends what it did to events, in order of admission.
func (c *Core) Finish(events []Event) []Event {
	c.stepping = false
	kept := c.running[:0]
	for _, r := range c.running {
		if r.chunk == 0 || r.due > c.end {
			kept = append(kept, r)
			continue
		}
		c.commit(r, r.computed+r.chunk)
		r.chunk = 0
		event, ok := c.generate(r)
		if ok {
			events = append(events, event)
		}
		if !event.Finished {
			kept = append(kept, r)
		}
	}
	clear(c.running[len(kept):])
	c.running = kept
	return events
}

// admit moves requests from the head of the queue to the running ones while slots and blocks last. Nobody overtakes:
// a long request at the head waits for room and cannot starve.
func (c *Core) admit() {
	for len(c.running) < c.config.MaxRunning && !c.blocked {
		r := c.waiting.peek()
		if r == nil {
			return
		}
		chain := r.Chain[:c.promptBlocks(r)]
		need := c.blocksOf(r)
		if !c.cache.fits(chain, need) {
			c.blocked = true
			return
		}
		c.waiting.pop()
		r.state = running
		r.shared = make([]*block, 0, min(len(r.Chain), need))
		for _, hash := range chain {
			r.shared = append(r.shared, c.cache.pin(hash, r))
		}
		r.reserved = need - len(chain)
		c.cache.reserve(r.reserved)
		c.running = append(c.running, r)
	}
}

// schedule shares the budget out, one token to each decoding sequence and the rest to prefill chunks, and returns the
// cost in milliseconds.
func (c *Core) schedule() float64 {
	budget, cost := c.config.Budget, 0.0
	for _, r := range c.running {
		if r.decoding() && budget > 0 {
			r.chunk = 1
			budget--
			cost += c.config.Cost.decode(r.computed)
		}
	}
	for _, r := range c.running {
		if budget == 0 {
			break
		}
		if r.decoding() {
			continue
		}
		r.chunk = c.prefillChunk(r, budget)
		budget -= r.chunk
		cost += c.config.Cost.prefill(r.computed, r.chunk)
	}
	return cost
}

// prefillChunk skips what the cache holds and returns how many tokens r computes in this step. It is 0 while the next
// block is another request's to compute: its follower waits rather than computing it twice. Nobody waits in a circle,
// since an owner never stands further along its chain than those who wait for it.
func (c *Core) prefillChunk(r *Request, budget int) int {
	if c.whole != nil {
		return min(budget, r.PromptTokens-r.computed)
	}
	size, reusable := c.config.BlockSize, c.reusableBlocks(r)
	next := r.computed / size
	for next < reusable && r.shared[next].computed {
		next++
	}
	if skipped := next*size - r.computed; skipped > 0 {
		r.cached += skipped / size * size // a block begun here and completed by another request is no hit
		r.computed = next * size
	}
	n := min(budget, r.PromptTokens-r.computed)
	for i := next; i < reusable && i*size < r.computed+n; i++ {
		b := r.shared[i]
		if b.owner == nil && !b.computed {
			b.owner = r
		}
		if b.owner != r {
			return max(0, i*size-r.computed)
		}
	}
	return n
}

// commit records that r's tokens up to computed are in the cache, and makes the blocks they fill hittable.
func (c *Core) commit(r *Request, computed int) {
	size := c.config.BlockSize
	for i := r.computed / size; c.whole == nil && (i+1)*size <= computed && i < len(r.Chain); i++ {
		if i < len(r.shared) {
			c.cache.computed(r.shared[i])
			continue
		}
		r.shared = append(r.shared, c.cache.adopt(r.Chain[i]))
		r.reserved--
	}
	r.computed = computed
}

// generate emits the token that a request's step ended with, if its prefill is complete.
func (c *Core) generate(r *Request) (Event, bool) {
	if !r.decoding() {
		return Event{}, false
	}
	if r.generated == 0 {
		c.load.PromptTokens += uint64(r.PromptTokens)
		c.load.CachedTokens += uint64(r.cached)
	}
	if r.OutputTokens > 0 {
		r.generated++
		c.load.GeneratedTokens++
	}
	finished := r.generated == r.OutputTokens
	if finished {
		r.state = ended
		c.release(r)
	}
	return Event{Request: r, Generated: r.generated, Finished: finished}, true
}

func (c *Core) release(r *Request) {
	if c.whole != nil {
		c.whole.release(r.slot, r.Chain[:min(len(r.Chain), r.computed/c.config.BlockSize)])
		return
	}
	c.cache.release(r, r.shared, r.reserved)
	r.shared, r.reserved = nil, 0
	c.blocked = false
}

// blocksOf is the number of blocks that prompt and answer take together.
func (c *Core) blocksOf(r *Request) int {
	return (r.PromptTokens + r.OutputTokens + c.config.BlockSize - 1) / c.config.BlockSize
}

// promptBlocks is the number of full prompt blocks whose hashes are known.
func (c *Core) promptBlocks(r *Request) int {
	return min(len(r.Chain), r.PromptTokens/c.config.BlockSize)
}

// reusableBlocks is the number of blocks a hit may cover: the last prompt token is always computed, since the first
// generated one comes from it.
func (c *Core) reusableBlocks(r *Request) int {
	return min(len(r.Chain), (r.PromptTokens-1)/c.config.BlockSize)
}
