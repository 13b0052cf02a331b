package proxy

import (
	"net/http"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/dialect"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/health"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// failure is an attempt that gave the client nothing.
type failure struct {
	reason  string // a metric label
	outcome health.Outcome
	err     error
	status  int    // what the client is told if no other attempt is made
	code    string // and why
	message string
	retry   bool // another attempt has been decided on
}

// The failures of an attempt, without their causes.
var (
	failUnreachable = failure{reason: "unreachable", status: http.StatusBadGateway, code: "upstream_unreachable",
		message: "no replica could be reached"}
	failLocal = failure{reason: "local", status: http.StatusServiceUnavailable, code: "router_exhausted",
		message: "the router has no ports, file descriptors or memory left for another connection; try again"}
	failReset = failure{reason: "reset", status: http.StatusBadGateway, code: "upstream_reset",
		message: "the replica broke off before it answered"}
	failLost = failure{reason: "lost", outcome: health.Cancelled, status: http.StatusBadGateway, code: "upstream_lost",
		message: "the replica went away before it answered"}
	failGivenUp = failure{reason: "given_up", outcome: health.ServerFault}
	failSilent  = failure{reason: "timeout", outcome: health.ServerFault, status: http.StatusGatewayTimeout, code: "upstream_timeout",
		message: "the replica sent nothing within the endpoint's time limit (timeouts.first_byte, timeouts.idle)"}
	failLate = failure{reason: "total_timeout", outcome: health.Cancelled, status: http.StatusGatewayTimeout, code: "request_timeout",
		message: "the request ran into the endpoint's total time limit (timeouts.total)"}
	failCancelled = failure{reason: "cancelled", outcome: health.Cancelled}
)

// because gives a failure its cause.
func (f failure) because(err error) *failure {
	f.err = err
	return &f
}

// final says that another attempt would make no sense.
func (f *failure) final() bool {
	return f.reason == failCancelled.reason || f.reason == failLate.reason
}

// forward sends the request to one replica after another until one answers.
func (x *exchange) forward() *dialect.Error {
	x.plan.endpoint.Budget.Request()
	for {
		fail, err := x.attempt()
		if fail == nil {
			return err
		}
		if !fail.retry {
			return x.giveUp(fail)
		}
		x.Metrics.Retry(x.rec.Endpoint, x.rec.Variant, fail.reason)
		x.rec.FirstByte, x.rec.EngineDone = 0, 0 // of an answer that nobody gets
	}
}

// mayRetry decides whether a failed attempt is followed by another one, elsewhere. Nothing is charged to the endpoint's budget for
// one that never reached an engine, or whose engine is gone, as a second look may show: it adds no load to that which the fleet had
// taken on. If the engine has died of it, it must not go through the fleet: it gets one other.
func (c *call) mayRetry(f *failure) bool {
	x := c.x
	if f.final() || x.bound() || x.clientGone() || x.rec.Attempts >= x.plan.endpoint.MaxAttempts || !hasAnotherReplica(x.plan.variant.Pool.Fleet, x.tried) {
		return false
	}
	switch f.reason {
	case failUnreachable.reason, failLost.reason:
		return true
	case failGivenUp.reason:
		return x.rec.Attempts == 1
	}
	if x.plan.endpoint.Budget.Retry() {
		return true
	}
	if f.reason != failReset.reason {
		return false
	}
	outcome := c.broken(knockHold)
	if outcome == health.ServerFault {
		return false
	}
	*f = *failLost.because(f.err)
	f.outcome = outcome
	return true
}

// hasAnotherReplica says whether the fleet has a replica to offer that is not among those tried. One that was removed and is back
// under its address counts: the attempt there is over. Compare hasAnotherAddress.
func hasAnotherReplica(f *fleet.Fleet, tried []*fleet.Replica) bool {
	return slices.ContainsFunc(f.View().Eligible, func(r *fleet.Replica) bool { return !slices.Contains(tried, r) })
}

// giveUp words the last failure for the client.
func (x *exchange) giveUp(f *failure) *dialect.Error {
	x.rec.Outcome = telemetry.OutcomeUpstreamError
	if f.status == http.StatusGatewayTimeout {
		x.rec.Outcome = telemetry.OutcomeTimeout
	}
	if m := x.plan.session; m != nil && m.Gone() {
		return m.refusal()
	}
	e := &dialect.Error{Status: f.status, Code: f.code, Message: f.message, Cause: f.err}
	if f.status != http.StatusGatewayTimeout {
		e.RetryAfter = time.Second
	}
	return e
}

// noReplica is the answer of a fleet that has nobody to offer.
func (p *plan) noReplica() *dialect.Error {
	e := &dialect.Error{Status: http.StatusServiceUnavailable, Code: "no_replica", RetryAfter: time.Second,
		Message: "no replica is there to serve this model now; try again"}
	if c := p.variant.Component; c != "" { // as SageMaker begins
		e.Message = "Inference Component has no capacity to process this request: " + c + " has no copies now; try again, or give it some"
	}
	return e
}

// acquire lets the variant's strategy choose a replica and counts the request there in the same step. A strategy that learns gets
// to know of it by the flight; others have none.
func (x *exchange) acquire() (*fleet.Lease, routing.Flight) {
	began := x.Now()
	p := x.plan
	p.query.Tried, p.query.Now = x.tried, began
	observer, _ := p.variant.Strategy.(routing.Observer)
	var first [1]routing.Candidate
	var flight routing.Flight
	lease := p.variant.Pool.Fleet.Acquire(func(v *fleet.View) *fleet.Replica {
		ranking := p.rank(v, first[:0])
		if len(ranking) == 0 {
			return nil
		}
		first[0] = ranking[0]
		if observer != nil {
			flight = observer.Began(&p.query, &first[0])
		}
		return ranking[0].Replica
	})
	decided := x.Now()
	x.rec.Decide, x.rec.Dispatched = x.rec.Decide+decided.Sub(began), decided.Sub(x.rec.Start)
	if lease == nil {
		return nil, nil
	}
	x.rec.Replica, x.rec.Decision = lease.Replica().ID(), string(first[0].Reason)
	if len(x.tried) > 0 {
		x.rec.Decision = string(routing.Retry)
	}
	if c := first[0].Cost; c.PromptTokens > 0 {
		x.rec.PredictedHit, x.rec.Predicted = c.HitTokens/c.PromptTokens, true
	}
	return lease, flight
}
