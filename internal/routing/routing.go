// Package routing ranks the replicas of a fleet for one request: one file a strategy.
package routing

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/prompt"
)

// Reason says why a replica stands where it does in a ranking. Reasons are metric labels and header values.
type Reason string

// The reasons of a decision.
const (
	Affinity         Reason = "affinity"          // the request's prefix points there
	Overflow         Reason = "overflow"          // its own replica is at its threshold, or would answer later
	Fallback         Reason = "fallback"          // nothing to go by but load
	LeastOutstanding Reason = "least_outstanding" // fewest requests in flight
	Random           Reason = "random"            // drawn
	LeastLatency     Reason = "least_latency"     // no cache holds the prompt's beginning; the least work is there
	Retry            Reason = "retry"             // an earlier attempt of the same request failed elsewhere
	Session          Reason = "session"           // the request's session is kept there: no strategy was asked for a choice
)

// Query is what a strategy may know of a request.
type Query struct {
	// Key identifies the prompt's prefix; it counts only if HasKey.
	Key    uint64
	HasKey bool
	// Chain is the whole prompt, for strategies that are Chained. It must not change until the request has ended.
	Chain prompt.Chain
	// Streamed says that the client wants its answer token by token.
	Streamed bool
	// Random is drawn once per request. All chance in a ranking comes from it, so a ranking is a function of its inputs.
	Random uint64
	// Tried holds the replicas that have failed this request; they are not ranked.
	Tried []*fleet.Replica
	// Limit is how many candidates the caller wants; 0 = all.
	Limit int
	// Now is the time of the decision.
	Now time.Time
}

// Candidate is one place in a ranking.
type Candidate struct {
	Replica *fleet.Replica
	Reason  Reason
	Cost    Cost // what KV_AWARE expects; zero for other strategies

	load  int64  // fewer is better
	score uint64 // among equal loads, more is better
}

// Strategy ranks the eligible replicas of a view, best first. The order is also the order of retries and what explain
// prints. Rank is called with the fleet's lock held, from many goroutines in turn: it must not block, do I/O, read a clock or
// keep anything of its arguments. It appends to out, whose memory the caller reuses, and never ranks a replica twice.
type Strategy interface {
	Name() string
	Rank(q *Query, v *fleet.View, out []Candidate) []Candidate
}

// Keyed is a Strategy that wants the key of the first PrefixLength bytes or characters of each request.
type Keyed interface {
	PrefixLength() int
}

// Chained is a Strategy that goes by the block chain of the whole prompt.
type Chained interface {
	Chained()
}

// Options are the settings of a strategy, by the names they have in the configuration file.
type Options struct {
	PrefixLength         int `json:"prefix_length,omitzero"`
	ConcurrencyThreshold int `json:"concurrency_threshold,omitzero"`
	// WholePrompts says that the pool's engines cache whole prompts, each with a copy of what it shares with others (llama.cpp), and
	// not blocks that prompts share.
	WholePrompts bool `json:"-"`
	// SiblingsFirst makes PREFIX_AWARE overflow to another replica on the same host, of those below the threshold, before it looks on
	// other hosts: the replicas are copies of an inference component.
	SiblingsFirst bool `json:"-"`
}

// registry has one entry a strategy. Adding a strategy is a file and a line here.
var registry = map[string]func(Options) (Strategy, error){
	NameRandom:           newRandom,
	NameLeastOutstanding: newLeastOutstanding,
	NamePrefixAware:      newPrefixAware,
	NameKVAware:          newKVAware,
}

// Names lists the strategies, sorted.
func Names() []string {
	names := make([]string, 0, len(registry))
	for name := range registry {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// New makes the strategy of that name. The error names the option that is out of range, or the strategies there are.
func New(name string, o Options) (Strategy, error) {
	make, ok := registry[name]
	if !ok {
		return nil, fmt.Errorf("strategy: %q is unknown; use one of %s", name, strings.Join(Names(), ", "))
	}
	return make(o)
}

// wantNone refuses the options of PREFIX_AWARE for strategies without any.
func (o Options) wantNone(name string) error {
	if o.PrefixLength != 0 || o.ConcurrencyThreshold != 0 {
		return fmt.Errorf("strategy: %s takes no prefix_length or concurrency_threshold; they belong to %s", name, NamePrefixAware)
	}
	return nil
}
