package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/internal/dialect"
	"github.com/warmpath/warmpath/internal/endpoint"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/routing"
)

// longBody is a chat request of about n bytes.
func longBody(n int) string {
	return `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("lorem ipsum ", n/12) + `"}]}`
}

func TestC001_RetrySendsTheWholeBody(t *testing.T) {
	body := longBody(40 << 10)
	var failed atomic.Bool
	answer := func(w http.ResponseWriter, _ *http.Request) {
		if failed.Swap(true) {
			writeJSON(w, 200, chatAnswer)
			return
		}
		writeJSON(w, 503, `{"error":{"message":"busy"}}`)
	}
	a, b := newReplica(t, answer), newReplica(t, answer)
	g := newRig(t, routing.NameLeastOutstanding, a, b)
	resp, got := g.post(t, "/v1/chat/completions", body)
	if resp.StatusCode != 200 || got != chatAnswer {
		t.Fatalf("got %d %s", resp.StatusCode, got)
	}
	for _, r := range []*replica{a, b} {
		if seen := r.received(); len(seen) != 1 || string(seen[0].body) != body || seen[0].length != int64(len(body)) || seen[0].chunked {
			t.Errorf("a replica got %d requests, not one whole", len(seen))
		}
	}
}

func TestC001_TheConnectionOfAFailedAttemptIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed atomic.Bool
		var dialled atomic.Int64
		n := newMemoryNet()
		for _, address := range []string{"a:80", "b:80"} {
			n.engine(t, address, func(w http.ResponseWriter, _ *http.Request) {
				if failed.Swap(true) {
					writeJSON(w, 200, chatAnswer)
					return
				}
				writeJSON(w, 503, `{"error":{"message":"busy"}}`)
			})
		}
		g := assemble(t, routing.NameLeastOutstanding, func(ctx context.Context, network, address string) (net.Conn, error) {
			dialled.Add(1)
			return n.dial(ctx, network, address)
		}, "http://a", "http://b")
		for range 8 {
			if w := g.direct(chatBody); w.Code != 200 {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		}
		if got := dialled.Load(); got != 2 {
			t.Errorf("%d connections were opened, want one to each replica", got)
		}
	})
}

func TestC001_RetryAfterHalfTheBody(t *testing.T) {
	body := longBody(2 << 20)
	var first atomic.Bool
	got := make(chan string, 1)
	serve := func(c *net.TCPConn, in *bufio.Reader) {
		if !first.Swap(true) {
			_, _ = io.CopyN(io.Discard, in, int64(len(body)/2))
			return
		}
		_, sent, _ := takeRequest(in)
		got <- sent
		_, _ = io.WriteString(c, rawOK)
	}
	g := newRigAt(t, routing.NameRandom, rawReplica(t, serve), rawReplica(t, serve))
	if resp, answer := g.post(t, "/v1/chat/completions", body); resp.StatusCode != 200 || answer != "{}" {
		t.Fatalf("got %d %s", resp.StatusCode, answer)
	}
	if sent := <-got; sent != body {
		t.Errorf("the second replica got %d bytes that are not the client's %d", len(sent), len(body))
	}
	if l := g.access(t, 1)[0]; l.Attempts != 2 || l.Decision != "retry" || l.Outcome != "ok" {
		t.Errorf("logged %+v", l)
	}
}

func TestC033_ClientErrorsAreTheClientsOwn(t *testing.T) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.URL.Query().Get("status"))
		w.Header().Set("X-Engine", "yes")
		writeJSON(w, status, fmt.Sprintf(`{"error":{"message":"engine says %d"}}`, status))
	}
	a, b := newReplica(t, answer), newReplica(t, answer)
	g := newRig(t, routing.NameLeastOutstanding, a, b)
	sent := 0
	for range 10 {
		for _, status := range []int{400, 401, 404, 413, 422} {
			sent++
			resp, body := g.post(t, fmt.Sprintf("/v1/chat/completions?status=%d", status), chatBody)
			if want := fmt.Sprintf(`{"error":{"message":"engine says %d"}}`, status); resp.StatusCode != status || body != want || resp.Header.Get("X-Engine") != "yes" {
				t.Fatalf("%d: got %d %s", status, resp.StatusCode, body)
			}
		}
	}
	if got := len(a.received()) + len(b.received()); got != sent {
		t.Errorf("the engines got %d requests, want %d: one each", got, sent)
	}
	for _, s := range g.fleet.Statuses() {
		if s.State != fleet.Ready {
			t.Errorf("%s is %s", s.Replica, s.State)
		}
	}
	if resp, _ := g.post(t, "/v1/chat/completions?status=200", chatBody); resp.StatusCode != 200 {
		t.Errorf("the good request got %d", resp.StatusCode)
	}
}

