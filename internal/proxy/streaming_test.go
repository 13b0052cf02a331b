package proxy

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/internal/endpoint"
	"github.com/warmpath/warmpath/internal/routing"
)

// say sends one event to the client at once.
func say(w http.ResponseWriter, event string) {
	_, _ = io.WriteString(w, event)
	_ = http.NewResponseController(w).Flush()
}

func TestC004_OnlySilenceEndsAStream(t *testing.T) {
	for name, c := range map[string]struct {
		limits endpoint.Timeouts
		answer http.HandlerFunc
		whole  bool
		status int
		want   string // outcome
	}{
		"an hour of events": {endpoint.Timeouts{Idle: 10 * time.Second}, ticks(450, 8*time.Second), true, 200, "ok"},
		"a late answer":     {endpoint.Timeouts{FirstByte: time.Minute, Idle: 2 * time.Second}, ticks(1, 20*time.Second), true, 200, "ok"},
		"silence":           {endpoint.Timeouts{Idle: 10 * time.Second}, ticks(3, 8*time.Second, 11*time.Second), false, 200, "timeout"},
		"no first byte":     {endpoint.Timeouts{FirstByte: 2 * time.Second}, ticks(1, 3*time.Second), true, 504, "timeout"},
		"the total limit":   {endpoint.Timeouts{Total: 60 * time.Second}, ticks(100, time.Second), false, 200, "timeout"},
		"late in total":     {endpoint.Timeouts{Total: time.Second}, ticks(1, 2*time.Second), true, 504, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newMemoryNet()
				n.engine(t, "engine:80", c.answer)
				g := assemble(t, routing.NameRandom, n.dial, "http://engine")
				g.endpoint.Timeouts = c.limits
				resp, err := n.client(t, g).Post("http://proxy/v1/chat/completions", "application/json", strings.NewReader(chatBody))
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				_, err = io.ReadAll(resp.Body)
				if resp.StatusCode != c.status || (err == nil) != c.whole {
					t.Errorf("got %d, %v", resp.StatusCode, err)
				}
				synctest.Wait()
				if l := g.access(t, 1)[0]; l.Outcome != c.want || g.inFlight() != 0 {
					t.Errorf("logged %+v, %d in flight", l, g.inFlight())
				}
			})
		})
	}
}

// ticks answers with n events, each after a pause; the last pause given is the one before the last event.
func ticks(n int, pauses ...time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range n {
			pause := pauses[0]
			if i == n-1 {
				pause = pauses[len(pauses)-1]
			}
			select {
			case <-time.After(pause):
				say(w, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n")
			case <-r.Context().Done():
				return
			}
		}
	}
}

func TestC020_LongEvents(t *testing.T) {
	var want bytes.Buffer
	for _, size := range []int{63 << 10, 65 << 10, 1100 << 10, 20 << 20} {
		want.WriteString("data: {\"choices\":[{\"delta\":{\"content\":\"small\"}}]}\n\n")
		want.WriteString("data: {\"choices\":[{\"delta\":{\"content\":\"")
		want.Write(bytes.Repeat([]byte{'y'}, size))
		want.WriteString("\"}}]}\n\n")
	}
	want.WriteString("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":8}}\n\ndata: [DONE]\n\n")
	g := newRig(t, routing.NameRandom, newReplica(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(want.Bytes())
	}))
	if _, got := g.post(t, "/v1/chat/completions", chatBody); got != want.String() {
		t.Errorf("the client got %d bytes that differ from the engine's %d", len(got), want.Len())
	}
	if l := g.access(t, 1)[0]; l.PromptTokens != 9 || l.OutputTokens != 8 || l.BytesOut != int64(want.Len()) {
		t.Errorf("logged %+v", l)
	}
}

const (
	rawStream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	rawEvent  = "10\r\ndata: {\"a\": 1}\n\n\r\n"
	anEvent   = "data: {\"a\": 1}\n\n"
)

// breaks are the ways in which an engine's stream ends before its time.
var breaks = map[string]func(c *net.TCPConn){
	"reset":             reset,
	"no last chunk":     func(c *net.TCPConn) { _ = c.Close() },
	"a bad chunk size":  func(c *net.TCPConn) { _, _ = io.WriteString(c, "zz\r\n"); _ = c.Close() },
	"in the mid of one": func(c *net.TCPConn) { _, _ = io.WriteString(c, "20\r\ndata"); _ = c.Close() },
}

func TestC040_BrokenStreamsLookBroken(t *testing.T) {
	for name, end := range breaks {
		t.Run(name, func(t *testing.T) { brokenStream(t, end) })
	}
}

