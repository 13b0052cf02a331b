package routing

import (
	"slices"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/kvindex"
	"github.com/warmpath/warmpath/internal/prompt"
)

// NameKVAware is the strategy KV_AWARE: the replica on which the request adds the least latency, by what is believed of every
// replica's cache and counted of its backlog. It has no settings.
const NameKVAware = "KV_AWARE"

// The weights of the cost that are not learned, found by simulation.
const (
	interference = 0.2  // share of a prefill that each request in flight on the replica is delayed by
	displacement = 1.5  // cost of a displaced block, in its own prefills
	copyMargin   = 4    // times that a prefix may be colder than what its copy displaces before the copy costs in full
	rounding     = 1e-9 // share by which two sums of the same times may differ
)

// indexBudget bounds the memory of what one strategy believes, in bytes: eight million blocks, or half a billion prompt tokens.
const indexBudget = 512 << 20

// Cost is what a request is expected to add on a replica, and from what it was worked out. Times are in milliseconds.
type Cost struct {
	PromptTokens float64 `json:"prompt_tokens"`
	HitTokens    float64 `json:"hit_tokens"`   // believed to be in the replica's cache
	QueuedUnits  float64 `json:"queued_units"` // prefill sent there that has no first token yet, in tokens
	OpenContext  float64 `json:"open_context"` // prompt tokens of the requests in flight there
	Own          float64 `json:"own_ms"`       // prefill of what is not cached
	Wait         float64 `json:"wait_ms"`      // behind what is queued there
	Decode       float64 `json:"decode_ms"`    // slower generation in the batch there
	Others       float64 `json:"others_ms"`    // added to the requests that are there
	Eviction     float64 `json:"eviction_ms"`  // computing again what its blocks displace
	Waived       float64 `json:"waived_ms"`    // of all that, for a copy of a prefix that has been missed there as much
	Total        float64 `json:"total_ms"`

	blocks   int     // believed hit
	inFlight float64 // requests there at the decision
}

// kvAware is one endpoint's beliefs about the replicas of a pool and the rule that acts on them.
type kvAware struct {
	whole bool // caches keep whole prompts

	mu      sync.Mutex
	index   *kvindex.Index
	matches kvindex.Matches
	view    *fleet.View
	beliefs []*belief // by the place of their replica in view.Eligible
	known   map[*fleet.Replica]*belief
	latest  decision // what Rank has last gone by, for Began

	epoch   time.Time // when the clock of the index began
	elapsed int64     // ms since then, at the latest decision
	fade    float64   // ms in which a use count falls to 1/e: twice the mean age of the least recently used blocks
	ratio   tokenRatio
	latency latency
	decode  decoding
}

func newKVAware(o Options) (Strategy, error) {
	return &kvAware{
		whole: o.WholePrompts, index: kvindex.New(indexBudget), known: map[*fleet.Replica]*belief{},
		fade: 30_000, ratio: newTokenRatio(), latency: newLatency(), decode: newDecoding(),
	}, o.wantNone(NameKVAware)
}

func (*kvAware) Name() string { return NameKVAware }

// Chained says that the strategy goes by the block chain of the whole prompt.
func (*kvAware) Chained() {}

// Rank orders the replicas by what the request would cost there. Of replicas that cost the same, the prompt's beginning chooses, so
// that routers which know nothing yet agree, among whole prompts after how much they hold; a request without a prompt is placed by load, ties at random.
func (s *kvAware) Rank(q *Query, v *fleet.View, out []Candidate) []Candidate {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.look(v, q.Now)
	s.index.Match(q.Chain.Blocks, &s.matches)
	d := s.decide(q, v)
	s.latest = d
	from := len(out)
	for i, r := range v.Eligible {
		if slices.Contains(q.Tried, r) {
			continue
		}
		c := Candidate{Replica: r, score: d.score(s.beliefs[i]), Cost: d.cost(s.beliefs[i])}
		c.load = int64(min(c.Cost.Total, 1e9) * 1e6)
		if c.Cost.blocks == 0 {
			c.load += withheld(q, v, r) << 10 // of ms in millionths, as many as requests fit
		}
		c.Reason = d.reason(c.Cost.blocks)
		out = insert(out, from, q.Limit, c)
	}
	if q.Limit <= 0 {
		slices.SortFunc(out[from:], better)
	}
	return out
}

// decision is what the costs of one request on all replicas have in common.
type decision struct {
	*kvAware
	key     uint64
	chain   []uint64
	tokens  float64 // of the prompt
	now     uint32
	batch   float64 // mean requests in flight
	held    int     // blocks that the eligible replicas hold together
	longest int     // blocks, among the eligible and untried
	place   int     // blocks that are replaced where that is
	deepest int     // blocks, in any cache
	hotness float64 // use rate of the deepest block that any cache holds
}