func TestC069_OwnAnswersSayWhenToComeBack(t *testing.T) {
	bodies := map[string]string{
		"/v1/chat/completions": chatBody,
		"/v1/messages":         chatBody,
		"/invocations":         "anything",
	}
	shapes := map[string]func(code string, answer map[string]any) bool{
		"/v1/chat/completions": func(code string, a map[string]any) bool {
			e, _ := a["error"].(map[string]any)
			return e["code"] == code && e["type"] == "server_error" && e["message"] != ""
		},
		"/v1/messages": func(code string, a map[string]any) bool {
			e, _ := a["error"].(map[string]any)
			return a["type"] == "error" && e["code"] == code && e["message"] != ""
		},
		"/invocations": func(_ string, a map[string]any) bool {
			return a["__type"] == "ServiceUnavailable" && a["Message"] != ""
		},
	}
	for name, c := range map[string]struct {
		urls   []string
		status int
		code   string
	}{
		"nobody":  {nil, 503, "no_replica"},
		"refused": {[]string{refusing}, 502, "upstream_unreachable"},
	} {
		g := newRigAt(t, routing.NameRandom, c.urls...)
		for path, shaped := range shapes {
			resp, body := g.post(t, path, bodies[path])
			var answer map[string]any
			if err := json.Unmarshal([]byte(body), &answer); err != nil || !shaped(c.code, answer) {
				t.Errorf("%s %s: %s", name, path, body)
			}
			status := c.status
			if path == "/invocations" {
				status = 503 // SageMaker's for both
			}
			if after, err := strconv.Atoi(resp.Header.Get("Retry-After")); resp.StatusCode != status || err != nil || after < 1 {
				t.Errorf("%s %s: got %d, Retry-After %q", name, path, resp.StatusCode, resp.Header.Get("Retry-After"))
			}
			if resp.Header.Get("X-Warmpath-Code") != c.code {
				t.Errorf("%s %s: X-Warmpath-Code is %q", name, path, resp.Header.Get("X-Warmpath-Code"))
			}
		}
	}
}

func TestC070_NextAttemptGoesElsewhere(t *testing.T) {
	a, b := newReplica(t, nil), newReplica(t, nil)
	g := newRig(t, routing.NamePrefixAware, a, b)
	resp, _ := g.post(t, "/v1/chat/completions", chatBody)
	g.access(t, 1)
	owner, other := a, b
	if strings.HasSuffix(b.URL, resp.Header.Get("X-Warmpath-Replica")) {
		owner, other = b, a
	}
	owner.CloseClientConnections()
	owner.Close()
	resp, _ = g.post(t, "/v1/chat/completions", chatBody)
	if resp.StatusCode != 200 || resp.Header.Get("X-Warmpath-Decision") != "retry" || !strings.HasSuffix(other.URL, resp.Header.Get("X-Warmpath-Replica")) {
		t.Errorf("got %d by %s at %s", resp.StatusCode, resp.Header.Get("X-Warmpath-Decision"), resp.Header.Get("X-Warmpath-Replica"))
	}
	if l := g.access(t, 2)[1]; l.Attempts != 2 {
		t.Errorf("%d attempts, want 2", l.Attempts)
	}
}

func TestAttemptsAreBoundedAndNeverRepeat(t *testing.T) {
	for _, c := range []struct{ replicas, max, want int }{{2, 3, 2}, {5, 3, 3}, {5, 1, 1}, {5, 9, 5}} {
		var dialled []string
		dial := func(_ context.Context, _, address string) (net.Conn, error) {
			dialled = append(dialled, address)
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		}
		urls := make([]string, c.replicas)
		for i := range urls {
			urls[i] = fmt.Sprintf("http://replica-%d:80", i)
		}
		g := assemble(t, routing.NameRandom, dial, urls...)
		g.endpoint.MaxAttempts = c.max
		if w := g.direct(chatBody); w.Code != 502 {
			t.Errorf("%+v: got %d", c, w.Code)
		}
		distinct := map[string]bool{}
		for _, d := range dialled {
			distinct[d] = true
		}
		if len(dialled) != c.want || len(distinct) != c.want {
			t.Errorf("%+v: dialled %v", c, dialled)
		}
	}
}

func TestBudgetBoundsRetries(t *testing.T) {
	var asked atomic.Int64
	answer := func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		writeJSON(w, 503, "{}")
	}
	g := newRig(t, routing.NameRandom, newReplica(t, answer), newReplica(t, answer))
	now := time.Now()
	g.endpoint.Budget = endpoint.NewBudget(0.2, func() time.Time { return now })
	for range 100 {
		g.post(t, "/v1/chat/completions", chatBody)
	}
	if got := asked.Load(); got < 120 || got > 140 {
		t.Errorf("100 requests to a fleet in trouble became %d, want at most 20 + 20 %% more", got)
	}
}

