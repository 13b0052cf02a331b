package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/dialect"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/health"
	"github.com/warmpath/warmpath/internal/routing"
)

// call is one attempt: one request to one replica, until its answer has ended.
type call struct {
	x       *exchange
	lease   *fleet.Lease
	flight  routing.Flight // what the strategy learns from; nil if it learns nothing
	replica *fleet.Replica
	lost    context.Context // ends when the replica, as it was at the start, is lost
	ctx     context.Context
	cancel  context.CancelCauseFunc
	watch   watchdog
	trace   trace

	resp *http.Response
	buf  *[]byte // of bufferSize
	n    int     // bytes of the answer's body in buf
	end  error   // what the read that gave them said

	frames    *framer // nil = the answer passes as it is
	announced int     // trailers named in the answer's header
	answered  bool    // the engine's answer came to its end, and was one of success
	clerical  bool    // it opened or closed a session, which teaches nothing of how long a prompt takes
}

const bufferSize = 32 << 10

var buffers = sync.Pool{New: func() any { b := make([]byte, bufferSize); return &b }}

// attempt sends the request to the best replica not yet tried. It returns a failure if the client got nothing and another
// replica may be asked, an error if there is none to ask, and neither when the client has been answered, however that ended.
func (x *exchange) attempt() (*failure, *dialect.Error) {
	lease, flight := x.acquire()
	if lease == nil {
		return nil, x.nobody()
	}
	x.rec.Attempts++
	x.tried = append(x.tried, lease.Replica())
	c := x.newCall(lease, flight)
	defer c.close()

	fail := c.send()
	if fail == nil {
		fail = c.awaitFirstByte()
	}
	if fail == nil {
		fail = c.moved()
	}
	outlier := x.plan.variant.Pool.Outlier
	if fail != nil {
		fail.retry = fail.retry || c.mayRetry(fail)
		outlier.Observe(lease, fail.outcome)
		return fail, nil
	}
	outlier.Observe(lease, c.relay())
	return nil, nil
}

func (x *exchange) newCall(lease *fleet.Lease, flight routing.Flight) *call {
	c := &call{x: x, lease: lease, flight: flight, replica: lease.Replica(), lost: lease.Replica().Lost(), buf: buffers.Get().(*[]byte)}
	ctx := x.r.Context()
	if x.plan.variant.Pool.KeepOnDisconnect && x.shadow == nil { // a shadow's client never leaves; only Close ends it
		ctx = context.WithoutCancel(ctx)
	}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.watch.start(c)
	return c
}

// close ends the call on every way out of an attempt.
func (c *call) close() {
	c.watch.stop()
	c.cancel(nil)
	if c.resp != nil {
		_ = c.resp.Body.Close()
	}
	buffers.Put(c.buf)
	c.lease.Release()
	c.report()
}

// report tells the strategy how the call ended, if it wants to know.
func (c *call) report() {
	if c.flight == nil {
		return
	}
	rec := &c.x.rec
	o := routing.Outcome{At: c.x.Now(), Answered: c.answered && !c.clerical, Streamed: c.x.plan.stream}
	switch {
	case !c.answered || c.x.plan.batch: // of several prompts, engines report the tokens of all, or of one
	case rec.HasUsage:
		o.PromptTokens, o.OutputTokens = int(rec.PromptTokens), int(rec.OutputTokens)
		o.CachedTokens, o.CachedKnown = int(rec.CachedTokens), rec.CachedKnown
	default:
		o.OutputTokens = int(rec.Chunks) // engines send about one token a chunk
	}
	c.flight.Ended(o)
}

// send carries the request to the replica and waits for the header of its answer. A connection that the engine had closed while
// it was idle is replaced, on the same replica: not one byte of an answer has been seen then.
func (c *call) send() *failure {
	transport := c.x.plan.variant.Pool.Transport
	resp, err := transport.RoundTrip(c.request()) //nolint:bodyclose // close does, on every way out of the attempt
	for n := 0; n < maxStale && c.stale(err); n++ {
		resp, err = transport.RoundTrip(c.request()) //nolint:bodyclose // as above
	}
	c.trace.end()
	if err != nil {
		return c.failed(err)
	}
	c.resp = resp
	c.x.opening = c.x.opening || resp.StatusCode < 400 && opens(c.x.route, c.x.r.Header)
	return nil
}

// maxStale is how many stale connections one call may meet beyond those that the transport replaces by itself.
const maxStale = 3

// stale says that a connection turned out to be closed while a long body was being written to it. The transport replaces it
// only if no byte was written or the reading side saw the end first: it takes a failed copy for the body's fault.
func (c *call) stale(err error) bool {
	var op *net.OpError
	return c.trace.reused && errors.As(err, &op) && (op.Op == "write" || op.Op == "readfrom") && context.Cause(c.ctx) == nil
}

// request is what the engine gets: the client's method, path, query, headers and bytes, to another address. What is particular to an
// API of AWS is taken out.
func (c *call) request() *http.Request {
	x, base := c.x, c.replica.URL()
	u := *x.r.URL
	u.Scheme, u.Host, u.User = base.Scheme, base.Host, nil
	path, escaped := x.enginePath()
	u.Path, u.RawPath = base.Path+path, base.EscapedPath()+escaped
	if x.route.Invocation != dialect.NoInvocation {
		u.RawQuery = "" // a signature at most
	}
	req := (&http.Request{
		Method: x.r.Method, URL: &u, Host: base.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: x.upstreamHeader(), ContentLength: int64(len(x.plan.body)),
	}).WithContext(c.trace.attach(c))
	if len(x.plan.body) > 0 {
		// The transport knows this kind of reader and sends it in one write with the header.
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(x.plan.body)), nil }
		req.Body, _ = req.GetBody()
	}
	return req
}

