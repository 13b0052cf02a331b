package proxy

import (
	"net/http"
	"testing"

	"github.com/warmpath/warmpath/internal/routing"
)

func TestForwardsByteForByte(t *testing.T) {
	engine := newReplica(t, nil)
	g := newRig(t, routing.NameLeastOutstanding, engine)
	const body = `{ "model" : "m", "seed": 9007199254740993, "messages":[{"role":"user","content":"h\u00e9"}] , "x":1e400}`
	resp, answer := g.post(t, "/v1/chat/completions?a=1&b=%2F", body)
	if resp.StatusCode != 200 || answer != chatAnswer {
		t.Fatalf("got %d %s", resp.StatusCode, answer)
	}
	if got := resp.Header.Get("X-Warmpath-Replica"); got == "" || got != g.fleet.View().Replicas[0].ID() {
		t.Errorf("X-Warmpath-Replica: %q", got)
	}
	if got := resp.Header.Get("X-Warmpath-Decision"); got != "least_outstanding" {
		t.Errorf("X-Warmpath-Decision: %q", got)
	}
	seen := engine.received()
	if len(seen) != 1 || string(seen[0].body) != body || seen[0].length != int64(len(body)) || seen[0].uri != "/v1/chat/completions?a=1&b=%2F" {
		t.Errorf("the engine got %+v", seen)
	}
	g.idle(t)
}

func TestUnknownPathIs404(t *testing.T) {
	g := newRig(t, routing.NameRandom, newReplica(t, nil))
	for _, path := range []string{"/", "/metrics", "/v1/../metrics", "/v1/%2e%2e/metrics", "/v2/x"} {
		req, _ := http.NewRequest(http.MethodPost, g.URL, nil)
		req.URL.Opaque = path
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 404 {
			t.Errorf("%s: got %d, want 404", path, resp.StatusCode)
		}
	}
}