func TestRefusalsAreFreeOfBudget(t *testing.T) {
	for range 8 { // either replica may be first
		g := newRigAt(t, routing.NameRandom, refusing, newReplica(t, nil).URL)
		g.endpoint.Budget = endpoint.NewBudget(0, time.Now)
		if resp, _ := g.post(t, "/v1/chat/completions", chatBody); resp.StatusCode != 200 {
			t.Fatalf("got %d", resp.StatusCode)
		}
	}
}

func TestStatusesThatAskForAnotherReplica(t *testing.T) {
	for _, c := range []struct {
		status int
		moves  bool
	}{{429, true}, {502, true}, {503, true}, {504, true}, {500, false}, {501, false}, {408, false}} {
		var first atomic.Bool
		words := fmt.Sprintf(`{"error":{"message":"engine says %d"}}`, c.status)
		answer := func(w http.ResponseWriter, _ *http.Request) {
			if first.Swap(true) {
				writeJSON(w, 200, chatAnswer)
				return
			}
			w.Header().Set("Retry-After", "7")
			writeJSON(w, c.status, words)
		}
		a, b := newReplica(t, answer), newReplica(t, answer)
		resp, body := newRig(t, routing.NameRandom, a, b).post(t, "/v1/chat/completions", chatBody)
		if want := map[bool]int{true: 200, false: c.status}[c.moves]; resp.StatusCode != want {
			t.Errorf("%d with another replica free: got %d %s", c.status, resp.StatusCode, body)
		}
		first.Store(false)
		resp, body = newRig(t, routing.NameRandom, a).post(t, "/v1/chat/completions", chatBody)
		if resp.StatusCode != c.status || body != words || resp.Header.Get("Retry-After") != "7" {
			t.Errorf("%d without another: got %d %s", c.status, resp.StatusCode, body)
		}
	}
}

func TestGetWithBodyIsForwardedAndRetried(t *testing.T) {
	var first atomic.Bool
	answer := func(w http.ResponseWriter, _ *http.Request) {
		if !first.Swap(true) {
			panic(http.ErrAbortHandler)
		}
		writeJSON(w, 200, "{}")
	}
	a, b := newReplica(t, answer), newReplica(t, answer)
	g := newRig(t, routing.NameRandom, a, b)
	req, _ := http.NewRequest(http.MethodGet, g.URL+"/v1/batches", strings.NewReader("some bytes"))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	for _, seen := range append(a.received(), b.received()...) {
		if seen.method != http.MethodGet || string(seen.body) != "some bytes" {
			t.Errorf("a replica got %s with %q", seen.method, seen.body)
		}
	}
	if resp.StatusCode != 200 || len(a.received()) != 1 || len(b.received()) != 1 {
		t.Errorf("got %d; requests %d and %d", resp.StatusCode, len(a.received()), len(b.received()))
	}
}

func TestC104_OwnExhaustionBlamesNoReplica(t *testing.T) {
	var exhausted atomic.Bool
	exhausted.Store(true)
	engine := newReplica(t, nil)
	real := &net.Dialer{}
	g := assemble(t, routing.NameRandom, func(ctx context.Context, network, address string) (net.Conn, error) {
		if exhausted.Load() {
			return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("socket", syscall.EMFILE)}
		}
		return real.DialContext(ctx, network, address)
	}, engine.URL)
	for range 10 {
		if w := g.direct(chatBody); w.Code != 503 || w.Header().Get("X-Warmpath-Code") != "router_exhausted" || w.Header().Get("Retry-After") != "1" {
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
	}
	if s := g.fleet.Statuses()[0]; s.State != fleet.Ready || s.InFlight != 0 {
		t.Errorf("the replica is %+v", s)
	}
	exhausted.Store(false)
	if w := g.direct(chatBody); w.Code != 200 {
		t.Errorf("after recovery: got %d", w.Code)
	}
}

func TestFailuresHaveCodesAndWords(t *testing.T) {
	for _, f := range []failure{failUnreachable, failLocal, failReset, failLost, failSilent, failLate} {
		if f.reason == "" || f.code == "" || f.message == "" || f.status < 500 {
			t.Errorf("incomplete: %+v", f)
		}
		x := exchange{plan: &plan{}}
		var e *dialect.Error = x.giveUp(f.because(io.EOF))
		if e.Code != f.code || (e.RetryAfter > 0) == (f.status == http.StatusGatewayTimeout) {
			t.Errorf("%s: %+v", f.reason, e)
		}
	}
}
