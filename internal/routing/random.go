package routing

import "github.com/warmpath/warmpath/internal/fleet"

// NameRandom is the strategy RANDOM: every replica is as likely as every other.
const NameRandom = "RANDOM"

type random struct{}

func newRandom(o Options) (Strategy, error) { return random{}, o.wantNone(NameRandom) }

func (random) Name() string { return NameRandom }

// Rank is the rendezvous order of a key drawn for this request, which is a uniform permutation.
func (random) Rank(q *Query, v *fleet.View, out []Candidate) []Candidate {
	from := len(out)
	out = rank(q, v, q.Random, out, withheld)
	label(out[from:], Random)
	return out
}
