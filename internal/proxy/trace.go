package proxy

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
)

// trace follows a call inside the transport: how long a connection takes, for how long the body is read, and the interim (1xx)
// answers, which go to the client as they come.
type trace struct {
	reused bool // the connection has carried a request before

	mu   sync.Mutex
	over bool // the final answer is here; a late interim one would race with it
}

func (t *trace) attach(c *call) context.Context {
	began, body := c.x.Now(), c.x.body
	return httptrace.WithClientTrace(c.ctx, &httptrace.ClientTrace{
		GotConn: func(got httptrace.GotConnInfo) {
			c.x.rec.Connect, t.reused = c.x.Now().Sub(began), got.Reused
			body.hold()
		},
		WroteRequest: func(httptrace.WroteRequestInfo) { body.release() },
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			if c.x.r.ProtoAtLeast(1, 1) { // HTTP/1.0 knows no interim answers
				t.inform(c.x.w, code, http.Header(h))
			}
			return nil
		},
	})
}

func (t *trace) inform(w http.ResponseWriter, code int, interim http.Header) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || code == http.StatusSwitchingProtocols {
		return
	}
	h := w.Header()
	kept := h.Clone()
	maps.Copy(h, interim)
	w.WriteHeader(code)
	clear(h)
	maps.Copy(h, kept)
}

func (t *trace) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
}
