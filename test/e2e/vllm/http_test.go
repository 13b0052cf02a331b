//go:build e2evllm

package vllm

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/test/e2e/lab"
)

const (
	// callLimit ends a call that hangs.
	callLimit = 2 * time.Minute
	// replicaHeader and decisionHeader are where Warmpath says who answered, and why.
	replicaHeader, decisionHeader = "X-Warmpath-Replica", "X-Warmpath-Decision"
)

// plainly asks without a connection that the engine, which closes those that are idle, might be about to close.
var plainly = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}, Timeout: callLimit}

// answer is what one request brought. Without a status nothing has answered.
type answer struct {
	status int
	header http.Header
	body   string
	err    error // the body's: it was broken off
	took   time.Duration
}

func (a answer) replica() string  { return a.header.Get(replicaHeader) }
func (a answer) decision() string { return a.header.Get(decisionHeader) }

func get(t *testing.T, url string) answer {
	t.Helper()
	return send(t, http.MethodGet, url, "")
}

func post(t *testing.T, url, body string) answer {
	t.Helper()
	return send(t, http.MethodPost, url, body)
}

func send(t *testing.T, method, url, body string) answer {
	t.Helper()
	c := begin(t, method, url, body)
	<-c.done
	return c.answer
}

// call is a request under way. Its answer is there once done is closed.
type call struct {
	answer
	begun chan struct{} // closed with the first byte of the answer, or its end
	done  chan struct{}
	ended time.Time
	leave context.CancelFunc

	mu  sync.Mutex
	got strings.Builder
}

// begin sends a request and reads the answer as it comes.
func begin(t *testing.T, method, url, body string) *call {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	c := &call{begun: make(chan struct{}), done: make(chan struct{}), leave: cancel}
	go c.run(request)
	return c
}

func (c *call) run(request *http.Request) {
	began, first := time.Now(), sync.OnceFunc(func() { close(c.begun) })
	defer close(c.done)
	defer first()
	defer func() { c.ended = time.Now(); c.took = c.ended.Sub(began) }()
	response, err := plainly.Do(request)
	if err != nil {
		c.err = err
		return
	}
	defer response.Body.Close()
	c.status, c.header = response.StatusCode, response.Header
	piece := make([]byte, 32<<10)
	for {
		n, err := response.Body.Read(piece)
		c.mu.Lock()
		c.got.Write(piece[:n])
		c.mu.Unlock()
		if n > 0 {
			first()
		}
		if err != nil {
			if err != io.EOF {
				c.err = err
			}
			c.answer.body = c.text()
			return
		}
	}
}

// text is what has come so far.
func (c *call) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got.String()
}

// hasBegun says whether a byte of the answer, or its end, has come.
func (c *call) hasBegun() bool {
	select {
	case <-c.begun:
		return true
	default:
		return false
	}
}

// endsWithin gives up on a call that should have ended by a time.
func (c *call) endsWithin(t *testing.T, limit time.Duration, what string) answer {
	t.Helper()
	select {
	case <-c.done:
	case <-time.After(limit):
		t.Fatalf("%s: not answered after %v; so far: %.300s", what, limit, c.text())
	}
	return c.answer
}

// fields is a part of a request.
type fields = map[string]any

// completion asks for tokens after a prompt, which is as many tokens as it has bytes. The answer is always the same, and has that length.
func completion(prompt string, tokens int, changes ...fields) string {
	return request(append([]fields{{"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": true}}, changes...)...)
}

func request(parts ...fields) string {
	all := fields{"model": lab.ModelName}
	for _, part := range parts {
		maps.Copy(all, part)
	}
	body, err := json.Marshal(all)
	if err != nil {
		panic(err) // strings, numbers and booleans always encode
	}
	return string(body)
}

var stream = fields{"stream": true}
