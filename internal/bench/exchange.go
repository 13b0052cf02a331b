package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/internal/workload"
)

// The kinds of failure, as Run.Errors names them. A status of 400 or more is "http_" and the status.
const (
	failedConnect    = "connect"     // no connection, or it ended before the header of an answer
	failedTimeout    = "timeout"     // Options.Timeout was over
	failedBroken     = "broken"      // the answer ended before its end
	failedErrorEvent = "error_event" // the engine reported an error inside a 200
	failedUnreadable = "unreadable"  // the answer is not what the API says
)

// exchange is one request and its answer as they went over the wire.
type exchange struct {
	failure  string // one of the kinds above; empty = answered whole
	status   int    // 0 without an answer
	replica  string // as Warmpath's header names it; empty without the header
	decision string
	sent     time.Time
	ended    time.Time
	answer   answer
}

// exchange sends one request and reads its answer to the end.
func (p *player) exchange(ctx context.Context, r workload.Request) exchange {
	if p.o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.o.Timeout)
		defer cancel()
	}
	e := exchange{sent: time.Now()}
	e.failure = p.send(ctx, r, &e)
	if e.failure != "" && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		e.failure = failedTimeout
	}
	e.ended = time.Now()
	return e
}

func (p *player) send(ctx context.Context, r workload.Request, e *exchange) (failure string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.o.Target+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return failedConnect
	}
	req.Header.Set("Content-Type", "application/json")
	maps.Copy(req.Header, p.o.Header)
	// Present but empty, it is not sent and lets net/http replace a connection that turns out to be closed.
	req.Header["Idempotency-Key"] = nil
	resp, err := p.o.Transport.RoundTrip(req)
	if err != nil {
		return failedConnect
	}
	defer resp.Body.Close()
	e.status = resp.StatusCode
	e.replica = resp.Header.Get("X-Warmpath-Replica")
	e.decision = resp.Header.Get("X-Warmpath-Decision")
	if resp.StatusCode >= http.StatusBadRequest {
		_, _ = io.Copy(io.Discard, resp.Body) // so that the connection can be used again
		return fmt.Sprintf("http_%d", resp.StatusCode)
	}
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media == "text/event-stream" {
		return e.answer.readStream(resp.Body)
	}
	return e.answer.readWhole(resp.Body)
}

// outcome is an exchange in the engines' time, for a request that was to start then.
func (p *player) outcome(e *exchange, intended time.Time) *Outcome {
	o := &Outcome{
		At: p.scaled(intended.Sub(p.begin)), SendDelay: p.scaled(e.sent.Sub(intended)), E2E: p.scaled(e.ended.Sub(intended)),
		Failure: e.failure, Replica: e.replica, Decision: e.decision,
		// Overloaded, or nobody to ask: an answer of its own.
		Refused: e.status == http.StatusTooManyRequests || e.status == http.StatusServiceUnavailable,
	}
	if e.answer.first.IsZero() {
		o.NoContent = true
	} else {
		o.TTFT = p.scaled(e.answer.first.Sub(intended))
	}
	for _, gap := range e.answer.gaps {
		o.Gaps = append(o.Gaps, p.scaled(gap))
	}
	if u := e.answer.usage; u != nil {
		o.PromptTokens, o.OutputTokens = u.prompt(), u.output()
		o.CachedTokens, o.CacheReported = u.cached()
	}
	return o
}
