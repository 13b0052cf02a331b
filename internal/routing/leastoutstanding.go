package routing

import "github.com/warmpath/warmpath/internal/fleet"

// NameLeastOutstanding is the strategy LEAST_OUTSTANDING_REQUESTS: the replica with the fewest requests in flight.
const NameLeastOutstanding = "LEAST_OUTSTANDING_REQUESTS"

type leastOutstanding struct{}

func newLeastOutstanding(o Options) (Strategy, error) {
	return leastOutstanding{}, o.wantNone(NameLeastOutstanding)
}

func (leastOutstanding) Name() string { return NameLeastOutstanding }

// Rank breaks ties at random: with fewer requests than replicas, "the first" would leave the others cold for ever.
func (leastOutstanding) Rank(q *Query, v *fleet.View, out []Candidate) []Candidate {
	from := len(out)
	out = rank(q, v, q.Random, out, outstanding)
	label(out[from:], LeastOutstanding)
	return out
}
