package recording

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/warmpath/warmpath/internal/telemetry"
)

const (
	// maxWaiting is how many requests wait to be written. With the longest windows they hold 17 MB.
	maxWaiting = 256
	// retryAfter is how long a file that could not be written is left alone.
	retryAfter = 10 * time.Second
)

// Options say what is recorded and where.
type Options struct {
	Endpoint string
	Path     string  // of the file that is being written; older ones are PATH.1, PATH.2, the highest number the oldest
	Sample   float64 // share of the requests to record, 0 to 1
	MaxSize  int64   // bytes of one file
	Keep     int     // how many older files stay, 0 or more
	// Now is the clock by which files are dated.
	Now func() time.Time
	// Random gives uniform 64-bit numbers and may be called from many goroutines.
	Random func() uint64
	// Dropped is called for every request that should have been recorded and was not; it must not block.
	Dropped func()
	// Log takes the faults of the file.
	Log *slog.Logger
}

// Recorder writes a recording. Requests never wait for it: what it cannot take at once it drops and counts. All methods are safe
// for concurrent use.
type Recorder struct {
	o       Options
	out     *file // of the writer alone
	waiting chan *entry
	entries sync.Pool
	closing chan struct{}
	closed  atomic.Bool
	done    chan struct{}

	failed time.Time // when the file last could not be written
}

// entry is a request that waits to be written.
type entry struct {
	start   time.Time
	row     Row
	encoded []byte // what the chain is made of: the only text, and only in memory
}

// Open begins a recording. A file that is already there is not continued, because its key is gone: it becomes PATH.1. The error
// says why the file cannot be written.
func Open(o Options) (*Recorder, error) {
	out, err := create(&o)
	if err != nil {
		return nil, err
	}
	r := &Recorder{o: o, out: out, waiting: make(chan *entry, maxWaiting), closing: make(chan struct{}), done: make(chan struct{})}
	r.entries.New = func() any { return new(entry) }
	go r.write()
	return r, nil
}

// Take records an ended request. encode appends the encoded beginning of its prompt, at most MaxCharacters of it, to a buffer
// (prompt.AppendText, prompt.AppendBytes); it is called before Take returns, or not at all. A nil Recorder takes nothing.
func (r *Recorder) Take(rec *telemetry.Request, encode func(dst []byte) []byte) {
	if r == nil || r.closed.Load() || float64(r.o.Random()>>11)/(1<<53) >= r.o.Sample {
		return
	}
	if len(r.waiting) == cap(r.waiting) {
		r.o.Dropped()
		return
	}
	e := r.entries.Get().(*entry)
	e.start, e.encoded = rec.Start, encode(e.encoded[:0])
	e.row = Row{BytesIn: rec.BytesIn, BytesOut: rec.BytesOut, Chain: e.row.Chain[:0]}
	e.row.OutputTokens = rec.Chunks // of a stream without usage: an engine sends about one token a chunk
	if rec.HasUsage {
		e.row.PromptTokens, e.row.CachedTokens, e.row.OutputTokens = rec.PromptTokens, rec.CachedTokens, rec.OutputTokens
	}
	select {
	case r.waiting <- e:
	default:
		r.o.Dropped()
	}
}

// Close writes what waits and ends the recording. A second Close does nothing.
func (r *Recorder) Close() {
	if r == nil {
		return
	}
	if !r.closed.Swap(true) {
		close(r.closing)
	}
	<-r.done
}

// write runs until Close. Whenever nothing waits, all lines are in the file.
func (r *Recorder) write() {
	defer close(r.done)
	for {
		select {
		case e := <-r.waiting:
			r.put(e)
			continue
		default:
			r.flush()
		}
		select {
		case e := <-r.waiting:
			r.put(e)
		case <-r.closing:
			r.finish()
			return
		}
	}
}

// finish writes the last requests and closes the file.
func (r *Recorder) finish() {
	for {
		select {
		case e := <-r.waiting:
			r.put(e)
			continue
		default:
		}
		break
	}
	r.flush()
	if r.out != nil {
		_ = r.out.close() // its faults were seen by flush
	}
}

// put writes one request, or drops it while the file cannot be written.
func (r *Recorder) put(e *entry) {
	defer r.entries.Put(e)
	if !r.ready() {
		r.o.Dropped()
		return
	}
	e.row.At = float64(e.start.Sub(r.out.started).Microseconds()) / 1e3
	e.row.Chain, e.row.Characters = r.out.chains.chain(e.row.Chain, e.encoded)
	clear(e.encoded) // nobody needs the text any more
	line, err := json.Marshal(&e.row)
	if err == nil {
		err = r.out.line(line)
	}
	if err != nil {
		r.fail(err)
		r.o.Dropped()
	}
}

// ready reports whether there is a file with room, and begins a new one where there is none.
func (r *Recorder) ready() bool {
	if r.out != nil && r.out.size < r.o.MaxSize {
		return true
	}
	if r.out == nil && r.o.Now().Sub(r.failed) < retryAfter {
		return false
	}
	r.flush()
	if r.out != nil {
		_ = r.out.close()
	}
	out, err := create(&r.o)
	if r.out = out; err != nil {
		r.fail(err)
		return false
	}
	return true
}

func (r *Recorder) flush() {
	if r.out != nil {
		if err := r.out.flush(); err != nil {
			r.fail(err)
		}
	}
}

// fail gives the file up for a while. Serving goes on.
func (r *Recorder) fail(err error) {
	if r.out != nil {
		_ = r.out.close()
	}
	r.out, r.failed = nil, r.o.Now()
	r.o.Log.Error("recording: the file cannot be written; requests are dropped from it until it can", "endpoint", r.o.Endpoint, "error", err.Error())
}
