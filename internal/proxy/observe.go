package proxy

import (
	"bytes"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/telemetry"
)

const (
	maxLine = 64 << 10 // bytes of the longest event that is read; of a longer one only its end is
	tailLen = 8 << 10  // bytes of an answer's or a long event's end that are searched for usage
)

// observer watches an answer go by: when its first token comes, what usage it reports, whether the engine fails inside it. It
// never holds bytes back, and what it cannot read it lets pass.
type observer struct {
	now    func() time.Time
	flight routing.Flight // told of the first token; nil = nobody is
	events bool           // the answer is an event stream; else JSON, of which only the end matters
	blind  bool           // the answer is compressed or of another kind

	line       []byte // the event under way, or the end of the JSON
	long       bool   // line has lost its beginning
	firstToken time.Time
	chunks     int64
	usage      usage
	hasUsage   bool
	failed     bool
	apart      bool // the engine does not count cached tokens as input
	batch      bool // the request holds several prompts
}

func newObserver(c *call) *observer {
	o := &observer{now: c.x.Now, flight: c.flight, batch: c.x.plan.batch}
	o.apart = c.x.plan.variant.Pool.CachedApart && c.x.rec.API == "anthropic"
	media := strings.ToLower(c.resp.Header.Get("Content-Type"))
	o.events = strings.HasPrefix(media, "text/event-stream")
	o.blind = c.resp.Header.Get("Content-Encoding") != "" || !o.events && !strings.HasPrefix(media, "application/json")
	return o
}

// see takes the next bytes of the answer.
func (o *observer) see(p []byte) {
	if o.blind {
		return
	}
	if !o.events {
		o.keepEnd(p)
		return
	}
	for len(p) > 0 {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			o.hold(p)
			return
		}
		if len(o.line) == 0 {
			o.event(p[:end])
		} else {
			o.hold(p[:end])
			o.event(o.line)
			o.line = o.line[:0]
		}
		o.long = false
		p = p[end+1:]
	}
}

// hold keeps a part of a line until the rest comes.
func (o *observer) hold(p []byte) {
	if o.long = o.long || len(o.line)+len(p) > maxLine; o.long {
		o.keepEnd(p)
		return
	}
	o.line = append(o.line, p...)
}

// keepEnd keeps the last bytes of what has been seen: at least tailLen, at most three times as many.
func (o *observer) keepEnd(p []byte) {
	p = tail(p)
	if len(o.line)+len(p) > 3*tailLen {
		o.line = o.line[:copy(o.line, tail(o.line))]
	}
	o.line = append(o.line, p...)
}

// tail is the end of b that is searched for usage.
func tail(b []byte) []byte { return b[max(0, len(b)-tailLen):] }

// event takes one line of an event stream.
func (o *observer) event(line []byte) {
	if o.long || len(line) > maxLine {
		o.token()
		o.usageIn(line)
		return
	}
	data, ok := bytes.CutPrefix(bytes.TrimSuffix(line, []byte("\r")), []byte("data:"))
	if !ok {
		return
	}
	data = bytes.TrimSpace(data)
	if len(data) == 0 || data[0] != '{' {
		return
	}
	// After the first token an event is parsed only if it may hold something else than the next one.
	if o.firstToken.IsZero() || tellsMore(data) {
		o.parse(data)
		return
	}
	o.chunks++
}

func tellsMore(data []byte) bool {
	return bytes.Contains(data, []byte(`"usage":`)) || bytes.Contains(data, []byte(`error`)) || endsInTimings(data)
}

// endsInTimings looks for timings where llama.cpp puts them, at the end of a chunk. Few chunks end like that, and a search takes as
// long as all else that is done to a chunk.
func endsInTimings(data []byte) bool {
	return bytes.HasSuffix(data, []byte("}}")) && bytes.Contains(data, []byte(`"timings":`))
}

func (o *observer) parse(data []byte) {
	var e event
	if err := json.Unmarshal(data, &e, lenient...); err != nil {
		o.token()
		return
	}
	o.failed = o.failed || e.isError()
	o.report(e.anyUsage())
	if e.hasContent() {
		o.token()
	}
}

// token counts a chunk of content.
func (o *observer) token() {
	if o.firstToken.IsZero() {
		o.firstToken = o.now()
		if o.flight != nil {
			o.flight.FirstToken(o.firstToken)
		}
	}
	o.chunks++
}

// finish reads the end of a JSON answer, where its usage stands.
func (o *observer) finish() {
	if !o.blind && !o.events {
		o.usageIn(o.line)
	}
}

// report takes what the engine says of its usage, if it does.
func (o *observer) report(u *usage) {
	if u != nil {
		o.usage.take(u)
		o.hasUsage = true
	}
}

// usageIn looks for the counts at b's end.
func (o *observer) usageIn(b []byte) {
	b = tail(b)
	if object := lastObject(b, `"usage"`); object != nil {
		o.report(scanUsage(object))
	} else if object = lastObject(b, `"timings"`); object != nil {
		o.report(scanTimings(object))
	}
}

// lastObject gives the last object of a quoted name in b, with whatever follows it; nil if there is none. Inside a JSON string the
// quotes would be escaped, so it is a real one.
func lastObject(b []byte, name string) []byte {
	i := bytes.LastIndex(b, []byte(name))
	if i < 0 {
		return nil
	}
	if object := bytes.TrimLeft(b[i+len(name):], " \t\r\n:"); len(object) > 0 && object[0] == '{' {
		return object
	}
	return nil
}

// record writes down what was seen.
func (o *observer) record(rec *telemetry.Request) {
	if !o.firstToken.IsZero() {
		rec.FirstToken = o.firstToken.Sub(rec.Start)
	}
	rec.Chunks, rec.HasUsage = o.chunks, o.hasUsage
	if !o.hasUsage {
		return
	}
	cached, known := o.usage.cached()
	rec.CachedTokens, rec.CachedKnown = cached, known && !o.batch
	rec.PromptTokens, rec.OutputTokens = o.usage.prompt(o.apart), o.usage.output()
}

// lenient reads what engines write: duplicate names and broken UTF-8 included.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