func (s *kvAware) decide(q *Query, v *fleet.View) decision {
	d := decision{
		kvAware: s, key: q.Random, chain: q.Chain.Blocks, tokens: s.ratio.tokensOf(q.Chain.Bytes), now: s.clock(q.Now),
		deepest: s.matches.Longest(),
	}
	if n := len(d.chain); n > 0 {
		d.key = d.chain[min(1, n-1)]
	}
	for i, r := range v.Eligible {
		d.batch += float64(r.InFlight()) / float64(len(v.Eligible))
		d.held += s.beliefs[i].holder.Len()
		if !slices.Contains(q.Tried, r) {
			h := s.beliefs[i].holder
			if n := s.matches.Of(h); n > d.longest {
				d.longest, d.place = n, s.matches.Place(h)
			}
		}
	}
	if d.deepest > 0 {
		d.hotness = s.index.Rate(d.chain, d.deepest, d.now, s.fade)
	}
	return d
}

// score orders replicas on which the request costs the same. Of those that cache whole prompts, the ones that hold no more than the mean
// come first: see overflow.
func (d *decision) score(b *belief) uint64 {
	score := Score(d.key, b.replica.Hash())
	if d.whole && len(d.chain) > 0 {
		score >>= 1
		if d.beyondMean(b) <= 0 {
			score |= 1 << 63
		}
	}
	return score
}

// cost is what the request adds on a replica. Where its prefix is missing, the price of a copy is waived once having none has cost
// as much (the ski rental problem): later requests are served by the copy, too.
func (d *decision) cost(b *belief) Cost {
	blocks := d.matches.Of(b.holder)
	c := d.with(b, blocks, d.matches.Place(b.holder))
	if blocks < d.longest && b.wanted == d.chain[d.longest-1] {
		if price := c.Total - d.withLongest(b).Total; price > 0 && b.forgone >= price*(1-rounding) {
			c.Waived = price
			c.Total -= price
		}
	}
	return c
}

// withLongest is what the request would add on a replica if that held as much of it as any.
func (d *decision) withLongest(b *belief) Cost { return d.with(b, d.longest, d.place) }

// with works out what the request adds on a replica that holds that many blocks of it, and where it takes the place of so many: to
// itself, to the others there, and to those whose blocks it displaces.
func (d *decision) with(b *belief, blocks, place int) Cost {
	r := b.replica
	hit := min(d.ratio.tokensOf(blocks*prompt.BlockBytes), max(0, d.tokens-1))
	c := Cost{
		PromptTokens: d.tokens, HitTokens: hit, QueuedUnits: b.queued, OpenContext: b.context,
		blocks: blocks, inFlight: float64(r.InFlight()),
	}
	perRequest, perContext := d.decode.perRequest(), d.decode.perContext()
	c.Own = d.latency.prefill() * units(d.tokens-hit, hit)
	c.Wait = d.latency.queue()*c.QueuedUnits + d.latency.request()*c.inFlight
	c.Decode = d.decode.output * (perRequest*c.inFlight + perContext*c.OpenContext)
	c.Others = c.inFlight * (interference*c.Own + d.decode.output*(perRequest+perContext*d.tokens))
	c.Eviction = displacement * d.displaced(b, blocks, place) * c.Own * (1 + interference*d.batch)
	c.Total = c.Own + c.Wait + c.Decode + c.Others + c.Eviction
	return c
}

// displaced is the share of the request's new blocks for which others must go, weighed by what those are worth: blocks that another
// cache holds too are only a copy, which is worth making as far as it is used more often than what it displaces.
func (d *decision) displaced(b *belief, blocks, place int) float64 {
	fresh, over := float64(len(d.chain)-blocks), d.overflow(b, place)
	if fresh <= 0 || over <= 0 {
		return 0
	}
	full := min(1, over/fresh)
	if d.whole {
		full = 1 // they go as a whole
	}
	copies := float64(d.deepest - blocks)
	if copies <= 0 {
		return full
	}
	_, tail, ok := b.holder.Tail(d.now, d.fade)
	if !ok {
		return full
	}
	share := copies / fresh
	return full * ((1 - share) + share*min(1, copyMargin*tail/d.hotness))
}

// overflow is how many blocks must go for the request's, at most 0 while there is room, where it takes the place of some.
//
// Engines that cache whole prompts do not say how many, and what overflows is seen only when it is missed. So until one has shown how
// much it holds, it is taken to have no room for new ones while it holds more than the mean of all.
func (d *decision) overflow(b *belief, place int) float64 {
	over := b.holder.Len() + len(d.chain) - place - b.holder.Capacity()
	if d.whole && place == 0 && b.guessed() {
		over = max(over, d.beyondMean(b))
	}
	return float64(over)
}

// beyondMean is how many blocks more than the mean of the eligible replicas one holds.
func (d *decision) beyondMean(b *belief) int { return b.holder.Len() - d.held/len(d.view.Eligible) }

// reason says what decided for a replica that holds that many blocks of the prompt.
func (d *decision) reason(blocks int) Reason {
	switch {
	case d.longest == 0:
		return LeastLatency
	case blocks == d.longest:
		return Affinity
	}
	return Overflow
}

// clock is a time in the milliseconds of the index. It begins at the first decision and may wrap around. It never runs back: of
// requests that come at once, the one that reads the time first may get the fleet's lock last, and to the index the age of a block
// used in its future would be 49 days.
func (s *kvAware) clock(now time.Time) uint32 {
	if s.epoch.IsZero() {
		s.epoch = now
	}
	s.elapsed = max(s.elapsed, now.Sub(s.epoch).Milliseconds())
	return uint32(s.elapsed)
}
