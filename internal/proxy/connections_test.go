package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/routing"
)

// TestC002_StaleConnections sends one request after another to an engine that closes its connection in the worst moments.
func TestC002_StaleConnections(t *testing.T) {
	answerOnce := func(c *net.TCPConn, in *bufio.Reader) bool {
		_, _, err := takeRequest(in)
		if err == nil {
			_, err = io.WriteString(c, rawOK)
		}
		return err == nil
	}
	for name, serve := range map[string]func(c *net.TCPConn, in *bufio.Reader){
		"closes silently after each reply": func(c *net.TCPConn, in *bufio.Reader) { answerOnce(c, in) },
		"resets after each reply": func(c *net.TCPConn, in *bufio.Reader) {
			answerOnce(c, in)
			reset(c)
		},
		"closes when the next request begins": func(c *net.TCPConn, in *bufio.Reader) {
			if answerOnce(c, in) {
				_, _ = in.ReadByte()
			}
		},
		"closes when the next request is read": func(c *net.TCPConn, in *bufio.Reader) {
			if answerOnce(c, in) {
				_, _, _ = takeRequest(in)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRigAt(t, routing.NameRandom, rawReplica(t, serve))
			bodies := []string{chatBody, longBody(96 << 10)} // sent in one write, and in several
			for i := range 150 {
				if resp, body := g.post(t, "/v1/chat/completions", bodies[i%2]); resp.StatusCode != 200 || body != "{}" {
					t.Fatalf("round %d: got %d %s; logged %s", i, resp.StatusCode, body, g.access(t, i+1)[i].Error)
				}
			}
			if s := g.fleet.Statuses()[0]; s.State != fleet.Ready {
				t.Errorf("the replica is %s", s.State)
			}
		})
	}
}

func TestC022_ConnectionsFollowConcurrency(t *testing.T) {
	const workers, rounds = 50, 20
	engine := newReplica(t, nil)
	g := newRig(t, routing.NameLeastOutstanding, engine)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for range rounds {
				if w := g.direct(chatBody); w.Code != 200 {
					t.Errorf("got %d", w.Code)
				}
			}
		})
	}
	running.Wait()
	if got := engine.accepts.Load(); got > 2*workers {
		t.Errorf("%d requests, %d at a time, opened %d connections", workers*rounds, workers, got)
	}
}

// blackHole dials like an unreachable host: nothing comes back until the dialer's own patience ends.
func blackHole(ctx context.Context, patience time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	<-ctx.Done()
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
}

func TestC043_OneBlackHoleSlowsNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemoryNet()
		n.engine(t, "good:80", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, "{}") })
		n.engine(t, "mute:80", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == "hole:80" {
				return blackHole(ctx, time.Second)
			}
			return n.dial(ctx, network, address)
		}
		g := assemble(t, routing.NameLeastOutstanding, dial, "http://good", "http://hole", "http://mute")
		g.endpoint.Timeouts.FirstByte = 2 * time.Second
		var running sync.WaitGroup
		for range 60 {
			running.Go(func() {
				began := time.Now()
				w := g.direct(chatBody)
				took := time.Since(began)
				if w.Code != 200 || took > 3*time.Second {
					t.Errorf("got %d after %s", w.Code, took)
				}
				if w.Header().Get("X-Warmpath-Decision") != "retry" && took != 0 {
					t.Errorf("a request that went to the healthy replica at once took %s", took)
				}
			})
		}
		running.Wait()
		slow := 0
		for range 100 { // the two are known by now; a trial goes to them now and then
			began := time.Now()
			if w := g.direct(chatBody); w.Code != 200 {
				t.Errorf("later: got %d after %s", w.Code, time.Since(began))
			}
			if time.Since(began) > 0 {
				slow++
			}
		}
		if slow > 5 {
			t.Errorf("%d of 100 later requests were slow", slow)
		}
		if n := g.inFlight(); n != 0 {
			t.Errorf("%d in flight", n)
		}
	})
}

// TestC103_EnginesAreSpokenToInHTTP1 keeps the fault away: no two requests share a connection that may die unnoticed.
func TestC103_EnginesAreSpokenToInHTTP1(t *testing.T) {
	var protocol atomic.Value
	engine := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocol.Store(r.Proto)
		writeJSON(w, 200, "{}")
	}))
	engine.EnableHTTP2 = true
	engine.StartTLS()
	t.Cleanup(engine.Close)
	g := newRigAt(t, routing.NameRandom, engine.URL)
	g.transport.TLSClientConfig = &tls.Config{RootCAs: engine.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	if resp, body := g.post(t, "/v1/chat/completions", chatBody); resp.StatusCode != 200 || protocol.Load() != "HTTP/1.1" {
		t.Errorf("got %d %s over %v", resp.StatusCode, body, protocol.Load())
	}
}

// speakHTTP2 makes a client that speaks HTTP/2 in clear text.
func speakHTTP2(t testing.TB) *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestC104_ManyStreamsAtOnce(t *testing.T) {
	const streams = 1500
	var open atomic.Int64
	all := make(chan struct{})
	answer := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		if open.Add(1) == streams {
			close(all)
		}
		<-all
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}
	replicas := []*replica{newReplica(t, answer), newReplica(t, answer), newReplica(t, answer)}
	g := newRig(t, routing.NameLeastOutstanding, replicas...)
	clients := make([]*http.Client, 10) // a connection of HTTP/2 carries at most 250 streams
	for i := range clients {
		clients[i] = speakHTTP2(t)
		if resp, err := clients[i].Get(g.URL + "/hello"); err != nil { // opens the connection that all its streams will share
			t.Fatal(err)
		} else {
			resp.Body.Close()
		}
	}
	var running sync.WaitGroup
	for i := range streams {
		client := clients[i%len(clients)]
		running.Go(func() {
			resp, err := client.Post(g.URL+"/v1/chat/completions", "application/json", strings.NewReader(chatBody))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "data: {}\n\ndata: [DONE]\n\n" {
				t.Errorf("got %q, %v", body, err)
			}
		})
	}
	running.Wait()
	for _, r := range replicas {
		if got := len(r.received()); got < streams/3-5 || got > streams/3+5 {
			t.Errorf("a replica got %d of %d streams", got, streams)
		}
	}
	g.idle(t)
}

func TestOddDialErrorsAreReported(t *testing.T) {
	g := assemble(t, routing.NameRandom, func(context.Context, string, string) (net.Conn, error) {
		return nil, fmt.Errorf("dial: %w", errors.New("no route"))
	}, "http://nowhere")
	if w := g.direct(chatBody); w.Code != 502 || w.Header().Get("X-Warmpath-Code") != "upstream_reset" {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}
