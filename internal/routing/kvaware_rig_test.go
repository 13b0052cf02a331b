package routing

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/prompt"
)

// rig is KV_AWARE before a small fleet, with a clock that stands until a test moves it.
type rig struct {
	testing.TB
	f   *fleet.Fleet
	s   *kvAware
	now time.Time
	rng *rand.Rand
}

func newRig(t testing.TB, replicas int, o Options) *rig {
	t.Helper()
	s, err := New(NameKVAware, o)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{TB: t, f: newFleet(t, replicas), s: s.(*kvAware), now: time.Unix(1000, 0), rng: newRand(1)}
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 2)) }

// publish lets every engine say how large its cache is.
func (r *rig) publish(tokens, block int64) {
	for _, each := range r.f.View().Replicas {
		each.SetSignals(fleet.Signals{CacheTokens: tokens, BlockTokens: block})
	}
}

func (r *rig) replicas() []*fleet.Replica { return r.f.View().Replicas }

func (r *rig) pass(d time.Duration) { r.now = r.now.Add(d) }

// rank is the whole ranking of a streamed request.
func (r *rig) rank(c prompt.Chain, tried ...*fleet.Replica) []Candidate {
	q := Query{Chain: c, Streamed: true, Random: r.rng.Uint64(), Now: r.now, Tried: tried}
	return r.s.Rank(&q, r.f.View(), nil)
}

// costOn is what a request would cost on one replica, and why it would go there.
func (r *rig) costOn(c prompt.Chain, on *fleet.Replica) Candidate {
	ranking := r.rank(c)
	return ranking[slices.IndexFunc(ranking, func(c Candidate) bool { return c.Replica == on })]
}

// exchange is one request on the replica that was chosen for it.
type exchange struct {
	*rig
	Candidate
	query  Query
	lease  *fleet.Lease
	flight Flight
}

// send places a streamed request as the proxy does.
func (r *rig) send(c prompt.Chain) *exchange {
	return r.place(Query{Chain: c, Streamed: true})
}

// sendTo places it on one replica by marking all others as tried.
func (r *rig) sendTo(on *fleet.Replica, c prompt.Chain) *exchange {
	others := slices.DeleteFunc(slices.Clone(r.f.View().Eligible), func(other *fleet.Replica) bool { return other == on })
	return r.place(Query{Chain: c, Streamed: true, Tried: others})
}

func (r *rig) place(q Query) *exchange {
	q.Random, q.Now, q.Limit = r.rng.Uint64(), r.now, 1
	x := &exchange{rig: r, query: q}
	x.lease = r.f.Acquire(func(v *fleet.View) *fleet.Replica {
		ranking := r.s.Rank(&x.query, v, nil)
		if len(ranking) == 0 {
			return nil
		}
		x.Candidate = ranking[0]
		x.flight = r.s.Began(&x.query, &ranking[0])
		return x.Replica
	})
	return x
}

func (x *exchange) firstToken() { x.flight.FirstToken(x.now) }

func (x *exchange) end(o Outcome) {
	o.At, o.Streamed = x.now, x.query.Streamed
	x.lease.Release()
	x.flight.Ended(o)
}

// fail ends it without an answer.
func (x *exchange) fail() { x.end(Outcome{}) }

// answer ends it with one whose engine reports nothing.
func (x *exchange) answer() {
	if x.query.Streamed {
		x.firstToken()
	}
	x.end(Outcome{Answered: true})
}

// text is n blocks that nothing else begins with: the contents are those of id.
func text(id uint64, n int) []uint64 {
	contents := make([]uint64, n)
	for i := range contents {
		contents[i] = mix(id<<20 + uint64(i))
	}
	return contents
}

// chain is the prompt of the texts, one behind the other.
func chain(texts ...[]uint64) prompt.Chain {
	var c prompt.Chain
	hash := uint64(0)
	for _, contents := range slices.Concat(texts...) {
		hash = mix(hash + contents)
		c.Blocks = append(c.Blocks, hash)
	}
	c.Bytes = len(c.Blocks) * prompt.BlockBytes
	return c
}

// document is a prompt of n blocks that shares nothing with others.
func document(id uint64, n int) prompt.Chain { return chain(text(id, n)) }
