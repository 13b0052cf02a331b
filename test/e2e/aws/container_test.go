package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// container stands where a model's container does: it answers an invocation as the body's mode says, so that a client sees what an
// engine got and how it answered. What an LLM engine does, the emulated engines do.
type container struct {
	*httptest.Server
	name   string
	ledger *ledger
}

// order is the body of an invocation.
type order struct {
	Mode   string `json:"mode"`   // echo, parts, break, endless, mute, status
	Parts  int    `json:"parts"`  // sent before what the mode does
	Size   int    `json:"size"`   // of a part, in bytes
	Status int    `json:"status"` // of status
	Text   string `json:"text"`   // the body of status
}

// echo is what the engine got, as it tells the client.
type echo struct {
	Container string            `json:"container"`
	Path      string            `json:"path"`
	Headers   map[string]string `json:"headers"` // names in lower case
	Body      string            `json:"body"`
}

func startContainer(t *testing.T, name string, l *ledger) *container {
	t.Helper()
	c := &container{name: name, ledger: l}
	c.Server = httptest.NewServer(c)
	t.Cleanup(func() {
		c.CloseClientConnections()
		c.Close()
	})
	return c
}

func (c *container) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		return // a probe
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	id := r.Header.Get("X-Amzn-Sagemaker-Inference-Id")
	defer func() { c.ledger.end(r.Context(), id) }()
	var o order
	if json.Unmarshal(body, &o) != nil {
		o.Mode = "echo"
	}
	w.Header().Set("X-Amzn-Sagemaker-Custom-Attributes", "answered-by="+c.name)
	switch o.Mode {
	case "parts":
		o.send(w)
	case "break":
		o.send(w)
		panic(http.ErrAbortHandler)
	case "endless":
		for r.Context().Err() == nil && o.send(w) == nil {
		}
	case "mute": // says no more
		o.send(w)
		<-r.Context().Done()
	case "status":
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(o.Status)
		_, _ = io.WriteString(w, o.Text)
	default:
		c.echo(w, r, body)
	}
}

// send sends the parts, each at once. Part n is n in decimal and a space, again and again.
func (o order) send(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "text/plain")
	for n := range o.Parts {
		text := fmt.Sprint(n, " ")
		if _, err := io.WriteString(w, strings.Repeat(text, o.Size/len(text)+1)[:o.Size]); err != nil {
			return err
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			return err
		}
	}
	return nil
}

func (c *container) echo(w http.ResponseWriter, r *http.Request, body []byte) {
	e := echo{Container: c.name, Path: r.URL.RequestURI(), Headers: map[string]string{}, Body: string(body)}
	for name, values := range r.Header {
		e.Headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(e)
}

// ledger says how invocations ended that had an inference id.
type ledger struct {
	mu    sync.Mutex
	ended map[string]chan string // holds one word once the invocation has ended
}

func newLedger() *ledger { return &ledger{ended: map[string]chan string{}} }

func (l *ledger) entry(id string) chan string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended[id] == nil {
		l.ended[id] = make(chan string, 1)
	}
	return l.ended[id]
}

func (l *ledger) end(ctx context.Context, id string) {
	how := "whole"
	if ctx.Err() != nil {
		how = "cancelled"
	}
	if id == "" {
		return
	}
	select {
	case l.entry(id) <- how:
	default: // a second attempt
	}
}

// await waits for an invocation to end at its engine. It can be asked once for each.
func (l *ledger) await(ctx context.Context, id string) string {
	select {
	case how := <-l.entry(id):
		return how
	case <-ctx.Done():
		return "under way"
	}
}

// serve lets clients in other processes ask for the ledger, at GET /ended/{id}, and kill an engine, at POST /kill/{name}.
func (l *ledger) serve(t *testing.T, victims map[string]*process) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ended/{id}", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), startLimit)
		defer cancel()
		_, _ = io.WriteString(w, l.await(ctx, r.PathValue("id")))
	})
	mux.HandleFunc("POST /kill/{name}", func(_ http.ResponseWriter, r *http.Request) { victims[r.PathValue("name")].kill() })
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}
