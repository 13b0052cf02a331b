package simulate

import (
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/emulator"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/workload"
)

// maxAttempts is the most replicas that one request is sent to: the default of an endpoint's max_attempts.
const maxAttempts = 3

// How exchanges end, as the errors of a run name it.
const (
	answered         = ""
	failedBroken     = "broken"   // its replica died while it answered
	failedInvalid    = "http_400" // the engine refuses it: unreadable, or longer than a cache
	failedEverywhere = "http_502" // every replica that it may be sent to is dead
	failedNoReplica  = "http_503" // there was nobody to ask
)

// exchange is one request on its way through the fleet.
type exchange struct {
	router    *router
	query     routing.Query
	sequences []*emulator.Request // its answers; none if no engine can read it
	open      int                 // of them, not finished
	lease     *fleet.Lease        // nil while no replica has it
	flight    routing.Flight      // what the strategy learns from; nil as the lease, or if it learns nothing
	replica   *replica            // that has it; nil with the lease
	place     int                 // in the replica's inFlight
	decision  routing.Reason      // why it is there
	intended  time.Duration
	counted   bool            // it is not part of the warm-up
	begun     bool            // a token has been generated
	first     time.Duration   // when the first was
	last      time.Duration   // when the latest was
	gaps      []time.Duration // between one and the next
}

func newExchange(r *workload.Request, blockTokens int) *exchange {
	x := &exchange{intended: r.At, query: routing.Query{Limit: 1}}
	x.use(sequences(r, blockTokens))
	return x
}

// sequences is what an engine computes for a request; none if it cannot read it. A traced answer without tokens has its end token.
func sequences(r *workload.Request, blockTokens int) []*emulator.Request {
	if r.Blocks != nil {
		return []*emulator.Request{{Chain: r.Blocks, PromptTokens: r.PromptTokens, OutputTokens: max(1, r.OutputTokens)}}
	}
	path, _, _ := strings.Cut(r.Path, "?")
	list, err := emulator.Requests(path, r.Body, blockTokens)
	if err != nil {
		return nil
	}
	return list
}

func (x *exchange) use(list []*emulator.Request) {
	for _, q := range list {
		q.Data = x
	}
	x.sequences, x.open = list, len(list)
}

// advance notes that a sequence has one more token, the generated-th of its own; 0 is the end of one without output.
func (x *exchange) advance(generated int, now time.Duration) {
	switch {
	case generated == 0:
		return
	case x.begun:
		x.gaps = append(x.gaps, now-x.last)
	default:
		x.begun, x.first = true, now
		if x.flight != nil && x.query.Streamed {
			x.flight.FirstToken(wall(now))
		}
		x.gaps = make([]time.Duration, 0, x.sequences[0].OutputTokens-1)
	}
	x.last = now
}

// abandon leaves a dead replica, so that another can be tried.
func (x *exchange) abandon(now time.Duration) {
	x.release(false, now)
	x.query.Tried = append(x.query.Tried, x.lease.Replica())
	x.lease, x.flight, x.replica, x.decision = nil, nil, nil, ""
	fresh := make([]*emulator.Request, len(x.sequences))
	for i, q := range x.sequences {
		fresh[i] = &emulator.Request{Chain: q.Chain, PromptTokens: q.PromptTokens, OutputTokens: q.OutputTokens}
	}
	x.use(fresh)
}

// release gives back the hold on the replica, if there is one, and tells the strategy how the request ended there.
func (x *exchange) release(answered bool, now time.Duration) {
	if x.lease == nil {
		return
	}
	x.lease.Release()
	x.replica.forget(x)
	if x.flight == nil {
		return
	}
	o := routing.Outcome{At: wall(now), Answered: answered, Streamed: x.query.Streamed}
	if answered && x.router.reported {
		o.CachedKnown = len(x.sequences) == 1 // as engines report an array of prompts
		for _, q := range x.sequences {
			o.PromptTokens += q.PromptTokens
			o.CachedTokens += q.Cached()
			o.OutputTokens += q.Generated()
		}
	}
	x.flight.Ended(o)
}
