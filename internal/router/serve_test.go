package router_test

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

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/router"
)

// parse reads a configuration.
func parse(t testing.TB, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("warmpath.yaml", []byte(text), func(string) (string, bool) { return "", false }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// serving is a Router on sockets of its own.
type serving struct {
	data, admin string
	interrupt   func()
	ended       chan error
}

func serve(t testing.TB, text string) *serving {
	t.Helper()
	cfg := parse(t, text)
	listeners, err := router.Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := router.New(cfg, router.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := &serving{
		data: listeners.Data.Addr().String(), admin: listeners.Admin.Addr().String(), interrupt: cancel, ended: make(chan error, 1),
	}
	go func() {
		s.ended <- r.Serve(ctx, listeners)
		close(s.ended)
	}()
	t.Cleanup(func() {
		cancel()
		<-s.ended
		r.Close()
	})
	return s
}

// get sends a request on a connection of its own and returns its status, 0 if there was no answer.
func get(url string) int {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// anyPort takes the delay and the limit of the drain.
const anyPort = "admin: {listen: 127.0.0.1:0}\ndata: {listen: 127.0.0.1:0, drain: {delay: %s, limit: %s}}\n"

func TestServeDrains(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	s := serve(t, fmt.Sprintf(anyPort, "3s", "1m")+onePool(static(e), leastOutstanding))
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	post := func(body string) (*http.Response, error) {
		return client.Post("http://"+s.data+"/v1/chat/completions", "application/json", strings.NewReader(body))
	}
	stream, err := post(streamBody)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if got := get("http://" + s.admin + "/readyz"); got != http.StatusOK {
		t.Fatalf("readyz: got %d before", got)
	}
	s.interrupt()
	eventually(t, "it is not ready", func() bool { return get("http://"+s.admin+"/readyz") == http.StatusServiceUnavailable })
	resp, err := post(chatBody)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("within the delay: got %v, %v; want 200", resp, err)
	}
	resp.Body.Close()
	if !resp.Close {
		t.Error("within the delay: the client was not asked to leave its connection")
	}
	eventually(t, "new connections are refused", func() bool {
		c, err := net.Dial("tcp", s.data)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	if got := get("http://" + s.admin + "/healthz"); got != http.StatusOK {
		t.Errorf("healthz while draining: got %d", got)
	}
	close(e.goOn)
	if text, err := io.ReadAll(stream.Body); err != nil || !strings.HasSuffix(string(text), "[DONE]\n\n") {
		t.Errorf("the stream was cut: %q, %v", text, err)
	}
	if err := <-s.ended; err != nil {
		t.Errorf("got %v, want a clean end", err)
	}
}

func TestServeTakesAnOpenConnectionsNextRequestWithinTheDelay(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	s := serve(t, fmt.Sprintf(anyPort, "3s", "1m")+onePool(static(e), leastOutstanding))
	conn, err := net.Dial("tcp", s.data)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	ask := func() (*http.Response, error) {
		fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: w\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(chatBody), chatBody)
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		return resp, err
	}
	if _, err := ask(); err != nil {
		t.Fatal(err)
	}
	s.interrupt()
	eventually(t, "it is not ready", func() bool { return get("http://"+s.admin+"/readyz") == http.StatusServiceUnavailable })
	resp, err := ask()
	if err != nil || resp.StatusCode != http.StatusOK || !resp.Close {
		t.Errorf("got %v, %v; want an answer that asks to leave the connection", resp, err)
	}
}

func TestServeCutsWhatOutlastsTheLimit(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	s := serve(t, fmt.Sprintf(anyPort, "100ms", "100ms")+onePool(static(e), leastOutstanding))
	stream, err := http.Post("http://"+s.data+"/v1/chat/completions", "application/json", strings.NewReader(streamBody))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	s.interrupt()
	if text, err := io.ReadAll(stream.Body); err == nil {
		t.Errorf("got a clean end after %q, want a broken stream", text)
	}
	if err := <-s.ended; err != nil {
		t.Errorf("got %v, want a clean end", err)
	}
}

func TestListenErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	pool := onePool("static: [http://127.0.0.1:1]", "RANDOM")
	for _, tt := range []struct{ data, admin, want string }{
		{taken.Addr().String(), "127.0.0.1:0", taken.Addr().String() + " is in use; stop what uses it or choose another address with --listen or data.listen"},
		{"127.0.0.1:0", taken.Addr().String(), taken.Addr().String() + " is in use; stop what uses it or choose another address with --admin-listen or admin.listen"},
		{"192.0.2.1:80", "127.0.0.1:0", "192.0.2.1:80 is not an address of this machine; set --listen or data.listen"},
	} {
		l, err := router.Listen(parse(t, fmt.Sprintf("data: {listen: %s}\nadmin: {listen: %s}\n", tt.data, tt.admin)+pool))
		if err == nil || err.Error() != "listen: "+tt.want {
			t.Errorf("got %v, %v; want %q", l, err, tt.want)
		}
	}
}
