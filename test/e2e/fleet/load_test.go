//go:build e2e

package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// outcome is what a client saw of one request.
type outcome struct {
	sent    time.Time
	first   time.Time // when the first byte of the body had come; zero = none came
	end     time.Time
	status  int
	replica string
	whole   bool // ended with [DONE] and a clean end of the body
	err     error
}

// begun says that the client got 200 and a byte: from there on no retry can hide what happens to the replica.
func (o outcome) begun() bool { return o.status == http.StatusOK && !o.first.IsZero() }

// failed says that a request gave its client nothing.
func (o outcome) failed() bool { return !o.begun() }

func (o outcome) String() string {
	return fmt.Sprintf("status %d from %q, begun %t, whole %t, after %s: %v", o.status, o.replica, o.begun(), o.whole, o.end.Sub(o.sent), o.err)
}

// client sends requests to one router.
type client struct {
	http.Client
	target string
}

func newClient(r *router) *client {
	return &client{
		Client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1 << 12, DisableCompression: true}},
		target: r.data + "/v1/chat/completions",
	}
}

// chat is a streamed request of so many answer tokens about a document of about 2,000 characters; equal numbers make equal
// documents.
func chat(document, tokens int) string {
	text := strings.Repeat(fmt.Sprintf("Line of document %d. ", document), 100)
	return fmt.Sprintf(`{"model":"emulated","stream":true,"max_tokens":%d,"messages":[{"role":"system","content":%q},{"role":"user","content":"Go on."}]}`, tokens, text)
}

// send sends one request and reads its answer.
func (c *client) send(ctx context.Context, body string) (o outcome) {
	o.sent = time.Now()
	defer func() { o.end = time.Now() }()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.target, strings.NewReader(body))
	if err != nil {
		o.err = err
		return o
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		o.err = err
		return o
	}
	defer resp.Body.Close()
	o.status, o.replica = resp.StatusCode, resp.Header.Get("X-Warmpath-Replica")
	o.read(resp.Body)
	return o
}

// read reads an answer as it comes.
func (o *outcome) read(body io.Reader) {
	var last []byte
	buf := make([]byte, 4<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 && o.first.IsZero() {
			o.first = time.Now()
		}
		last = append(last, buf[:n]...)
		last = last[max(0, len(last)-32):]
		if err != nil {
			o.whole = errors.Is(err, io.EOF) && bytes.HasSuffix(bytes.TrimSpace(last), []byte("[DONE]"))
			if !o.whole {
				o.err = err
			}
			return
		}
	}
}

// load is an open loop: requests at a fixed rate, whether or not the earlier ones have been answered.
type load struct {
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	outcomes []outcome
}

// startLoad sends rate requests per second until stop. body makes the nth.
func startLoad(t testing.TB, c *client, rate int, body func(n int) string) *load {
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{cancel: cancel}
	t.Cleanup(func() { l.stop() })
	l.running.Go(func() {
		began := time.Now()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(rate)))):
			}
			l.running.Go(func() { l.add(c.send(context.Background(), body(n))) })
		}
	})
	return l
}

func (l *load) add(o outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.outcomes = append(l.outcomes, o)
}

// seen returns the requests that have ended so far.
func (l *load) seen() []outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]outcome(nil), l.outcomes...)
}

// stop sends no more, waits for what is under way and returns all.
func (l *load) stop() []outcome {
	l.cancel()
	l.running.Wait()
	return l.seen()
}

// count counts the outcomes that something is true of.
func count(all []outcome, is func(outcome) bool) (n int) {
	for _, o := range all {
		if is(o) {
			n++
		}
	}
	return n
}

// report logs the outcomes that something is true of, a few of them.
func report(t testing.TB, all []outcome, is func(outcome) bool) {
	t.Helper()
	shown := 0
	for _, o := range all {
		if is(o) && shown < 5 {
			t.Log(o)
			shown++
		}
	}
}
