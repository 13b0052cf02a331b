// Package proxy is the request path: one request from the client's bytes to the engine's answer, in files to be read in this order:
// proxy.go, credentials.go, body.go, plan.go, component.go, retry.go, attempt.go, relay.go, observe.go; shadow.go sends copies of it to shadow variants, sagemaker.go is how the answers of SageMaker's runtime API differ, session.go how its sessions stay with a replica, models.go and passthrough.go are the two side doors.
package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/auth"
	"github.com/warmpath/warmpath/internal/dialect"
	"github.com/warmpath/warmpath/internal/endpoint"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/session"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// Limits bound what a client may send.
type Limits struct {
	Body        int64         // bytes of a request body as sent
	DecodedBody int64         // bytes of a request body after its Content-Encoding is undone
	BodyIdle    time.Duration // longest silence while a body is read; 0 = none
}

// Settings are what a reload may change. A request keeps those it began with.
type Settings struct {
	Table  *endpoint.Table
	Limits Limits
	// Auth knows who may call; nil = anybody may.
	Auth *auth.Authenticator
	// DecisionHeaders adds X-Warmpath-Replica and X-Warmpath-Decision to answers.
	DecisionHeaders bool
	// TrustForwarded appends to a client's X-Forwarded-* headers instead of replacing them.
	TrustForwarded bool
}

// Options are what a Proxy is made of.
type Options struct {
	// Current gives the settings; it is called once a request and must not block.
	Current func() *Settings
	Metrics *telemetry.Metrics
	// Sessions knows which replica keeps which session.
	Sessions *session.Table
	// Access takes the record of each ended request and keeps nothing of it but by copy.
	Access func(*telemetry.Request)
	Log    *slog.Logger
	Now    func() time.Time
	// Random gives uniform 64-bit numbers and may be called from many goroutines.
	Random func() uint64
}

// Proxy serves the data plane.
type Proxy struct {
	Options
	alarms  *alarms
	shadows *shadows
}

// New makes a Proxy. All options are required.
func New(o Options) *Proxy { return &Proxy{Options: o, alarms: newAlarms(), shadows: newShadows()} }

// Close cuts off what runs for no client, which are the copies sent to shadow variants, and waits for their end. Requests of clients
// go on, without copies.
func (p *Proxy) Close() { p.shadows.close() }

// exchange is one request on its way.
type exchange struct {
	*Proxy
	*Settings
	w    http.ResponseWriter
	r    *http.Request
	rc   *http.ResponseController
	rec  telemetry.Request
	body *body

	claim  *auth.Claim
	caller *auth.Caller // nil = anybody, or not known yet

	route  dialect.Route
	shadow *endpoint.Shadow // nil = this is a client's request
	plan   *plan
	tried  []*fleet.Replica

	opening bool // an answer has begun with which a session may have been opened
	abort   bool // the answer must look broken to the client
}

// ServeHTTP takes one request through its life: recognise, read, plan, forward, account.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{Proxy: p, Settings: p.Current(), w: w, r: r, rc: http.NewResponseController(w)}
	x.rec = telemetry.Request{Start: p.Now(), Method: r.Method, Path: r.URL.Path, ID: requestID(r, p.Random)}
	defer x.finish()
	if err := x.serve(); err != nil {
		x.refuse(err)
	}
}

func (x *exchange) serve() *dialect.Error {
	route, known := dialect.Recognise(x.r.Method, x.r.URL.EscapedPath())
	x.route, x.rec.API = route, route.Dialect.Name()
	switch {
	case !known && strings.HasPrefix(x.r.Header.Get("X-Amz-Target"), "SageMaker."):
		x.route.Dialect = dialect.SageMaker{} // whose words its clients read
		return &dialect.Error{Status: http.StatusNotFound, Code: "unknown_path", Name: "UnknownOperationException",
			Message: "the control plane is not served here, but on a listener of its own (control_plane.listen)"}
	case !known || !plain(x.r.URL.Path):
		return &dialect.Error{Status: http.StatusNotFound, Code: "unknown_path",
			Message: "this path is not served here; the APIs are under /v1, those of an endpoint by its name under /endpoints/NAME, and health and metrics are on the admin listener"}
	case x.r.Method == http.MethodConnect || x.r.Method == http.MethodTrace: // TRACE would show the engine's credentials
		return &dialect.Error{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed",
			Message: "CONNECT and TRACE are not served here"}
	}
	if err := x.begin(); err != nil {
		return err
	}
	switch {
	case route.Refusal != nil:
		return route.Refusal
	case route.Models:
		return x.listModels()
	case upgrades(x.r) && route.Invocation == dialect.NoInvocation: // an invocation cannot change protocols, and is served without
		return x.passThrough()
	}
	if err := x.readBody(); err != nil {
		return err
	}
	read := x.Now()
	if err := x.prove(); err != nil {
		return err
	}
	if err := x.decide(); err != nil {
		return err
	}
	x.mirror()
	x.rec.Added = x.Now().Sub(read)
	return x.forward()
}

