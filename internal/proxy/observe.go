package proxy

import (
	"bytes"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/warmpath/warmpath/internal/telemetry"
)

const (
	maxLine = 64 << 10 // bytes of an event that are kept; of a longer one only its end is read
	tailLen = 4 << 10  // bytes of an answer's or a long event's end that are searched for usage
)

// observer watches an answer go by: when its first token comes, what usage it reports, whether the engine fails inside it. It
// never holds bytes back, and what it cannot read it lets pass.
type observer struct {
	now    func() time.Time
	events bool // the answer is an event stream; else JSON, of which only the end matters
	blind  bool // the answer is compressed or of another kind

	line       []byte // the event line under way, or the last bytes of JSON
	long       bool   // line has lost its beginning
	firstToken time.Time
	chunks     int64
	usage      usage
	hasUsage   bool
	failed     bool
	apart      bool // the engine does not count cached tokens as input
}

func newObserver(c *call) *observer {
	o := &observer{now: c.x.Now, apart: c.x.plan.variant.Pool.CachedApart && c.x.rec.API == "anthropic"}
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
		o.line = keepTail(append(o.line, p...), 2*tailLen)
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
			o.line, o.long = o.line[:0], false
		}
		p = p[end+1:]
	}
}

// hold keeps a part of a line until the rest comes.
func (o *observer) hold(p []byte) {
	o.line = append(o.line, p...)
	if len(o.line) > maxLine {
		o.line, o.long = keepTail(o.line, tailLen), true
	}
}

// keepTail bounds b to its last n bytes, once it is twice as long.
func keepTail(b []byte, n int) []byte {
	if len(b) <= 2*n {
		return b
	}
	return b[:copy(b, b[len(b)-n:])]
}

// event takes one line of an event stream.
func (o *observer) event(line []byte) {
	if o.long {
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
	if o.firstToken.IsZero() || bytes.Contains(data, []byte(`"usage":`)) || bytes.Contains(data, []byte(`error`)) {
		o.parse(data)
		return
	}
	o.chunks++
}

func (o *observer) parse(data []byte) {
	var e event
	if err := json.Unmarshal(data, &e, lenient...); err != nil {
		o.token()
		return
	}
	o.failed = o.failed || e.isError()
	if u := e.anyUsage(); u != nil {
		o.usage, o.hasUsage = *u, true
	}
	if e.hasContent() {
		o.token()
	}
}

// token counts a chunk of content.
func (o *observer) token() {
	if o.firstToken.IsZero() {
		o.firstToken = o.now()
	}
	o.chunks++
}

// finish reads the end of a JSON answer, where its usage stands.
func (o *observer) finish() {
	if !o.blind && !o.events {
		o.usageIn(o.line)
	}
}

// usageIn looks for the last object called "usage". Inside a JSON string its quotes would be escaped, so it is the real one.
func (o *observer) usageIn(b []byte) {
	const name = `"usage"`
	i := bytes.LastIndex(b, []byte(name))
	if i < 0 {
		return
	}
	rest := bytes.TrimLeft(b[i+len(name):], " \t\r\n:")
	value, err := jsontext.NewDecoder(bytes.NewReader(rest), lenient...).ReadValue()
	if err != nil {
		return
	}
	var u *usage
	if err := json.Unmarshal(value, &u, lenient...); err == nil && u != nil {
		o.usage, o.hasUsage = *u, true
	}
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
	rec.PromptTokens, rec.CachedTokens, rec.OutputTokens = o.usage.prompt(), o.usage.cached(), o.usage.output()
	if o.apart {
		rec.PromptTokens += rec.CachedTokens
	}
}

// lenient reads what engines write: duplicate names and broken UTF-8 included.
var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
