package telemetry

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	accessDelay = 100 * time.Millisecond // the longest that a line waits to be written
	accessBatch = 256                    // how many wait at most
)

// Access writes one line about an ended request: at warn if the client got a server error or a broken answer through no act
// of its own, at debug if there was no client (a shadow), else at info. Phases are milliseconds; those that did not happen are left out, as are empty texts.
func Access(log *slog.Logger, r *Request) { writeAccess(log.Handler(), r) }

func writeAccess(h slog.Handler, r *Request) {
	level := slog.LevelInfo
	switch {
	case r.Shadow:
		level = slog.LevelDebug
	case r.failed():
		level = slog.LevelWarn
	}
	ctx := context.Background()
	if !h.Enabled(ctx, level) {
		return
	}
	line := make(accessLine, 0, 32)
	line.identity(r)
	line.phases(r)
	line.amounts(r)
	line.text("error", clip(r.Err, maxLoggedError))
	record := slog.NewRecord(r.Start.Add(r.Total), level, "request", 0)
	record.AddAttrs(line...)
	_ = h.Handle(ctx, record) // there is nowhere to say that a log cannot be written
}

// AccessLog writes access lines many at a time. A line by itself costs a tenth of all that a small request costs, most of it
// because its code and a system call find cold caches; in company it costs a third of that. Warnings wait for nobody. An AccessLog
// is safe for concurrent use.
type AccessLog struct {
	w     io.Writer
	lines slog.Handler // writes to text

	mu      sync.Mutex
	text    bytes.Buffer
	waiting []Request
	timer   *time.Timer // runs while lines wait
}

// NewAccessLog makes an AccessLog with the formats and levels of NewLogger. Flush is to be called before the process ends.
func NewAccessLog(w io.Writer, format, level string) (*AccessLog, error) {
	a := &AccessLog{w: w}
	lines, err := newHandler(&a.text, format, level)
	if err != nil {
		return nil, err
	}
	a.lines = lines
	a.timer = time.AfterFunc(accessDelay, a.Flush)
	a.timer.Stop()
	return a, nil
}

// Write takes the record of an ended request, of which it keeps a copy.
func (a *AccessLog) Write(r *Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.waiting) == 0 {
		a.timer.Reset(accessDelay)
	}
	a.waiting = append(a.waiting, *r)
	if r.failed() || len(a.waiting) == accessBatch {
		a.flush()
	}
}

// Flush writes the lines that wait.
func (a *AccessLog) Flush() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flush()
}

func (a *AccessLog) flush() {
	a.timer.Stop()
	for i := range a.waiting {
		writeAccess(a.lines, &a.waiting[i])
	}
	clear(a.waiting)
	a.waiting = a.waiting[:0]
	if a.text.Len() > 0 {
		_, _ = a.w.Write(a.text.Bytes()) // as above
		a.text.Reset()
	}
}