// brokenStream checks that five events and then a break reach clients of both protocols and all APIs as just that.
func brokenStream(t *testing.T, end func(c *net.TCPConn)) {
	seen := make(chan struct{})
	g := newRigAt(t, routing.NameRandom, rawReplica(t, func(c *net.TCPConn, in *bufio.Reader) {
		if _, _, err := takeRequest(in); err != nil {
			return
		}
		_, _ = io.WriteString(c, rawStream+strings.Repeat(rawEvent, 5))
		<-seen // a reset would overtake what it has not read
		end(c)
	}))
	n := 0
	for protocol, client := range map[string]*http.Client{"HTTP/1.1": http.DefaultClient, "HTTP/2.0": speakHTTP2(t)} {
		for _, path := range []string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"} {
			n++
			resp, err := client.Post(g.URL+path, "application/json", strings.NewReader(chatBody))
			if err != nil {
				t.Fatal(err)
			}
			events := make([]byte, 5*len(anEvent))
			if _, err := io.ReadFull(resp.Body, events); err != nil || string(events) != strings.Repeat(anEvent, 5) || resp.Proto != protocol {
				t.Fatalf("%s over %s: %q, %v", path, resp.Proto, events, err)
			}
			seen <- struct{}{}
			rest, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err == nil || strings.Contains(string(rest), "DONE") || strings.Contains(string(rest), "error") {
				t.Errorf("%s over %s: ended with %q, %v", path, protocol, rest, err)
			}
			if l := g.access(t, n)[n-1]; l.Outcome != "upstream_aborted" || l.Status != 200 {
				t.Errorf("%s over %s: logged %+v", path, protocol, l)
			}
		}
	}
}

func TestC040_CleanEndGetsNoInventedMarker(t *testing.T) {
	g := newRig(t, routing.NameRandom, newReplica(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		say(w, anEvent)
	}))
	if _, got := g.post(t, "/v1/chat/completions", chatBody); got != anEvent {
		t.Errorf("got %q", got)
	}
}

// TestC040_NoEventYetMovesOn: engines send 200 before they have read the prompt, so a break before the first byte costs nothing.
func TestC040_NoEventYetMovesOn(t *testing.T) {
	for name, end := range breaks {
		if name == "in the mid of one" {
			continue // that is a byte of an answer
		}
		var first atomic.Bool
		serve := func(c *net.TCPConn, in *bufio.Reader) {
			if _, _, err := takeRequest(in); err != nil {
				return
			}
			_, _ = io.WriteString(c, rawStream)
			if !first.Swap(true) {
				end(c)
				return
			}
			_, _ = io.WriteString(c, rawEvent+"0\r\n\r\n")
		}
		g := newRigAt(t, routing.NameRandom, rawReplica(t, serve), rawReplica(t, serve))
		if resp, body := g.post(t, "/v1/chat/completions", chatBody); resp.StatusCode != 200 || body != anEvent {
			t.Errorf("%s: got %d %q", name, resp.StatusCode, body)
		}
	}
}

func TestC042_AbortsLeaveNoStackTraces(t *testing.T) {
	const rounds = 1000
	g := newRigAt(t, routing.NameRandom, rawReplica(t, func(c *net.TCPConn, in *bufio.Reader) {
		r, _, err := takeRequest(in)
		if err != nil {
			return
		}
		_, _ = io.WriteString(c, rawStream+rawEvent)
		if r.URL.RawQuery == "client" {
			_, _ = in.ReadByte() // the proxy hangs up when the client has
			return
		}
		reset(c)
	}))
	for _, who := range []string{"client", "engine"} {
		for range rounds {
			c, err := net.Dial("tcp", g.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = fmt.Fprintf(c, "POST /v1/chat/completions?%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", who, len(chatBody), chatBody)
			in := bufio.NewReader(c)
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if who == "client" {
				_, _ = io.ReadFull(resp.Body, make([]byte, len(anEvent)))
				reset(c.(*net.TCPConn))
				continue
			}
			// A reset that overtakes the event makes it a 502, which is whole.
			if rest, err := io.ReadAll(resp.Body); resp.StatusCode == 200 && (err == nil || !strings.HasPrefix(anEvent, string(rest))) {
				t.Fatalf("the client got %q, %v", rest, err)
			}
			c.Close()
		}
	}
	outcomes := map[string]int{}
	for _, l := range g.access(t, 2*rounds) {
		outcomes[l.Outcome]++
	}
	if outcomes["client_cancelled"] != rounds || outcomes["upstream_aborted"]+outcomes["upstream_error"] != rounds {
		t.Errorf("outcomes: %v", outcomes)
	}
	// The word alone may stand in the identity of a request.
	if log := g.log.String(); strings.Contains(log, "goroutine ") || strings.Contains(log, "panic serving") {
		t.Errorf("the log speaks of panics:\n%s", log)
	}
	g.idle(t)
}

func TestC042_OtherPanicsSurface(t *testing.T) {
	g := newRig(t, routing.NameRandom, newReplica(t, nil))
	g.endpoint.Variants[0].Strategy = panics{}
	if resp, err := http.Post(g.URL+"/v1/chat/completions", "application/json", strings.NewReader(chatBody)); err == nil {
		t.Errorf("got %d", resp.StatusCode)
	}
	eventually(t, "the panic is logged", func() bool { return strings.Contains(g.log.String(), "a strategy's fault") })
	if l := g.access(t, 1)[0]; l.Status != 500 {
		t.Errorf("logged %+v", l)
	}
	g.idle(t)
}

func TestC073_EveryKindOfStreamIsFlushed(t *testing.T) {
	for _, media := range []string{
		"application/x-ndjson", "application/vnd.amazon.eventstream", "audio/wav", "text/event-stream; charset=utf-8", "TEXT/EVENT-STREAM", "",
	} {
		next := make(chan struct{})
		engine := newReplica(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{media}
			w.Header().Set("X-Accel-Buffering", "no")
			w.Header().Set("Cache-Control", "no-cache")
			for range 3 {
				say(w, "chunk")
				<-next
			}
		})
		g := newRig(t, routing.NameRandom, engine)
		req, _ := http.NewRequest(http.MethodPost, g.URL+"/v1/chat/completions", strings.NewReader(chatBody))
		req.Header.Set("Accept-Encoding", "gzip")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			chunk := make([]byte, 5)
			if _, err := io.ReadFull(resp.Body, chunk); err != nil || string(chunk) != "chunk" {
				t.Fatalf("%q: got %q, %v", media, chunk, err)
			}
			next <- struct{}{}
		}
		resp.Body.Close()
		h := resp.Header
		if h.Get("X-Accel-Buffering") != "no" || h.Get("Cache-Control") != "no-cache" || h.Get("Content-Encoding") != "" || h.Get("Content-Type") != media {
			t.Errorf("%q: header %v", media, h)
		}
	}
}

