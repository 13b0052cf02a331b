package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/dialect"
	"github.com/warmpath/warmpath/internal/health"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// errClient says that the client no longer takes its answer.
var errClient = errors.New("client: went away or stopped reading")

// relay passes the answer on as it comes and tells what it says about the replica.
func (c *call) relay() health.Outcome {
	c.track()
	if c.x.route.Invocation != dialect.NoInvocation && c.resp.StatusCode >= 400 {
		return c.quote()
	}
	c.commit()
	o := newObserver(c)
	err := c.copy(o, newStripper(c, o))
	if err == nil {
		err = c.lastWrite()
	}
	o.finish()
	return c.settle(err, o)
}

// commit writes the answer's header to the client; from here on there is no other replica.
func (c *call) commit() {
	x := c.x
	h := x.w.Header()
	named := connectionNames(c.resp.Header)
	for name, values := range c.resp.Header {
		if !hopByHop[name] && !named[name] && !strings.HasPrefix(name, ownPrefix) {
			h[name] = values
		}
	}
	if _, ok := h["Date"]; !ok {
		h["Date"] = nil // the engine's silence is passed on as well
	}
	setDefault(h, "X-Request-Id", x.rec.ID)
	x.decorate(h)
	for name := range c.resp.Trailer {
		h.Add("Trailer", name)
	}
	c.announced = len(c.resp.Trailer)
	if x.route.Invocation == dialect.InvokeStream {
		c.frames = newFramer(h)
	}
	x.rec.Status = c.resp.StatusCode
	if c.resp.StatusCode < 400 {
		x.plan.variant.Pool.Outlier.Answering(c.lease)
	}
	x.w.WriteHeader(c.resp.StatusCode)
}

// copy passes on the body read by read. Whatever has no known length is flushed at once, whatever its type: event streams,
// NDJSON, audio. A client that has left gets nothing more; whether the engine is heard to its end is the pool's choice.
func (c *call) copy(o *observer, s *stripper) error {
	flush := c.resp.ContentLength < 0
	var left error
	for {
		chunk := (*c.buf)[:c.n]
		o.see(chunk)
		if chunk = s.next(chunk, c.end != nil); left == nil && len(chunk) > 0 {
			left = c.write(c.frames.part(chunk), flush)
		}
		switch {
		case left != nil && !c.x.plan.variant.Pool.KeepOnDisconnect:
			return left
		case errors.Is(c.end, io.EOF):
			return left
		case c.end != nil:
			return c.end
		}
		c.watch.listen()
		c.n = c.read(*c.buf)
		c.watch.heard()
	}
}

// write passes a chunk on. The watchdog gives the client as long for it as an engine may be silent, so that one that does not read
// holds no memory for longer than that.
func (c *call) write(chunk []byte, flush bool) error {
	x := c.x
	if x.clientGone() {
		return errClient
	}
	n, err := x.w.Write(chunk)
	x.rec.BytesOut += int64(n)
	if err == nil && flush {
		err = x.rc.Flush()
	}
	if err != nil {
		return errors.Join(errClient, err)
	}
	return nil
}

// lastWrite sends what is left while the watchdog is still there: a client that does not read must not hold the request at its
// very end either. What net/http adds later, the end of a chunked body, has a time limit of its own.
func (c *call) lastWrite() error {
	if idle := c.x.plan.endpoint.Timeouts.Idle; idle > 0 && c.resp.ContentLength < 0 {
		_ = c.x.rc.SetWriteDeadline(time.Now().Add(idle))
	}
	if len(c.resp.Trailer) > 0 {
		c.passTrailers()
	} else if c.resp.ContentLength >= 0 {
		return c.write(nil, true)
	}
	return nil
}

// passTrailers sends the engine's trailers, announced or not.
func (c *call) passTrailers() {
	_ = c.x.rc.Flush() // a body must have been sent in chunks for trailers to follow
	prefix := ""
	if len(c.resp.Trailer) != c.announced {
		prefix = http.TrailerPrefix
	}
	h := c.x.w.Header()
	for name, values := range c.resp.Trailer {
		h[prefix+name] = values
	}
}

// settle records how the answer ended and makes a broken one look broken.
func (c *call) settle(err error, o *observer) health.Outcome {
	x := c.x
	o.record(&x.rec)
	cause := context.Cause(c.ctx)
	switch {
	case err == nil:
		return c.whole(o.failed)
	case errors.Is(err, errClient) || x.clientGone():
		x.rec.Outcome, x.abort = telemetry.OutcomeClientCancelled, true
		return health.Cancelled
	}
	x.abort = !c.confess(err, cause)
	x.rec.Err, x.rec.Outcome = loggable(err), telemetry.OutcomeUpstreamAborted
	switch {
	case errors.Is(cause, errLate):
		x.rec.Err, x.rec.Outcome = cause.Error(), telemetry.OutcomeTimeout
		return health.Cancelled
	case errors.Is(cause, errSilent):
		x.rec.Err, x.rec.Outcome = cause.Error(), telemetry.OutcomeTimeout
	case errors.Is(cause, errLost):
		x.rec.Err = cause.Error()
		return health.Cancelled
	default:
		return c.broken(0)
	}
	return health.ServerFault
}

// whole records an answer that came to its end. An engine's own error inside a 200 stream, failed, counts as its failure.
func (c *call) whole(failed bool) health.Outcome {
	rec, status := &c.x.rec, c.resp.StatusCode
	switch {
	case failed:
		rec.Outcome, rec.Err = telemetry.OutcomeUpstreamError, "engine: error event inside the stream"
		return health.ServerFault
	case status >= 500:
		rec.Outcome = telemetry.OutcomeUpstreamError
	case status >= 400:
		rec.Outcome = telemetry.OutcomeClientError
	default:
		rec.Outcome, c.answered = telemetry.OutcomeOK, true
	}
	return health.OfStatus(status)
}
