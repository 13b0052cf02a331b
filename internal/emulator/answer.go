package emulator

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// answerer puts a generation into one API's words. The server calls it from one goroutine.
type answerer interface {
	// token appends the events that carry q's next token: number q.sent of q.OutputTokens.
	token(b *events, q *sequence, text string)
	// end appends the events that close the stream once all sequences have finished.
	end(b *events)
	// whole returns the body of an answer that is not streamed.
	whole() any
}

// events collects server-sent events.
type events struct{ bytes.Buffer }

// data appends an event without a name.
func (b *events) data(v any) {
	b.WriteString("data: ")
	if err := json.MarshalWrite(b, v); err != nil {
		panic(fmt.Sprintf("emulator: event %T: %v", v, err)) // only a type that JSON cannot express
	}
	b.WriteString("\n\n")
}

// named appends an event with a name.
func (b *events) named(name string, v any) {
	b.WriteString("event: " + name + "\n")
	b.data(v)
}

func (b *events) done() { b.WriteString("data: [DONE]\n\n") }

// exchange is one request for an answer, from its parsed body to its last byte.
type exchange struct {
	server *Server
	w      http.ResponseWriter
	r      *http.Request
	fail   errorWriter
	fault  Fault // zero when none struck
	job    job
}

// api is the handler of an API whose bodies parse reads.
func (s *Server) api(parse func(jsontext.Value) (job, error), fail errorWriter) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		fault, _ := s.faults.take(r.URL.Path)
		body, err := readJSON(r)
		x := &exchange{server: s, w: w, r: r, fail: fail, fault: fault}
		if x.strikeBefore() {
			return
		}
		if err == nil && r.URL.Path == invocationsPath {
			var done bool
			if done, err = x.session(body); done {
				return
			}
		}
		if err == nil {
			x.job, err = parse(body)
		}
		if err != nil {
			fail(w, asWireError(err))
			return
		}
		x.answer()
	}
}

func (x *exchange) answer() {
	g, err := x.server.start(x.job, x.r.Header.Get("X-Request-Id"))
	if err != nil {
		x.fail(x.w, asWireError(err))
		return
	}
	defer x.server.abort(g)
	if x.job.stream {
		x.stream(g, x.job.answerer(g))
	} else {
		x.whole(g, x.job.answerer(g))
	}
}

// stream sends the header at once, as vLLM does, and then every token as it is made.
func (x *exchange) stream(g *generation, a answerer) {
	x.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	x.w.WriteHeader(http.StatusOK)
	var b events
	for sent := 0; ; x.await(g) {
		sent += x.appendTokens(&b, g, a, sent)
		x.flush(&b)
		if x.pending(sent) {
			x.strikeWithin()
			return
		}
		if g.finished() && sent == g.made() {
			break
		}
	}
	a.end(&b)
	x.flush(&b)
}

// appendTokens appends what was made since the last time and stops where a fault is to strike. It returns the number
// of tokens.
func (x *exchange) appendTokens(b *events, g *generation, a answerer, sent int) int {
	n := 0
	for _, q := range g.sequences {
		for made := int(q.made.Load()); q.sent < made && !x.pending(sent+n); n++ {
			a.token(b, q, q.text(q.sent))
			q.sent++
		}
	}
	return n
}

// await returns when the generation has advanced. The answer to a client that has left is cut off instead of ended: one
// that has only closed its sending side must not take it for whole.
func (x *exchange) await(g *generation) {
	select {
	case <-g.progress:
	case <-x.r.Context().Done():
		cutOff()
	}
}

// flush sends what b holds.
func (x *exchange) flush(b *events) {
	_, err := x.w.Write(b.Bytes())
	b.Reset()
	if err == nil {
		err = http.NewResponseController(x.w).Flush()
	}
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		cutOff()
	}
}