func TestC100_AnswersKeepTheirCoding(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, chatAnswer)
	_ = z.Close()
	for _, media := range []string{"application/json", "text/event-stream"} {
		engine := newReplica(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", media)
			if r.Header.Get("Accept-Encoding") != "gzip" {
				_, _ = io.WriteString(w, chatAnswer)
				return
			}
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Length", fmt.Sprint(packed.Len()))
			w.Header().Set("Etag", `"tag"`)
			_, _ = w.Write(packed.Bytes())
		})
		g := newRig(t, routing.NameRandom, engine)
		req, _ := http.NewRequest(http.MethodPost, g.URL+"/v1/chat/completions", strings.NewReader(chatBody))
		req.Header.Set("Accept-Encoding", "gzip")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if !bytes.Equal(got, packed.Bytes()) || resp.ContentLength != int64(packed.Len()) || resp.Header.Get("Etag") != `"tag"` {
			t.Errorf("%s: the coded answer was changed: %d bytes, %v", media, len(got), resp.Header)
		}
		req, _ = http.NewRequest(http.MethodPost, g.URL+"/v1/chat/completions", strings.NewReader(chatBody))
		req.Header.Set("Accept-Encoding", "identity")
		resp, err = http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, _ = io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(got) != chatAnswer {
			t.Errorf("%s: the plain answer was changed: %s", media, got)
		}
	}
}

func TestTrailersSurvive(t *testing.T) {
	g := newRig(t, routing.NameRandom, newReplica(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Announced")
		say(w, "body")
		w.Header().Set("X-Announced", "1")
		w.Header().Set(http.TrailerPrefix+"X-Surprise", "2")
	}))
	for _, client := range []*http.Client{http.DefaultClient, speakHTTP2(t)} {
		resp, err := client.Post(g.URL+"/v1/chat/completions", "application/json", strings.NewReader(chatBody))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(body) != "body" || resp.Trailer.Get("X-Announced") != "1" || resp.Trailer.Get("X-Surprise") != "2" {
			t.Errorf("%s: %q, %v, trailers %v", resp.Proto, body, err, resp.Trailer)
		}
	}
}

func TestInterimAnswersSurvive(t *testing.T) {
	g := newRig(t, routing.NameRandom, newReplica(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		writeJSON(w, 200, "{}")
	}))
	for _, client := range []*http.Client{http.DefaultClient, speakHTTP2(t)} {
		var hints atomic.Int64
		req, _ := http.NewRequest(http.MethodPost, g.URL+"/v1/chat/completions", strings.NewReader(chatBody))
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				if code == http.StatusEarlyHints && h.Get("Link") != "" {
					hints.Add(1)
				}
				return nil
			},
		}))
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if hints.Load() != 1 || resp.Header.Get("Link") != "" || resp.StatusCode != 200 {
			t.Errorf("%s: %d early hints, %d %v", resp.Proto, hints.Load(), resp.StatusCode, resp.Header)
		}
	}
	old := exchangeRaw(t, g.URL, fmt.Sprintf("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s", len(chatBody), chatBody))
	if !strings.HasPrefix(old, "HTTP/1.0 200") || strings.Contains(old, " 103 ") {
		t.Errorf("an HTTP/1.0 client got %q", old)
	}
}
