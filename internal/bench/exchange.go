package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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

// outcome is what became of one request.
type outcome struct {
	failure  string // one of the kinds above; empty = answered whole
	status   int    // 0 without an answer
	replica  string // as Warmpath's header names it; empty without the header
	decision string
	intended time.Time
	ended    time.Time
	answer   answer
}

// exchange sends one request and reads its answer to the end.
func (p *player) exchange(ctx context.Context, r workload.Request, intended time.Time) outcome {
	if p.o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.o.Timeout)
		defer cancel()
	}
	o := outcome{intended: intended}
	o.failure = p.send(ctx, r, &o)
	if o.failure != "" && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		o.failure = failedTimeout
	}
	o.ended = time.Now()
	return o
}

func (p *player) send(ctx context.Context, r workload.Request, o *outcome) (failure string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.o.Target+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return failedConnect
	}
	req.Header.Set("Content-Type", "application/json")
	// Present but empty, it is not sent and lets net/http replace a connection that turns out to be closed.
	req.Header["Idempotency-Key"] = nil
	resp, err := p.o.Transport.RoundTrip(req)
	if err != nil {
		return failedConnect
	}
	defer resp.Body.Close()
	o.status = resp.StatusCode
	o.replica = resp.Header.Get("X-Warmpath-Replica")
	o.decision = resp.Header.Get("X-Warmpath-Decision")
	if resp.StatusCode >= http.StatusBadRequest {
		_, _ = io.Copy(io.Discard, resp.Body) // so that the connection can be used again
		return fmt.Sprintf("http_%d", resp.StatusCode)
	}
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media == "text/event-stream" {
		return o.answer.readStream(resp.Body)
	}
	return o.answer.readWhole(resp.Body)
}

// refused says that the target was overloaded or had nobody to ask, which is an answer of its own.
func (o *outcome) refused() bool {
	return o.status == http.StatusTooManyRequests || o.status == http.StatusServiceUnavailable
}