// decide makes a plan, if its caller may have it, and notes it in the record.
func (x *exchange) decide() *dialect.Error {
	p, err := x.planFor(x.Settings, x.route, x.r, x.body.bytes(), x.shadow)
	if p != nil {
		x.rec.Endpoint = p.endpoint.Name
		if denied := x.permit(p.endpoint); denied != nil { // who may not use it learns nothing of its variants and sessions
			err = denied
		}
	}
	if err != nil {
		p.release()
		return err
	}
	x.plan = p
	x.rec.Variant, x.rec.Strategy = p.variant.Label(), p.variant.Strategy.Name()
	x.rec.Stream, x.rec.PrefixKey, x.rec.HasPrefixKey = p.stream, p.query.Key, p.query.HasKey
	return nil
}

// plain refuses paths whose dot segments an engine might resolve to something that is not under /v1.
func plain(p string) bool {
	return path.Clean(p) == strings.TrimSuffix(p, "/") || !strings.Contains(p, "/.")
}

// refuse answers with an error of Warmpath's own. A client that is gone gets none: its connection is cut, since one that has only
// closed its sending half would take silence for an empty 200. A body's time limit ends the context too, but that client is there.
func (x *exchange) refuse(e *dialect.Error) {
	x.rec.Code = e.Code
	if e.Cause != nil {
		x.rec.Err = loggable(e.Cause)
	}
	if x.clientGone() && e.Status != http.StatusRequestTimeout {
		x.rec.Outcome, x.rec.Status, x.abort = telemetry.OutcomeClientCancelled, telemetry.StatusClientClosed, true
		return
	}
	if x.rec.Outcome == "" {
		x.rec.Outcome = telemetry.OutcomeRefused
	}
	x.word(e)
}

// word answers with an error in the words of the API that was called.
func (x *exchange) word(e *dialect.Error) {
	h := x.w.Header()
	h.Set("X-Request-Id", x.rec.ID)
	x.decorate(h)
	x.rec.Status = x.route.WriteError(x.w, e)
}

// loggable is an error's text without what it quotes: those of HTTP parsers repeat the bytes they stumbled over, which may be
// a part of an answer.
func loggable(err error) string {
	text, _, _ := strings.Cut(err.Error(), `"`)
	text, _, _ = strings.Cut(text, "header line: ")
	return strings.TrimRight(text, " :")
}

// finish accounts for the request on every way out, panics included. An answer that must look broken ends in the panic by
// which net/http cuts a connection without a log line.
func (x *exchange) finish() {
	x.rec.Total = x.Now().Sub(x.rec.Start)
	x.rec.BytesIn = x.body.size()
	if x.plan != nil {
		x.plan.endpoint.Recorder.Take(&x.rec, x.plan.encode) // while the body is there
	}
	x.plan.release()
	x.leaveBody()
	x.body.release()
	if x.rec.Outcome == "" {
		x.rec.Outcome, x.rec.Status = telemetry.OutcomeUpstreamError, http.StatusInternalServerError
	}
	x.Metrics.Observe(&x.rec)
	x.Access(&x.rec)
	if x.abort {
		panic(http.ErrAbortHandler)
	}
}

// clientGone says that the client has left, in the one way Go's server tells: by ending the request's context.
func (x *exchange) clientGone() bool { return context.Cause(x.r.Context()) != nil }
