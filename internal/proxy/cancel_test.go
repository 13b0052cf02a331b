package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/routing"
)

// promptly is shorter than any time limit of a rig, and longer than a machine with much else to do takes.
const promptly = 10 * time.Second

// TestC006_ClientLeaves has a client hang up in each phase of an answer and looks at what the engine notices.
func TestC006_ClientLeaves(t *testing.T) {
	leave := map[string]func(c *net.TCPConn){
		"closes":      func(c *net.TCPConn) { _ = c.Close() },
		"resets":      reset,
		"half-closes": func(c *net.TCPConn) { _ = c.CloseWrite() },
	}
	for phase, answer := range map[string]func(w http.ResponseWriter){
		"waiting for headers":    func(http.ResponseWriter) {},
		"before the first token": func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() },
		"mid-stream":             func(w http.ResponseWriter) { say(w, anEvent) },
	} {
		for how, end := range leave {
			t.Run(phase+"/"+how, func(t *testing.T) {
				started, dropped := make(chan struct{}), make(chan time.Time, 1)
				g := newRig(t, routing.NameRandom, newReplica(t, func(w http.ResponseWriter, r *http.Request) {
					answer(w)
					close(started)
					<-r.Context().Done()
					dropped <- time.Now()
				}))
				c := openRequest(t, g, "/v1/chat/completions", chatBody)
				<-started
				if phase == "mid-stream" {
					_, _ = bufio.NewReader(c).Peek(1)
				}
				left := time.Now()
				end(c)
				if took := (<-dropped).Sub(left); took > promptly {
					t.Errorf("the engine was told after %s", took)
				}
				if how == "half-closes" && phase != "mid-stream" {
					if got, _ := io.ReadAll(c); len(got) > 0 {
						t.Errorf("the client got %q", got)
					}
				}
				l := g.access(t, 1)[0]
				if l.Outcome != "client_cancelled" || l.Level != "INFO" || phase != "mid-stream" && l.Status != 499 {
					t.Errorf("logged %+v", l)
				}
				if s := g.fleet.Statuses()[0]; s.State != fleet.Ready {
					t.Errorf("the replica is %s", s.State)
				}
				g.idle(t)
			})
		}
	}
}

func TestC006_ClientLeavesOverHTTP2(t *testing.T) {
	started, dropped := make(chan struct{}), make(chan struct{})
	g := newRig(t, routing.NameRandom, newReplica(t, func(_ http.ResponseWriter, r *http.Request) {
		close(started)
		<-r.Context().Done()
		close(dropped)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+"/v1/chat/completions", strings.NewReader(chatBody))
	client := speakHTTP2(t)
	go func() {
		<-started
		cancel()
	}()
	if resp, err := client.Do(req); err == nil {
		t.Errorf("got %d", resp.StatusCode)
	}
	<-dropped
	if l := g.access(t, 1)[0]; l.Outcome != "client_cancelled" {
		t.Errorf("logged %+v", l)
	}
	g.idle(t)
}

// openRequest sends a request over a connection of its own, which it returns.
func openRequest(t testing.TB, g *rig, path, body string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", g.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// TestC114_AnswerIsHeardToItsEnd is about an engine that a broken connection upsets.
func TestC114_AnswerIsHeardToItsEnd(t *testing.T) {
	for _, keep := range []bool{false, true} {
		for phase, events := range map[string]int{"before the answer": 0, "mid-stream": 1} {
			t.Run(fmt.Sprintf("%s, kept %t", phase, keep), func(t *testing.T) { leaveOneOf16(t, keep, events) })
		}
	}
}

// leaveOneOf16 opens sixteen streams, breaks off one after some events, and lets the engine finish all.
func leaveOneOf16(t *testing.T, keep bool, events int) {
	const usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3}}\n\n"
	started, gone := make(chan struct{}, 16), make(chan struct{})
	cut := make(chan struct{}, 16)
	g := newRig(t, routing.NameRandom, newReplica(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range events {
			say(w, anEvent)
		}
		started <- struct{}{}
		select {
		case <-gone:
			say(w, anEvent)
			say(w, usage)
		case <-r.Context().Done():
			cut <- struct{}{}
		}
	}))
	g.pool.KeepOnDisconnect = keep
	left := make(chan struct{})
	g.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == "leaves" {
			context.AfterFunc(r.Context(), func() { close(left) })
		}
		g.proxy.ServeHTTP(w, r)
	})
	answers := make(chan error, 15)
	for range 15 {
		go func() {
			resp, err := http.Post(g.URL+"/v1/chat/completions", "application/json", strings.NewReader(chatBody))
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			answers <- err
		}()
	}
	leaving := openRequest(t, g, "/v1/chat/completions?leaves", chatBody)
	for range 16 {
		<-started
	}
	leaving.Close()
	<-left
	if !keep {
		<-cut
		eventually(t, "the one request is over", func() bool { return g.inFlight() == 15 })
	} else if n := g.inFlight(); n != 16 {
		t.Errorf("%d in flight, but the engine has 16", n)
	}
	close(gone)
	for range 15 {
		if err := <-answers; err != nil {
			t.Errorf("another stream: %v", err)
		}
	}
	outcomes := map[string]int{}
	for _, l := range g.access(t, 16) {
		outcomes[l.Outcome]++
		if l.Outcome == "client_cancelled" && (l.OutputTokens == 3) != keep {
			t.Errorf("logged %+v", l)
		}
	}
	if len(cut) != 0 || outcomes["ok"] != 15 || outcomes["client_cancelled"] != 1 {
		t.Errorf("connections cut: %d; outcomes %v", len(cut), outcomes)
	}
	g.idle(t)
}
