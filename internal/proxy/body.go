package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/dialect"
)

const (
	firstRead = 16 << 10 // bytes a body's buffer starts with unless the client says it sends less
	maxPooled = 4 << 20  // bytes of the largest buffer that is kept for reuse
)

// body is a request's body, whole, in memory that goes back to the pool when nobody reads it any more: the transport may still
// be sending it when the engine has answered already.
type body struct {
	buf   []byte
	whole bool // read to its end
	refs  atomic.Int32
}

var bodies = sync.Pool{New: func() any { return new(body) }}

func newBody() *body {
	b := bodies.Get().(*body)
	b.buf, b.whole = b.buf[:0], false
	b.refs.Store(1)
	return b
}

func (b *body) bytes() []byte {
	if b == nil {
		return nil
	}
	return b.buf
}

func (b *body) size() int64 { return int64(len(b.bytes())) }

// hold keeps b out of the pool until release. One that is never released is left to the garbage collector.
func (b *body) hold() { b.refs.Add(1) }

func (b *body) release() {
	if b == nil || b.refs.Add(-1) != 0 {
		return
	}
	if cap(b.buf) <= maxPooled {
		bodies.Put(b)
	}
}

// readBody takes the whole body before anything is sent upstream: it decides the route, it may have to be sent twice, and a
// proxy that still reads its client while the engine answers truncates streams. A declared length over the limit is refused
// before a client that asked with Expect: 100-continue sends a byte.
func (x *exchange) readBody() *dialect.Error {
	x.body = newBody()
	if x.r.ContentLength > x.Limits.Body {
		return tooLarge(x.Limits.Body)
	}
	want := firstRead
	if n := x.r.ContentLength; n >= 0 && n < firstRead {
		want = int(n) + 1 // room to see the end without growing
	}
	if cap(x.body.buf) < want {
		x.body.buf = make([]byte, 0, want)
	}
	err := x.fill(io.LimitReader(x.r.Body, x.Limits.Body+1))
	switch {
	case err != nil:
		return x.badBody(err)
	case x.body.size() > x.Limits.Body:
		return tooLarge(x.Limits.Body)
	}
	return nil
}

// fill reads to the end. The buffer grows with what has arrived, never with what a client says it will send.
func (x *exchange) fill(from io.Reader) error {
	b := x.body
	w := x.watchBody()
	defer w.stop()
	for {
		if len(b.buf) == cap(b.buf) {
			grown := make([]byte, len(b.buf), 2*cap(b.buf)+512)
			copy(grown, b.buf)
			b.buf = grown
		}
		w.silence.reset(x.Limits.BodyIdle)
		n, err := from.Read(b.buf[len(b.buf):cap(b.buf)])
		b.buf = b.buf[:len(b.buf)+n]
		if errors.Is(err, io.EOF) {
			b.whole = true
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// bodyWatch ends the reading of a body that stands still.
type bodyWatch struct {
	silence alarm

	mu   sync.Mutex
	over bool
}

func (x *exchange) watchBody() *bodyWatch {
	w := &bodyWatch{}
	w.silence.owner = x.alarms
	w.silence.ring = func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !w.over {
			_ = x.rc.SetReadDeadline(time.Unix(1, 0))
		}
	}
	return w
}

func (w *bodyWatch) stop() {
	w.silence.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}

// leaveBody limits what net/http does with a body that was not read to its end: it reads a part of the rest, and would wait for it
// for ever.
func (x *exchange) leaveBody() {
	if x.r.ContentLength != 0 && x.Limits.BodyIdle > 0 && (x.body == nil || !x.body.whole) {
		_ = x.rc.SetReadDeadline(time.Now().Add(x.Limits.BodyIdle))
	}
}

func tooLarge(limit int64) *dialect.Error {
	return &dialect.Error{Status: http.StatusRequestEntityTooLarge, Code: "body_too_large",
		Message: fmt.Sprintf("the request body is larger than the limit of %d bytes (data.max_body)", limit)}
}

// badBody is the answer to a body that could not be read to its end; the client that sent it badly may still listen.
func (x *exchange) badBody(err error) *dialect.Error {
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		x.w.Header().Set("Connection", "close")
		return &dialect.Error{Status: http.StatusRequestTimeout, Code: "body_timeout", Cause: err,
			Message: fmt.Sprintf("no byte of the request body arrived for %s (data.body_timeout)", x.Limits.BodyIdle)}
	}
	return &dialect.Error{Status: http.StatusBadRequest, Code: "body_unreadable", Cause: err,
		Message: "the request body ended before it was complete or is not framed correctly"}
}
