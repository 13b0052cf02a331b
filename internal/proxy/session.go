package proxy

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/dialect"
	"github.com/warmpath/warmpath/internal/endpoint"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/session"
)

// membership is a request's part in a session that is kept by one replica, which alone may be asked.
type membership struct {
	id string
	session.Pin
}

// join finds the session that a request belongs to, if it names one, and takes its variant in place of the one that was drawn.
func (p *plan) join(t *session.Table, route dialect.Route, h http.Header) *dialect.Error {
	id := h.Get(dialect.HeaderSession)
	if id == "" || id == dialect.NewSession || !route.HasSessions() {
		return nil
	}
	pin, known := t.Find(p.endpoint.Name, id)
	if !known {
		return dialect.SessionNotFound(id)
	}
	member, keeper := &membership{id, pin}, (*endpoint.Variant)(nil)
	if keeper = member.variantOf(p.endpoint); keeper == nil || member.Gone() {
		return member.refusal()
	}
	named := p.endpoint.ByComponent || route.Endpoint != "" && h.Get(dialect.HeaderTargetVariant) != ""
	if named && keeper != p.variant {
		return dialect.SessionMismatch(id, keeper.Label(), p.variant.Label())
	}
	p.session, p.variant = member, keeper
	return nil
}

// variantOf finds the variant whose pool has the session's replica. A reload may have renamed the one in which it was opened.
func (m *membership) variantOf(e *endpoint.Endpoint) *endpoint.Variant {
	has := func(v *endpoint.Variant) bool { return slices.Contains(v.Pool.Fleet.View().Replicas, m.Replica) }
	same := func(v *endpoint.Variant) bool { return v.Label() == m.Variant && has(v) }
	for _, fits := range []func(*endpoint.Variant) bool{same, has} {
		if i := slices.IndexFunc(e.Variants, fits); i >= 0 {
			return e.Variants[i]
		}
	}
	return nil
}

// refusal is the answer to a session that nobody keeps any more.
func (m *membership) refusal() *dialect.Error {
	if m.Gone() && !m.Replica.Removed() {
		return dialect.SessionGone(m.id, "the engine that kept it has died or was restarted")
	}
	return dialect.SessionGone(m.id, "its replica left the endpoint")
}

// rank orders the replicas that may be asked. Of those a session leaves one, which the strategy is told of all the same: it is to know
// what the replica will hold and how busy it is.
func (p *plan) rank(v *fleet.View, out []routing.Candidate) []routing.Candidate {
	if p.session == nil {
		return p.variant.Strategy.Rank(&p.query, v, out)
	}
	out = p.variant.Strategy.Rank(&p.query, v.Only(p.session.Replica), out)
	for i := range out {
		out[i].Reason = routing.Session
	}
	return out
}

// bound says that the request may not be sent to another replica: its session is kept by this one, or is likely to have been opened there.
func (x *exchange) bound() bool { return x.plan.session != nil || x.opening }

// opens says that a request wants a session opened.
func opens(route dialect.Route, h http.Header) bool {
	return route.HasSessions() && h.Get(dialect.HeaderSession) == dialect.NewSession
}

// nobody is the answer where there is no replica to ask.
func (x *exchange) nobody() *dialect.Error {
	switch m := x.plan.session; {
	case m == nil:
		return x.plan.noReplica()
	case m.Gone():
		return m.refusal()
	}
	return &dialect.Error{Status: http.StatusServiceUnavailable, Code: "session_not_ready", RetryAfter: time.Second,
		Message: "the replica that keeps the session is not ready now; try again"}
}

// track notes what an engine says of sessions. A new one is pinned before the client learns of it, to the process that was there when
// the request was sent.
func (c *call) track() {
	x := c.x
	if !x.route.HasSessions() {
		return
	}
	if closed := c.resp.Header.Get(dialect.HeaderClosedSession); closed != "" {
		c.clerical = true
		x.Sessions.Close(x.plan.endpoint.Name, closed)
	}
	now := x.Now()
	id, lasts, opened := dialect.OpenedSession(c.resp.Header, now)
	if !opened || c.resp.StatusCode >= 400 {
		return
	}
	pin := session.Pin{
		Variant: x.plan.variant.Label(), Replica: c.replica, Life: c.lost,
		Expires: now.Add(cmp.Or(lasts, x.plan.endpoint.SessionTTL)),
	}
	if x.Sessions.Open(x.plan.endpoint.Name, id, pin) {
		c.clerical = true
		x.Metrics.SessionOpened(x.plan.endpoint.Name)
	}
}
