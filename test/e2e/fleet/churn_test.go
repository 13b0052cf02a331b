//go:build e2e

package fleet

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// whim is what goes wrong with a request, by the engine or by the client.
type whim string

const (
	wellBehaved   whim = ""
	plainAnswer   whim = "plain"
	resetBefore   whim = "reset-before"   // the engine resets the connection before its header
	resetAfter    whim = "reset-after"    // and in the middle of a stream
	badChunk      whim = "bad-chunk"      // the engine breaks the chunked coding
	engineError   whim = "engine-error"   // 500
	overloaded    whim = "overloaded"     // 503: another replica is asked
	silent        whim = "silent"         // no byte
	stuck         whim = "stuck"          // a chunk, and then nothing more
	clientEarly   whim = "client-early"   // the client leaves before the header
	clientMidway  whim = "client-midway"  // and in the middle of a stream
	clientHalfway whim = "client-halfway" // and while it still sends its body
)

// whims are drawn from, so many of a hundred each.
var whims = []struct {
	what  whim
	share int
}{
	{wellBehaved, 35}, {plainAnswer, 34}, {clientEarly, 6}, {clientMidway, 6}, {clientHalfway, 2}, {overloaded, 4}, {engineError, 3},
	{resetBefore, 3}, {resetAfter, 3}, {badChunk, 2}, {stuck, 1}, {silent, 1},
}

const whimHeader = "X-Test-Whim"

