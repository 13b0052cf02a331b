package routing

import (
	"fmt"
	"slices"

	"github.com/warmpath/warmpath/internal/fleet"
)

// NamePrefixAware is the strategy PREFIX_AWARE, Amazon SageMaker's contract: requests with the same prefix go to the same
// replica while it has fewer than ConcurrencyThreshold requests in flight.
const NamePrefixAware = "PREFIX_AWARE"

// The ranges of the two settings (SageMaker API, PrefixAwareRoutingConfig).
const (
	MinPrefixLength         = 1024
	MaxPrefixLength         = 65536
	MinConcurrencyThreshold = 1
	MaxConcurrencyThreshold = 1024
)

type prefixAware struct {
	prefixLength  int
	threshold     int64
	siblingsFirst bool
}

func newPrefixAware(o Options) (Strategy, error) {
	if err := within("prefix_length", o.PrefixLength, MinPrefixLength, MaxPrefixLength); err != nil {
		return nil, err
	}
	if err := within("concurrency_threshold", o.ConcurrencyThreshold, MinConcurrencyThreshold, MaxConcurrencyThreshold); err != nil {
		return nil, err
	}
	return &prefixAware{prefixLength: o.PrefixLength, threshold: int64(o.ConcurrencyThreshold), siblingsFirst: o.SiblingsFirst}, nil
}

// within words a range as SageMaker does.
func within(name string, value, low, high int) error {
	bound, limit := "greater", low
	switch {
	case value == 0:
		return fmt.Errorf("strategy: %s needs %s, %d to %d", NamePrefixAware, name, low, high)
	case value >= low && value <= high:
		return nil
	case value > high:
		bound, limit = "less", high
	}
	return fmt.Errorf("strategy: Value '%d' at '%s' failed to satisfy constraint: Member must have value %s than or equal to %d", value, name, bound, limit)
}

func (*prefixAware) Name() string { return NamePrefixAware }

// PrefixLength is the length of the window that is hashed, in bytes of a raw body or characters of message text.
func (s *prefixAware) PrefixLength() int { return s.prefixLength }

// Rank puts the first replica of the key's rendezvous order first, and the rest of that order behind it: if the first fails,
// the key goes where it would go without it. A preferred replica at its threshold sends this one request to the least busy
// of the others, of copies first to the least busy sibling; when those are at it too, to the least busy of all. Requests without a
// key go by load alone.
func (s *prefixAware) Rank(q *Query, v *fleet.View, out []Candidate) []Candidate {
	from := len(out)
	if !q.HasKey {
		out = rank(q, v, q.Random, out, outstanding)
		label(out[from:], Fallback)
		return out
	}
	out = rank(q, v, q.Key, out, regardless)
	label(out[from:], Affinity)
	if len(out) == from || out[from].Replica.InFlight() < s.threshold || len(v.Eligible) == 1 {
		return out
	}
	preferred := out[from].Replica
	host := preferred.URL().Hostname()
	out = rank(q, v, q.Key, out[:from], func(q *Query, v *fleet.View, r *fleet.Replica) int64 { return s.spared(q, v, r, host) })
	label(out[from:], Overflow)
	if i := slices.IndexFunc(out[from:], func(c Candidate) bool { return c.Replica == preferred }); i >= 0 {
		out[from+i].Reason = Affinity
	}
	return out
}

// spared is a replica's load as a request sees it that the preferred one, on host, has no room for. Siblings, on the same host, go
// before all others while they are below the threshold and their slow start does not withhold them.
func (s *prefixAware) spared(q *Query, v *fleet.View, r *fleet.Replica, host string) int64 {
	load := outstanding(q, v, r)
	if s.siblingsFirst && load < s.threshold && r.URL().Hostname() == host {
		load -= postponed
	}
	return load
}
