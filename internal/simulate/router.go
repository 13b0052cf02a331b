package simulate

import (
	"encoding/binary"
	"net/http"
	"strings"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/warmpath/warmpath/internal/dialect"
	"github.com/warmpath/warmpath/internal/engine"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/prompt"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/workload"
)

// router is one Warmpath process: a fleet with in-flight counts of its own, and a strategy.
type router struct {
	fleet        *fleet.Fleet
	strategy     routing.Strategy
	prefixLength int              // 0 if the strategy asks for no key
	observer     routing.Observer // the strategy, if it learns
	chained      bool             // the strategy asks for block chains
	streamed     bool             // answers come token by token
	reported     bool             // engines report tokens
	wordiness    float64          // of prompts; 0 = all alike
	signals      fleet.Signals    // what engines say of themselves
	now          time.Duration    // what the fleet's clock shows
	replicas     map[*fleet.Replica]*replica
	members      []*fleet.Replica // by the index of their replica
}

func newRouter(o *Options) (*router, error) {
	options := o.Strategy.Options
	options.WholePrompts = engine.WholePrompts(o.Engine)
	strategy, err := routing.New(o.Strategy.Name, options)
	if err != nil {
		return nil, err
	}
	r := &router{
		strategy: strategy, replicas: map[*fleet.Replica]*replica{}, streamed: !o.Unstreamed, reported: !o.Unreported, wordiness: o.Wordiness,
	}
	r.observer, _ = strategy.(routing.Observer)
	_, r.chained = strategy.(routing.Chained)
	if keyed, ok := strategy.(routing.Keyed); ok {
		r.prefixLength = keyed.PrefixLength()
	}
	r.fleet = fleet.New(fleet.Options{SlowStart: o.SlowStart, Now: func() time.Time { return wall(r.now) }})
	return r, nil
}

// wall turns virtual time into a time of day. It begins at a time that is not Unix 0, which the fleet takes for "never".
func wall(now time.Duration) time.Time { return time.Unix(1e9, 0).Add(now) }

// learn makes the fleet hold all replicas, the new ones among them in rotation at once.
func (r *router) learn(all []*replica) {
	targets := make([]fleet.Target, len(all))
	byID := make(map[string]*replica, len(all))
	for i, member := range all {
		targets[i].URL = member.url()
		byID[strings.TrimPrefix(member.url(), "http://")] = member
	}
	r.fleet.Apply(targets) // the addresses are well formed
	r.members = append(r.members, make([]*fleet.Replica, len(all)-len(r.members))...)
	for _, member := range r.fleet.View().Replicas {
		known := byID[member.ID()]
		if r.members[known.index] == nil {
			r.members[known.index], r.replicas[member] = member, known
			member.SetSignals(r.signals)
			r.fleet.SetHealth(member, true)
		}
	}
}

// acquire lets the strategy choose a replica and counts the request there. It reports false if there is none to choose.
func (r *router) acquire(x *exchange, now time.Duration) bool {
	r.now = now
	x.query.Now = wall(now)
	var first [1]routing.Candidate
	lease := r.fleet.Acquire(func(v *fleet.View) *fleet.Replica {
		ranking := r.strategy.Rank(&x.query, v, first[:0])
		if len(ranking) == 0 {
			return nil
		}
		first[0] = ranking[0]
		if r.observer != nil {
			x.flight = r.observer.Began(&x.query, &first[0])
		}
		return ranking[0].Replica
	})
	if lease == nil {
		return false
	}
	x.lease, x.replica, x.decision = lease, r.replicas[lease.Replica()], first[0].Reason
	if len(x.query.Tried) > 0 {
		x.decision = routing.Retry
	}
	return true
}

// Key is PREFIX_AWARE's key of a request with a prefix length; ok is false if it has none. A request with text is keyed by the code
// that keys real requests, even if its blocks are known too.
func Key(request *workload.Request, prefixLength int) (key uint64, ok bool) {
	if request.Body == nil && request.BlockTokens > 0 {
		return blocksKey(request, prefixLength)
	}
	path, _, _ := strings.Cut(request.Path, "?")
	route, _ := dialect.Recognise(http.MethodPost, path)
	switch route.Window {
	case dialect.TextWindow:
		body, err := prompt.Scan(request.Body, route.Shape)
		if err != nil {
			return 0, false
		}
		key, _, ok = body.TextKey(prefixLength, body.CacheKey)
	case dialect.ByteWindow:
		key, _, ok = prompt.BytesKey(request.Body, prefixLength, "")
	}
	return key, ok
}

// Chain is the block chain that KV_AWARE sees of a request, in dst's memory. Of a request of which only the ids of its blocks are
// known, each id stands for as many blocks as the text would have.
func Chain(dst []uint64, request *workload.Request) prompt.Chain {
	if request.Body == nil && request.BlockTokens > 0 {
		return blocksChain(dst, request)
	}
	path, _, _ := strings.Cut(request.Path, "?")
	route, _ := dialect.Recognise(http.MethodPost, path)
	switch route.Window {
	case dialect.TextWindow:
		if body, err := prompt.Scan(request.Body, route.Shape); err == nil {
			return body.Chain(dst, body.Model)
		}
	case dialect.ByteWindow:
		if body, err := prompt.Scan(request.Body, route.Shape); err == nil && body.HasText() {
			return body.Chain(dst, body.Model)
		}
		return prompt.BytesChain(dst, request.Body)
	}
	return prompt.Chain{}
}

func blocksChain(dst []uint64, r *workload.Request) prompt.Chain {
	c := prompt.Chain{Blocks: dst[:0], Bytes: r.PromptTokens * charactersPerToken}
	each := r.BlockTokens * charactersPerToken
	for i := range c.Bytes / prompt.BlockBytes {
		end := (i + 1) * prompt.BlockBytes
		last := (end - 1) / each // an id covers all before it
		if last >= len(r.Blocks) {
			break
		}
		c.Blocks = append(c.Blocks, routing.Score(r.Blocks[last], uint64(end)))
	}
	return c
}

// charactersPerToken is the length of a token where only the number of tokens is known.
const charactersPerToken = 4

// blocksKey is the key of a prompt of which only the ids of its blocks are known: of those that the window touches, and of where
// the window ends. Text that stands for the ids would have the same key exactly when this is the same, since texts of different
// ids differ from their first character on.
func blocksKey(r *workload.Request, prefixLength int) (key uint64, ok bool) {
	characters := min(prefixLength, r.PromptTokens*charactersPerToken)
	block := r.BlockTokens * charactersPerToken
	touched := min((characters+block-1)/block, len(r.Blocks))
	window := binary.LittleEndian.AppendUint64(make([]byte, 0, 8*(touched+1)), uint64(characters))
	for _, id := range r.Blocks[:touched] {
		window = binary.LittleEndian.AppendUint64(window, id)
	}
	return xxh3.Hash(window), touched > 0
}
