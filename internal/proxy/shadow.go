package proxy

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"

	"github.com/warmpath/warmpath/internal/dialect"
	"github.com/warmpath/warmpath/internal/endpoint"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// maxShadowBodies is how many bytes of request bodies the copies under way may keep in memory together.
const maxShadowBodies = 64 << 20

// shadows are the copies of requests that are under way.
type shadows struct {
	ctx    context.Context // of every copy; ends with close
	cancel context.CancelFunc
	bodies *endpoint.Room
	// open is held for reading by every copy and for writing by close, which so waits for them. Clients only try it: they never wait.
	open sync.RWMutex
}

func newShadows() *shadows {
	s := &shadows{bodies: endpoint.NewRoom(maxShadowBodies)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

func (s *shadows) close() {
	s.cancel()
	s.open.Lock()
	defer s.open.Unlock()
}

// mirror sends copies of the request to the endpoint's shadow variants, a share of the requests to each. What a copy shares with the
// client's request is only read, and what is bounded is only tried for, so that the client waits for nothing.
func (x *exchange) mirror() {
	for _, s := range x.plan.endpoint.Shadows {
		if repeatable(x.r) && x.draw() < s.Share {
			x.cast(s)
		}
	}
}

// repeatable says that a copy makes sense: one of what asks for an answer. A session is a thing of one engine, and so is what the other
// methods read and delete.
func repeatable(r *http.Request) bool {
	return r.Method == http.MethodPost && r.Header.Get(dialect.HeaderSession) == ""
}

// cast starts a copy for a shadow, if there is room for one.
func (x *exchange) cast(s *endpoint.Shadow) {
	all := x.shadows
	if !all.open.TryRLock() {
		return // closing
	}
	limit, kept := "", x.keeps()
	switch {
	case all.ctx.Err() != nil: // closed
	case !s.Room.Take(1):
		limit = "requests"
	case !all.bodies.Take(kept):
		s.Room.Leave(1)
		limit = "memory"
	default:
		go x.copyFor(s).run(kept)
		return
	}
	all.open.RUnlock()
	if limit != "" {
		x.Metrics.ShadowDropped(x.rec.Endpoint, s.Variant().Name, limit)
	}
}

// keeps is how many bytes of bodies a copy keeps: the client's and, where the engine gets another, that one, which is as large as the
// client's plan has it.
func (x *exchange) keeps() int64 {
	n := x.body.size()
	if x.plan.decoded {
		n += int64(len(x.plan.body))
	}
	return n
}

// copyFor is an exchange of its own that nobody waits for: it goes on when the client leaves, and its answer goes nowhere. The body is
// the client's, which nobody changes, and is kept until both are done with it.
func (x *exchange) copyFor(s *endpoint.Shadow) *exchange {
	x.body.hold()
	r := x.r.Clone(x.shadows.ctx)
	r.Body = nil
	r.Header.Del(dialect.HeaderTargetVariant)
	w := nowhere{}
	return &exchange{
		Proxy: x.Proxy, Settings: x.Settings, w: w, r: r, rc: http.NewResponseController(w), body: x.body, route: x.route, shadow: s,
		rec: telemetry.Request{
			Start: x.rec.Start, Method: x.rec.Method, Path: x.rec.Path, ID: x.rec.ID, API: x.rec.API, Endpoint: x.rec.Endpoint,
			Variant: s.Variant().Name, Shadow: true,
		},
	}
}

// run takes a copy that keeps that many bytes through its life: plan, forward, account.
func (x *exchange) run(kept int64) {
	defer x.shadows.open.RUnlock()
	defer x.vanish(kept)
	err := x.decide()
	if err == nil {
		err = x.forward()
	}
	if err != nil {
		x.refuse(err)
	}
}

// vanish is finish for a copy. A panic ends here: it may not end the clients' requests, as it would.
func (x *exchange) vanish(kept int64) {
	if p := recover(); p != nil {
		x.Log.Error("panic in a copy for a shadow variant", "endpoint", x.rec.Endpoint, "variant", x.rec.Variant,
			"panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		x.rec.Outcome = telemetry.OutcomeUpstreamError
	}
	x.rec.Total = x.Now().Sub(x.rec.Start)
	x.rec.BytesIn = x.body.size()
	x.plan.release()
	x.shadows.bodies.Leave(kept)
	x.body.release()
	x.shadow.Room.Leave(1)
	x.Metrics.ObserveShadow(&x.rec)
	telemetry.Access(x.Log, &x.rec)
}

// nowhere is a client that takes everything and keeps nothing. It is the header of the answer.
type nowhere http.Header

func (w nowhere) Header() http.Header         { return http.Header(w) }
func (w nowhere) WriteHeader(int)             {}
func (w nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (w nowhere) Flush()                      {}
