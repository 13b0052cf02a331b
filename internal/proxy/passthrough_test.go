package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/routing"
)

func TestUpgradesAreTunnelled(t *testing.T) {
	got := make(chan *http.Request, 1)
	g := newRigAt(t, routing.NameLeastOutstanding, rawReplica(t, func(c *net.TCPConn, in *bufio.Reader) {
		r, _, err := takeRequest(in)
		if err != nil {
			return
		}
		got <- r
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-Websocket-Accept: x\r\n\r\n")
		_, _ = io.Copy(c, in)
	}))
	g.pool.Authorization = "Bearer engine"
	c, err := net.Dial("tcp", g.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET /v1/realtime?model=m HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-Websocket-Key: k\r\nX-Warmpath-Replica: x\r\n\r\n")
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != 101 || resp.Header.Get("Sec-Websocket-Accept") != "x" || resp.Header.Get("X-Warmpath-Replica") == "" {
		t.Fatalf("got %v, %v", resp, err)
	}
	if r := <-got; r.RequestURI != "/v1/realtime?model=m" || r.Header.Get("Sec-Websocket-Key") != "k" || r.Header.Get("Authorization") != "Bearer engine" || r.Header.Get("X-Warmpath-Replica") != "" {
		t.Errorf("the engine got %s %v", r.RequestURI, r.Header)
	}
	for i := range 3 {
		_, _ = fmt.Fprintf(c, "line %d\n", i)
		if line, err := in.ReadString('\n'); err != nil || line != fmt.Sprintf("line %d\n", i) {
			t.Fatalf("echoed %q, %v", line, err)
		}
		if g.inFlight() != 1 {
			t.Errorf("%d in flight while the tunnel is open", g.inFlight())
		}
	}
	c.Close()
	g.idle(t)
	if l := g.access(t, 1)[0]; l.Status != 101 || l.Outcome != "ok" {
		t.Errorf("logged %+v", l)
	}
}

func TestUpgradesThatFail(t *testing.T) {
	const request = "GET /v1/realtime HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n"
	unwilling := newReplica(t, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 426, "{}") })
	for name, c := range map[string]struct {
		urls []string
		want string
	}{
		"refused by the engine": {[]string{unwilling.URL}, "HTTP/1.1 426"},
		"dead":                  {[]string{refusing}, "HTTP/1.1 502"},
		"nobody":                {nil, "HTTP/1.1 503"},
	} {
		g := newRigAt(t, routing.NameRandom, c.urls...)
		if got := exchangeRaw(t, g.URL, request); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %q", name, got)
		}
		g.idle(t)
		g.access(t, 1)
	}
}

func TestUpgradeBehindAnEndpoint(t *testing.T) {
	got := make(chan string, 1)
	g := newRigAt(t, routing.NameRandom, rawReplica(t, func(c *net.TCPConn, in *bufio.Reader) {
		if r, _, err := takeRequest(in); err == nil {
			got <- r.RequestURI
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		}
	})+"/base")
	answer := exchangeRaw(t, g.URL, "GET /endpoints/default/openai/v1/realtime?model=x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if uri := <-got; uri != "/base/v1/realtime?model=x" || !strings.HasPrefix(answer, "HTTP/1.1 101") {
		t.Errorf("the engine got %s, the client %q", uri, answer)
	}
	g.idle(t)
}

// TestWishesForOtherProtocolsAreIgnored: of a tunnel they would get neither the body read nor another replica.
func TestWishesForOtherProtocolsAreIgnored(t *testing.T) {
	for _, test := range []struct{ method, path, upgrade string }{
		{"POST", "/v1/chat/completions", "h2c"},
		{"POST", "/v1/chat/completions", "websocket"}, // a body makes it no handshake
		{"GET", "/v1/files", "h2c"},
		{"GET", "/v1/files", "TLS/1.3, h2c"},
	} {
		engine := newReplica(t, nil)
		g := newRigAt(t, routing.NameRandom, refusing, engine.URL)
		answer := exchangeRaw(t, g.URL, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: %s\r\nHTTP2-Settings: AAMAAABk\r\nContent-Length: 2\r\n\r\n{}",
			test.method, test.path, test.upgrade))
		seen := engine.received()
		if !strings.HasPrefix(answer, "HTTP/1.1 200") || len(seen) != 1 || string(seen[0].body) != "{}" ||
			seen[0].header.Get("Upgrade") != "" || seen[0].header.Get("Http2-Settings") != "" {
			t.Errorf("%+v: got %q, the engine %v", test, answer, seen)
		}
	}
}
