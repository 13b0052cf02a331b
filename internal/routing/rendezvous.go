package routing

import (
	"cmp"
	"slices"

	"github.com/warmpath/warmpath/internal/fleet"
)

// Score places a replica on the rendezvous order of a key (highest random weight; Thaler and Ravishankar, 1998): every router
// computes the same order without talking, and adding or removing one of n replicas moves 1/n of the keys and no others.
// Both arguments are finalised, so neighbouring addresses and small keys spread as well as any.
func Score(key, replica uint64) uint64 {
	return mix(key ^ mix(replica))
}

// mix is the 64-bit finaliser of MurmurHash3 (Appleby, public domain) with Stafford's constants, variant 13.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// better orders candidates by load, then by score, then by identity for the one case in 2^64 of equal scores.
func better(a, b Candidate) int {
	if a.load != b.load {
		return cmp.Compare(a.load, b.load)
	}
	if a.score != b.score {
		return cmp.Compare(b.score, a.score)
	}
	return cmp.Compare(a.Replica.ID(), b.Replica.ID())
}

// insert puts c into the ranking that starts at out[from:], which holds at most limit candidates (0 = any number; then the
// caller sorts when all are in).
func insert(out []Candidate, from, limit int, c Candidate) []Candidate {
	if limit <= 0 {
		return append(out, c)
	}
	if len(out)-from < limit {
		out = append(out, c)
	} else if better(c, out[len(out)-1]) < 0 {
		out[len(out)-1] = c
	} else {
		return out
	}
	for i := len(out) - 1; i > from && better(out[i], out[i-1]) < 0; i-- {
		out[i], out[i-1] = out[i-1], out[i]
	}
	return out
}

// rank appends the eligible replicas that the request has not tried, ordered by load(r) and then by the rendezvous order of key.
func rank(q *Query, v *fleet.View, key uint64, out []Candidate, load func(*Query, *fleet.View, *fleet.Replica) int64) []Candidate {
	from := len(out)
	for _, r := range v.Eligible {
		if slices.Contains(q.Tried, r) {
			continue
		}
		out = insert(out, from, q.Limit, Candidate{Replica: r, load: load(q, v, r), score: Score(key, r.Hash())})
	}
	if q.Limit <= 0 {
		slices.SortFunc(out[from:], better)
	}
	return out
}

// label gives every candidate the same reason.
func label(ranking []Candidate, reason Reason) {
	for i := range ranking {
		ranking[i].Reason = reason
	}
}

// postponed stands above every in-flight count.
const postponed = int64(1) << 40

// outstanding is a replica's load as cold work sees it: its in-flight count, behind all others for as large a share of requests
// as its slow start still withholds.
func outstanding(q *Query, v *fleet.View, r *fleet.Replica) int64 {
	return r.InFlight() + withheld(q, v, r)
}

// regardless ranks by the rendezvous order alone.
func regardless(*Query, *fleet.View, *fleet.Replica) int64 { return 0 }

// withheld is postponed for the requests that a replica in slow start should not get yet, else 0.
func withheld(q *Query, v *fleet.View, r *fleet.Replica) int64 {
	warmth := r.Warmth(q.Now, v.SlowStart)
	if warmth >= 1 || float64(Score(^q.Random, r.Hash())>>11)/(1<<53) < warmth {
		return 0
	}
	return postponed
}
