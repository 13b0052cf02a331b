package proxy

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/routing"
)

// cannedEngine answers every request at once, as a transport that has sent it would.
type cannedEngine struct {
	media  string
	length int64
	reads  []string
}

func (e *cannedEngine) RoundTrip(r *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(r.Context())
	trace.GotConn(httptrace.GotConnInfo{Reused: true})
	_, _ = io.Copy(io.Discard, r.Body)
	_ = r.Body.Close()
	trace.WroteRequest(httptrace.WroteRequestInfo{})
	return &http.Response{
		StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: e.length,
		Header: http.Header{"Content-Type": {e.media}, "Date": {"Mon, 30 Nov 2026 00:00:00 GMT"}, "Server": {"uvicorn"}},
		Body:   io.NopCloser(&cannedBody{reads: e.reads}),
	}, nil
}

// cannedBody gives one part a read.
type cannedBody struct{ reads []string }

func (b *cannedBody) Read(p []byte) (int, error) {
	if len(b.reads) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.reads[0])
	b.reads = b.reads[1:]
	return n, nil
}

// discardWriter is a client that costs nothing.
type discardWriter struct{ header http.Header }

func (w *discardWriter) Header() http.Header         { return w.header }
func (w *discardWriter) WriteHeader(int)             {}
func (w *discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *discardWriter) Flush()                      {}

func (w *discardWriter) SetReadDeadline(time.Time) error  { return nil }
func (w *discardWriter) SetWriteDeadline(time.Time) error { return nil }

// cannedStream answers with an event stream of n tokens, each in a read of its own.
func cannedStream(n int) *cannedEngine {
	const event = `data: {"id":"chatcmpl-81d8ac1e13980357","object":"chat.completion.chunk","created":1796004153,"model":"tiny","choices":[{"index":0,"delta":{"content":"word"},"logprobs":null,"finish_reason":null,"token_ids":null}]}` + "\n\n"
	return &cannedEngine{media: "text/event-stream", length: -1, reads: slices.Repeat([]string{event}, n)}
}

// canned returns a proxy over 8 replicas by PREFIX_AWARE, without a network, and what sends it a request of about that size.
func canned(tb testing.TB, engine *cannedEngine, path string, size int) (g *rig, request func()) {
	var urls []string
	for i := range 8 {
		urls = append(urls, "http://10.0.0."+string(rune('1'+i))+":8000")
	}
	g = assemble(tb, routing.NamePrefixAware, nil, urls...)
	g.pool.Transport = engine
	g.proxy.Log = slog.New(slog.NewJSONHandler(io.Discard, nil))
	body := []byte(longBody(size))
	r, _ := http.NewRequest(http.MethodPost, path, nil)
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"*/*"}, "User-Agent": {"bench"}, "Authorization": {"Bearer key"}}
	r.RemoteAddr, r.ContentLength = "10.1.1.1:1234", int64(len(body))
	return g, func() {
		r.Body = io.NopCloser(bytes.NewReader(body))
		g.proxy.ServeHTTP(&discardWriter{header: make(http.Header, 8)}, r)
	}
}

// BenchmarkRequest is a whole request by PREFIX_AWARE over 8 replicas, without the network: what Warmpath itself costs.
func BenchmarkRequest(b *testing.B) {
	plain := &cannedEngine{media: "application/json", length: int64(len(chatAnswer)), reads: []string{chatAnswer}}
	stream := cannedStream(50)
	const chat = "/v1/chat/completions"
	for _, c := range []struct {
		name, path string
		size       int
		engine     *cannedEngine
	}{
		{"2KB", chat, 2 << 10, plain}, {"200KB", chat, 200 << 10, plain},
		{"stream-50-events", chat, 2 << 10, stream}, {"invocation-50-events", "/endpoints/default/invocations", 2 << 10, stream},
		{"framed-50-events", streamPath, 2 << 10, stream},
	} {
		b.Run(c.name, func(b *testing.B) {
			g, request := canned(b, c.engine, c.path, c.size)
			b.SetBytes(int64(c.size))
			b.ReportAllocs()
			for b.Loop() {
				request()
			}
			if !strings.Contains(scrape(g), "warmpath_") {
				b.Error("no metrics")
			}
		})
	}
}

// BenchmarkPart is one token of a stream, relayed as it is and in a frame: the difference is what framing costs. One operation is one
// part of a stream of that many.
func BenchmarkPart(b *testing.B) {
	for _, c := range []struct{ name, path string }{{"plain", "/endpoints/default/invocations"}, {"framed", streamPath}} {
		b.Run(c.name, func(b *testing.B) {
			_, request := canned(b, cannedStream(b.N), c.path, 2<<10)
			b.ReportAllocs()
			b.ResetTimer()
			request()
		})
	}
}

// TestAPartAllocatesNothing compares long streams with short ones.
func TestAPartAllocatesNothing(t *testing.T) {
	for _, path := range []string{"/v1/chat/completions", "/endpoints/default/invocations", streamPath} {
		allocations := func(parts int) float64 {
			_, request := canned(t, cannedStream(parts), path, 2<<10)
			return testing.AllocsPerRun(20, request)
		}
		if few, many := allocations(10), allocations(1010); many-few > 20 { // the pools' memory may be collected in between
			t.Errorf("%s: %v allocations for 1000 parts", path, many-few)
		}
	}
}
