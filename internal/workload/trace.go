package workload

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"
)

// TraceOptions say how a trace is read. The zero value of a field selects its default.
type TraceOptions struct {
	// BlockTokens is the number of tokens in a block of hash_ids, 4 to 65,536; default that of the trace's kind.
	BlockTokens int
	// Rate replaces the times of the trace by a Poisson process of that many requests a second; default: its own times, or
	// all at once if it has none.
	Rate float64
	// Seed selects the times that Rate makes.
	Seed uint64
}

const (
	minBlockTokens = 4 // the text of a block begins with its id, which takes 14 characters
	maxBlockTokens = 1 << 16
	maxRowBytes    = 64 << 20
)

func (o TraceOptions) validate() error {
	if o.BlockTokens != 0 && (o.BlockTokens < minBlockTokens || o.BlockTokens > maxBlockTokens) {
		return fmt.Errorf("block tokens: %d is out of range; use %d to %d", o.BlockTokens, minBlockTokens, maxBlockTokens)
	}
	if !(o.Rate >= 0) || math.IsInf(o.Rate, 0) {
		return fmt.Errorf("rate: %g is out of range; use 0 or more requests a second", o.Rate)
	}
	return nil
}

// OpenTrace opens a trace: one JSON object a line, plain or gzip, in order of time. What the rows are is recognised by the first:
//
//   - hash_ids (Mooncake): timestamp in milliseconds, input_length and output_length in tokens, blocks of 512 tokens; the
//     requests have Blocks and no Body
//   - hash_ids and parent_chat_id (Qwen-Bailian): the same, but timestamp in seconds and blocks of 16 tokens
//   - body: a recorded OpenAI-style request, beside it timestamp in milliseconds, path and output_length, all optional
//   - messages, prompt or input: such a body itself
//   - input and output (LMCache's agent traces): the whole prompt and the answer as text, timestamp in microseconds
//
// Rows are read one by one, so that the length of a trace costs no memory. The trace may be iterated by several at once. The
// error is about the options, the file or its first row; those of later rows come from Err.
func OpenTrace(path string, o TraceOptions) (Workload, error) {
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	t := &trace{path: path, options: o}
	for range t.Requests() {
		return t, nil
	}
	if err := t.Err(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("trace: %s has no rows", path)
}

type trace struct {
	path    string
	options TraceOptions
	err     atomic.Pointer[error]
}

// Name is the path.
func (t *trace) Name() string { return t.path }

// Err is the first error that an iteration met.
func (t *trace) Err() error {
	if err := t.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (t *trace) fail(err error) { t.err.CompareAndSwap(nil, &err) }

// Requests reads the file anew.
func (t *trace) Requests() iter.Seq[Request] {
	return func(yield func(Request) bool) {
		f, err := os.Open(t.path)
		if err != nil {
			t.fail(fmt.Errorf("trace: %w", err))
			return
		}
		defer f.Close()
		text, err := decompressed(f)
		if err != nil {
			t.fail(fmt.Errorf("trace: %s: %w", t.path, err))
			return
		}
		line, err := t.read(text, yield)
		if err != nil {
			t.fail(fmt.Errorf("trace: %s:%d: %w", t.path, line, err))
		}
	}
}

// decompressed reads gzip by its first bytes, whatever the file is called.
func decompressed(f io.Reader) (io.Reader, error) {
	plain := bufio.NewReaderSize(f, 1<<16)
	if magic, _ := plain.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return plain, nil
	}
	return gzip.NewReader(plain)
}

// read yields the requests of all rows and returns an error with the number of its line.
func (t *trace) read(text io.Reader, yield func(Request) bool) (line int, err error) {
	rows := bufio.NewScanner(text)
	rows.Buffer(make([]byte, 0, 1<<16), maxRowBytes)
	times := timeline{next: arrivals(random(t.options.Seed, streamArrivalsTrace, 0), t.options.Rate), generated: t.options.Rate > 0}
	var parse parser
	for rows.Scan() {
		line++
		raw := bytes.TrimSpace(rows.Bytes())
		if len(raw) == 0 {
			continue
		}
		if parse == nil {
			if parse, err = recognise(raw, t.options); err != nil {
				return line, err
			}
		}
		row, err := parse(raw, line)
		if err != nil {
			return line, err
		}
		if row.request.At, err = times.at(row); err != nil {
			return line, err
		}
		if !yield(row.request) {
			return line, nil
		}
	}
	if errors.Is(rows.Err(), bufio.ErrTooLong) {
		return line + 1, fmt.Errorf("row: longer than %d MiB", maxRowBytes>>20)
	}
	return line + 1, rows.Err()
}

// timeline turns the times of rows into times of arrival that begin at 0.
type timeline struct {
	next      clock // of generated times
	generated bool
	begun     bool
	timed     bool // the first row has a time, and so must all others
	first     float64
	last      float64
}

func (l *timeline) at(r row) (time.Duration, error) {
	if l.generated {
		return l.next(), nil
	}
	now := 0.0
	if r.timestamp != nil {
		now = *r.timestamp
	}
	if !l.begun {
		l.begun, l.timed, l.first, l.last = true, r.timestamp != nil, now, now
	}
	since := (now - l.first) * float64(r.unit)
	switch {
	case l.timed != (r.timestamp != nil):
		return 0, errors.New("timestamp: some rows have one and some do not; give it to all or none, or set a rate")
	case now < l.last:
		return 0, fmt.Errorf("timestamp: %v comes after %v; sort the rows by time", now, l.last)
	case !(since < math.MaxInt64):
		return 0, fmt.Errorf("timestamp: %v is more than 292 years after the first", now)
	}
	l.last = now
	return time.Duration(since), nil
}