// whole waits for the end and answers in one piece.
func (x *exchange) whole(g *generation, a answerer) {
	for !g.finished() && !x.pending(g.made()) {
		x.await(g)
	}
	if x.pending(g.made()) {
		x.strikeWhole()
		return
	}
	x.reportLoad()
	writeJSON(x.w, http.StatusOK, a.whole())
}

// reportLoad adds the engine's load to an answer whose client asked for it (ORCA).
func (x *exchange) reportLoad() {
	if x.r.Header.Get("Endpoint-Load-Metrics-Format") != "JSON" {
		return
	}
	load := x.server.load()
	x.w.Header().Set("Endpoint-Load-Metrics", fmt.Sprintf(
		`JSON {"named_metrics": {"num_requests_waiting": %.1f, "kv_cache_usage_perc": %g}}`, float64(load.Waiting), load.Usage))
}

// strikeBefore lets a fault strike that needs no answer. It reports whether the request is over.
func (x *exchange) strikeBefore() bool {
	kind := x.fault.Kind
	if x.server.refusedWithoutPort() {
		kind = FaultReset
	}
	switch {
	case kind == FaultReset:
		reset(x.w)
	case kind == FaultHang && x.fault.After == 0:
		x.hang()
	case kind == FaultStatus:
		x.fail(x.w, statusError(orDefault(x.fault.Code, http.StatusServiceUnavailable)))
	case kind == FaultRateLimit:
		x.w.Header().Set("Retry-After", fmt.Sprint(orDefault(x.fault.RetryAfter, 1)))
		x.fail(x.w, statusError(http.StatusTooManyRequests))
	default:
		return false
	}
	return true
}

// pending reports whether the fault strikes now that sent tokens are out.
func (x *exchange) pending(sent int) bool {
	switch x.fault.Kind {
	case FaultHang, FaultResetMidStream, FaultBrokenChunk, FaultErrorEvent, FaultNoDone:
		return sent >= x.fault.After
	}
	return false
}

// strikeWithin breaks an answer of which a part has been sent.
func (x *exchange) strikeWithin() {
	switch x.fault.Kind {
	case FaultHang:
		x.hang()
	case FaultResetMidStream:
		reset(x.w)
	case FaultBrokenChunk:
		breakChunk(x.w)
	case FaultErrorEvent:
		var b events
		fmt.Fprintf(&b, `data: {"error": {"message": "%s", "type": "InternalServerError", "param": null, "code": 500}}`+"\n\n", coreDied)
		b.done()
		x.flush(&b)
	}
}

// strikeWhole breaks an answer that is not streamed: with half of a body where the fault is one of the connection.
func (x *exchange) strikeWhole() {
	switch x.fault.Kind {
	case FaultErrorEvent:
		x.fail(x.w, statusError(http.StatusInternalServerError))
		return
	case FaultResetMidStream, FaultBrokenChunk, FaultNoDone:
		var b events
		b.WriteString(`{"id":"` + x.job.idPrefix)
		x.w.Header().Set("Content-Type", "application/json")
		x.flush(&b)
	}
	x.strikeWithin()
}

// hang sends nothing for as long as the client stays.
func (x *exchange) hang() {
	<-x.r.Context().Done()
	cutOff()
}

// cutOff ends an answer visibly broken.
func cutOff() { panic(http.ErrAbortHandler) }

// reset closes the client's connection with a TCP reset.
func reset(w http.ResponseWriter) {
	resetConn(hijack(w))
}

func resetConn(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // on failure a FIN must do
	}
	_ = c.Close()
}

// breakChunk sends a chunk size that is none and ends the connection.
func breakChunk(w http.ResponseWriter) {
	conn := hijack(w)
	_, _ = conn.Write([]byte("ZZZ\r\n"))
	_ = conn.Close()
}

// hijack takes the connection over. Where there is none to take, the answer is cut off.
func hijack(w http.ResponseWriter) net.Conn {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		cutOff()
	}
	return conn
}