// enginePath is the path under which the engine serves the request.
func (x *exchange) enginePath() (path, escaped string) {
	if x.plan.path == "" {
		return x.r.URL.Path, x.r.URL.EscapedPath()
	}
	path, err := url.PathUnescape(x.plan.path)
	if err != nil { // neither the configuration nor a request's URL has such a path
		path = x.plan.path
	}
	return path, x.plan.path
}

// awaitFirstByte waits for the answer to begin. Engines send 200 and the header before they have read the prompt, so nothing is
// passed on before the first byte of the body: until then the request can still move to another replica.
func (c *call) awaitFirstByte() *failure {
	for c.n == 0 && c.end == nil {
		c.n = c.read(*c.buf)
	}
	if c.n == 0 && !errors.Is(c.end, io.EOF) {
		return c.failed(c.end)
	}
	c.watch.heard()
	if context.Cause(c.ctx) != nil { // ended just as the byte came; the client has not got it
		return c.failed(c.end)
	}
	c.x.rec.FirstByte = c.x.Now().Sub(c.x.rec.Start)
	return nil
}

// read reads on in the engine's answer and notes when that has ended.
func (c *call) read(into []byte) (n int) {
	if n, c.end = c.resp.Body.Read(into); c.end != nil {
		c.x.rec.EngineDone = c.x.Now().Sub(c.x.rec.Start)
	}
	return n
}

// failed finds out why a call has failed: this side ended it, or the replica did.
func (c *call) failed(err error) *failure {
	switch cause := context.Cause(c.ctx); {
	case errors.Is(cause, errLost):
		return failLost.because(cause)
	case errors.Is(cause, errSilent):
		return failSilent.because(cause)
	case errors.Is(cause, errLate):
		return failLate.because(cause)
	case cause != nil:
		return failCancelled.because(cause)
	}
	outcome := health.OfError(err)
	f := failReset
	switch outcome {
	case health.Refused, health.Unreachable:
		f = failUnreachable
	case health.LocalFault:
		f = failLocal
	default:
		if outcome = c.broken(0); outcome != health.ServerFault {
			f = failLost
		}
	}
	f.outcome = outcome
	return f.because(err)
}

// A replica that broke a connection is knocked at: one whose process is gone refuses others.
const (
	// knockLimit is how long it may take to open a connection.
	knockLimit = 250 * time.Millisecond
	// knockHold is how long one must stay open to show beyond doubt that somebody is there. The system closes the sockets of a killed
	// process one after the other, on a busy machine for some tenths of a second, and takes connections for it until it comes to the
	// port; then it breaks them.
	knockHold = time.Second
	// knocks are enough: of those at a process on its way out, one may be broken by its program, one by the system, and one find no
	// place in the port's queue.
	knocks = 3
)

// broken is the outcome of a call whose connection the replica broke. It is more than this call's if the replica's port refuses: all
// that wait there need not do so until the next probe, and however many they are, those that were reset may move. That it refuses may
// also be heard from another call in the meantime. See knock for hold.
func (c *call) broken(hold time.Duration) health.Outcome {
	for range knocks {
		there, err := c.knock(hold)
		if err != nil && health.OfError(err) == health.Refused {
			return health.Refused
		}
		if there || hold == 0 {
			break
		}
	}
	if errors.Is(context.Cause(c.ctx), errLost) {
		return health.Cancelled
	}
	return health.ServerFault
}

// knock opens a connection to the replica and says whether that keeps it open for so long, or until the call ends.
func (c *call) knock(hold time.Duration) (there bool, err error) {
	ctx, cancel := context.WithTimeout(c.ctx, knockLimit)
	defer cancel()
	conn, err := c.x.plan.variant.Pool.Dial(ctx, "tcp", c.replica.URL().Host)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if hold == 0 {
		return true, nil
	}
	_ = conn.SetReadDeadline(time.Now().Add(hold))
	defer context.AfterFunc(c.ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
	n, err := conn.Read(make([]byte, 1))
	return n > 0 || errors.Is(err, os.ErrDeadlineExceeded), nil
}

// moved turns an answer that asks for another replica into a failure, if there is another to ask. The client gets the engine's
// own words otherwise.
func (c *call) moved() *failure {
	var f failure
	switch status := c.resp.StatusCode; {
	case c.givenUp():
		f = failGivenUp
	case status == http.StatusTooManyRequests, status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		f = failure{reason: "status_" + strconv.Itoa(status), outcome: health.OfStatus(status)}
	default:
		return nil
	}
	if !c.mayRetry(&f) {
		return nil
	}
	f.retry = true
	c.drain()
	return &f
}

// givenUp says that the engine has answered only because it ends.
func (c *call) givenUp() bool {
	givesUp := c.x.plan.variant.Pool.GivesUp
	return givesUp != nil && givesUp((*c.buf)[:c.n])
}

// drain reads the rest of a short answer that nobody wants, so that its connection can be used again.
func (c *call) drain() {
	if c.end == nil && c.resp.ContentLength >= 0 {
		_, _ = io.CopyN(io.Discard, c.resp.Body, bufferSize)
	}
}
