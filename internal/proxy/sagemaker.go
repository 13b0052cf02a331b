package proxy

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/dialect"
	"github.com/warmpath/warmpath/internal/eventstream"
	"github.com/warmpath/warmpath/internal/health"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// invocationHeaders are those of an invocation that reach the engine, beside those of dialect.HeaderPrefix. SageMaker strips all others
// from a POST; what says how the body is coded and which trace the request belongs to is kept here all the same.
var invocationHeaders = map[string]bool{
	"Accept": true, "Content-Encoding": true, "Content-Type": true,
	"Baggage": true, "Traceparent": true, "Tracestate": true,
	"X-Forwarded-For": true, "X-Forwarded-Host": true, "X-Forwarded-Proto": true, "Forwarded": true, // see forwarded
}

// reachesEngine says whether a header of the request goes on, as far as the API that was called decides.
func (x *exchange) reachesEngine(name string) bool {
	return x.route.Invocation == dialect.NoInvocation || invocationHeaders[name] || strings.HasPrefix(name, dialect.HeaderPrefix)
}

// quote answers with what the engine says is wrong: SageMaker wraps it in an error of its own.
func (c *call) quote() health.Outcome {
	for c.end == nil && c.n < len(*c.buf) {
		c.watch.listen()
		c.n += c.read((*c.buf)[c.n:])
		c.watch.heard()
	}
	x := c.x
	if x.clientGone() {
		x.rec.Outcome, x.rec.Status, x.abort = telemetry.OutcomeClientCancelled, telemetry.StatusClientClosed, true
		return health.Cancelled
	}
	if after := c.resp.Header["Retry-After"]; after != nil {
		x.w.Header()["Retry-After"] = after
	}
	x.word(dialect.ModelError(dialect.Original{Status: c.resp.StatusCode, Message: string((*c.buf)[:c.n])}))
	return c.whole(false)
}

// framer puts an answer into the frames of a streamed invocation; nil leaves it as it is.
type framer struct{ frame []byte }

// newFramer changes the answer's header to that of a stream of frames. The length and the coding were those of the engine's bytes,
// which asked for none.
func newFramer(h http.Header) *framer {
	if inner := h["Content-Type"]; inner != nil {
		h[dialect.HeaderContentType] = inner
	}
	h["Content-Type"] = []string{eventstream.ContentType}
	delete(h, "Content-Length")
	delete(h, "Content-Encoding")
	return &framer{}
}

// part gives the frame of the answer's next bytes. It is valid until the next call.
func (f *framer) part(p []byte) []byte {
	if f == nil {
		return p
	}
	f.frame = eventstream.AppendPart(f.frame[:0], p)
	return f.frame
}

// confessionTime bounds how long the client may take for the last frame of a stream that has failed.
const confessionTime = 5 * time.Second

// confess ends a framed answer that the engine broke off, err, or that this side did, cause, with the frame that says so, and tells
// whether it could. Other answers have no such end: they are to be broken off.
// The frame is not flushed: it leaves together with the end of the answer, which AWS's SDK for JavaScript would otherwise never read. It
// stops at the exception, and an answer that is not at its end keeps its process alive.
func (c *call) confess(err, cause error) bool {
	if c.frames == nil {
		return false
	}
	kind, code, message := eventstream.ModelStreamError, eventstream.StreamBroken, "the connection to the model was reset or closed before its answer was complete"
	switch {
	case errors.Is(cause, errLate), errors.Is(cause, errSilent):
		code, message = eventstream.ModelInvocationTimeExceeded, "the model took longer for its answer than the endpoint's time limits allow"
	case health.OfError(err) == health.LocalFault:
		kind, code, message = eventstream.InternalStreamFailure, "", "the router has no memory or file descriptors left; try again"
	}
	_ = c.x.rc.SetWriteDeadline(time.Now().Add(confessionTime))
	return c.write(eventstream.AppendException(nil, kind, code, message), false) == nil
}