// startFickleEngine is a fast fake engine that does what the request's header asks for.
func startFickleEngine(t testing.TB) *httptest.Server {
	s := httptest.NewUnstartedServer(http.HandlerFunc(beFickle))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func beFickle(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	switch what := whim(r.Header.Get(whimHeader)); what {
	case plainAnswer:
		fmt.Fprint(w, `{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`)
	case engineError:
		w.WriteHeader(http.StatusInternalServerError)
	case overloaded:
		w.WriteHeader(http.StatusServiceUnavailable)
	case silent, clientEarly:
		<-r.Context().Done()
	case resetBefore, badChunk:
		breakOff(w, what)
	default:
		stream(w, r, what)
	}
}

const event = "data: {\"choices\":[{\"delta\":{\"content\":\"word \"}}]}\n\n"

func stream(w http.ResponseWriter, r *http.Request, what whim) {
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	for i := range 4 {
		fmt.Fprint(w, event)
		_ = out.Flush()
		switch {
		case i == 1 && what == resetAfter:
			breakOff(w, what)
			return
		case i == 1 && (what == stuck || what == clientMidway):
			<-r.Context().Done()
			return
		}
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// breakOff ends the connection in the middle of things.
func breakOff(w http.ResponseWriter, what whim) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	if what == badChunk {
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\nzz\r\n", len(event), event)
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// draw picks a whim by its share.
func draw(random *rand.Rand) whim {
	n := random.IntN(100)
	for _, w := range whims {
		if n -= w.share; n < 0 {
			return w.what
		}
	}
	return wellBehaved
}

// play sends a request with a whim and says whether its end was as that whim allows.
func (c *client) play(what whim) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var body io.Reader = strings.NewReader(chat(1, 4))
	if what == clientHalfway {
		body = io.MultiReader(io.LimitReader(body, 100), leaving{cancel})
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.target, body)
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(whimHeader, string(what))
	if what == clientEarly {
		time.AfterFunc(5*time.Millisecond, cancel)
	}
	resp, err := c.Do(req)
	if err != nil {
		return what == clientEarly || what == clientHalfway
	}
	defer resp.Body.Close()
	if what == clientMidway {
		_, err := bufio.NewReader(resp.Body).ReadString('\n')
		return err == nil
	}
	text, err := io.ReadAll(resp.Body)
	switch what {
	case wellBehaved:
		return err == nil && strings.HasSuffix(string(text), "[DONE]\n\n")
	case plainAnswer:
		return err == nil && resp.StatusCode == http.StatusOK
	case resetAfter, badChunk, stuck:
		return err != nil // it must look broken
	}
	return resp.StatusCode >= 500
}

// leaving is the part of a body in which the client loses patience.
type leaving struct{ leave func() }

func (l leaving) Read([]byte) (int, error) {
	l.leave()
	return 0, context.Canceled
}

// churn sends n requests from many clients at once, each with a whim of its own, and returns how many ended as they must not.
func churn(t testing.TB, c *client, n int, seed uint64) (wrong int64) {
	t.Helper()
	const clients = 64
	var next, odd atomic.Int64
	var all sync.WaitGroup
	for i := range clients {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		all.Go(func() {
			for next.Add(1) <= int64(n) {
				if what := draw(random); !c.play(what) {
					if odd.Add(1) <= 5 {
						t.Logf("a request with the whim %q ended as it must not", what)
					}
				}
			}
		})
	}
	all.Wait()
	return odd.Load()
}

// footprint is what a router holds while it is idle.
type footprint struct {
	goroutines, descriptors, heap float64
}

// footprintOf waits until the router is idle and connections nobody uses have expired, and lets it collect its garbage.
func footprintOf(t testing.TB, r *router, c *client) footprint {
	t.Helper()
	r.becomesIdle(t)
	for range 2000 { // what they allocate makes for several collections
		if !c.play(plainAnswer) {
			t.Error("a plain request failed while nothing else was going on")
		}
	}
	c.CloseIdleConnections()
	pause(6 * time.Second) // upstream connections are kept for 4 s
	return footprint{
		goroutines:  r.metric(t, "go_goroutines "),
		descriptors: r.metric(t, "process_open_fds "),
		heap:        r.metric(t, "go_memstats_next_gc_bytes ") / 2, // the collector aims at twice what was alive
	}
}

// requests may be more by `go test -tags e2e ./test/e2e/fleet -run C009 -requests 100000`.
var requests = flag.Int("requests", 20_000, "how many requests TestC009 sends")

func TestC009_RequestsWithEveryKindOfEnd(t *testing.T) {
	var urls []string
	for range 4 {
		urls = append(urls, startFickleEngine(t).URL)
	}
	// A replica that is asked to fail is not to be ejected for it: the failures are the requests' own.
	text := strings.Replace(configurationOf("KV_AWARE", urls), "engine: vllm", "engine: vllm, ejection: {consecutive_errors: 1000}", 1)
	text = strings.Replace(text, "chat: {", "chat: {timeouts: {first_byte: 1s, idle: 1s}, ", 1)
	r := startRouter(t, text)
	c := newClient(r)
	wrong := churn(t, c, 2000, 1) // so that pools and caches have their size
	start := footprintOf(t, r, c)
	began := time.Now()
	wrong += churn(t, c, *requests, 2)
	t.Logf("%d requests in %s, %d ended as they must not", *requests, time.Since(began).Round(time.Second), wrong)
	end := footprintOf(t, r, c)
	for i, f := range []footprint{start, end} {
		t.Logf("after %d: %g goroutines, %g descriptors, %.1f MiB alive", i**requests, f.goroutines, f.descriptors, f.heap/mib)
	}
	if wrong > 0 {
		t.Errorf("%d requests ended as they must not", wrong)
	}
	if end.goroutines > start.goroutines+5 || end.descriptors > start.descriptors+5 {
		t.Error("goroutines or descriptors are left behind")
	}
	if end.heap > 1.5*start.heap+2*mib { // a kilobyte a request would be 20 MiB
		t.Error("the heap grows")
	}
	for _, outcome := range []string{"ok", "client_cancelled", "upstream_error", "upstream_aborted", "timeout"} {
		n := r.metric(t, fmt.Sprintf(`warmpath_request_outcomes_total{endpoint="chat",outcome=%q`, outcome))
		t.Logf("%s: %g", outcome, n)
		if n < 100 {
			t.Errorf("only %g requests ended as %s: the test is not what it says", n, outcome)
		}
	}
}
