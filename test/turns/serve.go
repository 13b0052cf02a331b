package turns

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The roles of a process that a driver starts: see [Serve].
const (
	RoleEngine = "engine"
	RoleFloor  = "floor"
)

// Model is what the engine serves: some routers ask.
const Model = "emulated"

// Serve plays a role until the process is killed, and prints its URL first: an engine that answers at once, or the floor, the least
// that a Go proxy can do, in front of the target.
func Serve(role, target string) error {
	switch role {
	case RoleEngine:
		return serveEngine()
	case RoleFloor:
		return serveFloor(target)
	}
	return fmt.Errorf("role: %q is none; use %s or %s", role, RoleEngine, RoleFloor)
}

const streamEvents = 32

// serveEngine answers at once, so that what is measured is the way to it: a JSON answer of 1 KB, or a stream of small events that
// are flushed one by one.
func serveEngine() error {
	answer, err := json.Marshal(map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion", "model": Model,
		"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": strings.Repeat("word ", 160)}}},
		"usage":   map[string]any{"prompt_tokens": 500, "completion_tokens": 160, "total_tokens": 660},
	})
	if err != nil {
		return err
	}
	event := []byte(`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"word "},"logprobs":null,"finish_reason":null}]}` + "\n\n")
	answers := http.NewServeMux()
	answers.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	answers.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"`+Model+`","object":"model","created":1,"owned_by":"warmpath"}]}`)
	})
	answers.HandleFunc("POST /v1/chat/completions/render", render)
	answers.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		if r.URL.Query().Get("stream") == "" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(answer)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flush := http.NewResponseController(w)
		for range streamEvents {
			_, _ = w.Write(event)
			_ = flush.Flush()
		}
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	})
	return listenAndServe(answers)
}

// render tells a token for each four bytes of the body: some routers ask an engine for a prompt's tokens before they choose.
func render(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	answer := []byte(`{"token_ids":[0`)
	for ; len(body) >= 4; body = body[4:] {
		answer = strconv.AppendUint(append(answer, ','), uint64(binary.LittleEndian.Uint32(body)), 10)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(answer, "]}"...))
}

// buffers is the pool of a ReverseProxy.
type buffers struct{ sync.Pool }

func (b *buffers) Get() []byte  { return *b.Pool.Get().(*[]byte) }
func (b *buffers) Put(p []byte) { b.Pool.Put(&p) }

// serveFloor is the least that a Go proxy can do: httputil.ReverseProxy with pooled buffers and enough idle connections.
func serveFloor(target string) error {
	u, err := url.Parse(target)
	if err != nil {
		return err
	}
	pool := &buffers{sync.Pool{New: func() any { p := make([]byte, 32<<10); return &p }}}
	return listenAndServe(&httputil.ReverseProxy{
		Rewrite:    func(r *httputil.ProxyRequest) { r.SetURL(u); r.SetXForwarded() },
		Transport:  &http.Transport{MaxIdleConnsPerHost: 1 << 16, DisableCompression: true, IdleConnTimeout: 4 * time.Second},
		BufferPool: pool,
	})
}

func listenAndServe(h http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	return (&http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 90 * time.Second}).Serve(l) // as Warmpath's own
}
