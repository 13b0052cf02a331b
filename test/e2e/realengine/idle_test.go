//go:build e2ereal

package realengine

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/test/e2e/lab"
)

const (
	// engineIdle is how long llama.cpp keeps a connection without a request.
	engineIdle = 5 * time.Second
	// engineRequests is how many it answers on one connection.
	engineRequests = 100
)

// idlers are clients that each send a request, wait for a while, and so on.
type idlers struct {
	clients, rounds int // a wait comes before each round but the first
	least, most     time.Duration
}

// idleConnections sends requests with waits between them around the time after which engines close connections, and around the time
// after which Warmpath does, and others so close together that engines close connections after their hundredth request.
func idleConnections(t *testing.T, l lab.Lab) {
	of := lab.Settings{Slots: lab.Slots, Context: roomyContext}
	s := setUp(t, l, "LEAST_OUTSTANDING_REQUESTS", "", of, of)
	var premises sync.WaitGroup
	premises.Go(func() { closesIdle(t, s.engines[0]) })
	premises.Go(func() { closesUsed(t, s.engines[1]) })
	groups := []idlers{
		{clients: 200, rounds: 6, least: 6 * time.Second, most: 6 * time.Second},
		{clients: 50, rounds: 7, least: 4900 * time.Millisecond, most: 5100 * time.Millisecond},
		{clients: 50, rounds: 8, least: 3900 * time.Millisecond, most: 4100 * time.Millisecond},
	}
	var sent, failed atomic.Int64
	send := func(client *http.Client, path string, body []byte) {
		sent.Add(1)
		if _, err := complete(postJSON(client, s.url+path, body)); err != nil && failed.Add(1) <= 3 {
			t.Errorf("%s: %v", path, err)
		}
	}
	var working sync.WaitGroup
	for _, g := range groups {
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: g.clients}, Timeout: faultLimit}
		for range g.clients {
			working.Go(func() {
				for round := range g.rounds {
					if round > 0 {
						<-time.After(g.least + rand.N(g.most-g.least+1))
					}
					send(client, "/v1/chat/completions", chat("Well?", 1, round%2 == 0))
				}
			})
		}
	}
	over := make(chan struct{})
	var steady sync.WaitGroup
	steady.Go(func() { // counting tokens needs no slot
		for tick := time.NewTicker(5 * time.Millisecond); ; <-tick.C {
			select {
			case <-over:
				tick.Stop()
				return
			default:
				send(http.DefaultClient, "/v1/chat/completions/input_tokens", chat("Well?", 1, false))
			}
		}
	})
	idle := 0
	for _, g := range groups {
		idle += g.clients * (g.rounds - 1)
	}
	working.Wait()
	close(over)
	steady.Wait()
	premises.Wait()
	t.Logf("%d requests, %d of them after a wait: %d failed, %v sent again", sent.Load(), idle, failed.Load(), lab.Sum(t, []string{s.admin}, "warmpath_retries_total{"))
	if failed.Load() > 0 {
		t.Errorf("%d of %d requests failed, want none", failed.Load(), sent.Load())
	}
	if used := sent.Load() / int64(len(s.engines)); used < 5*engineRequests {
		t.Errorf("only %d requests an engine: few connections can have got to their hundredth", used)
	}
}

// closesIdle makes sure that the engine closes a connection that is idle, as is supposed here.
func closesIdle(t *testing.T, e *lab.Engine) {
	conn, in := dial(t, e)
	if conn == nil {
		return
	}
	defer conn.Close()
	if err := ask(conn, in, false); err != nil {
		t.Errorf("engine: %v", err)
		return
	}
	began := time.Now()
	_, err := in.ReadByte()
	if took := time.Since(began); err != io.EOF || took < engineIdle-time.Second || took > engineIdle+2*time.Second {
		t.Errorf("engine: an idle connection ended with %v after %v, want the end after %v", err, took, engineIdle)
	}
}

// closesUsed makes sure that the engine ends a connection by its hundredth answer, as is supposed here.
func closesUsed(t *testing.T, e *lab.Engine) {
	conn, in := dial(t, e)
	if conn == nil {
		return
	}
	defer conn.Close()
	for i := range engineRequests {
		if err := ask(conn, in, i == engineRequests-1); err != nil {
			t.Errorf("engine: request %d on a connection: %v", i+1, err)
			return
		}
	}
}

func dial(t *testing.T, e *lab.Engine) (net.Conn, *bufio.Reader) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(e.URL, "http://"))
	if err != nil {
		t.Errorf("engine: %v", err)
		return nil, nil
	}
	return conn, bufio.NewReader(conn)
}

// ask sends one request on a connection, and is told in its answer whether it was the last.
func ask(conn net.Conn, in *bufio.Reader, last bool) error {
	if _, err := io.WriteString(conn, "GET /health HTTP/1.1\r\nHost: engine\r\n\r\n"); err != nil {
		return err
	}
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK || response.Close != last {
		return fmt.Errorf("%s, last request %v; want 200 and %v", response.Status, response.Close, last)
	}
	return nil
}
