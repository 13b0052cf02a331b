package proxy

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/dialect"
	"github.com/warmpath/warmpath/internal/routing"
)

func TestExplainForetellsTheRequest(t *testing.T) {
	replicas := []*replica{newReplica(t, nil), newReplica(t, nil), newReplica(t, nil)}
	g := newRig(t, routing.NamePrefixAware, replicas...)
	const body = `{"model":"m","stream":true,"prompt_cache_key":"team-a","messages":[{"role":"user","content":"hello"}]}`
	e, err := g.proxy.Explain("/v1/chat/completions", http.Header{}, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, _ := g.post(t, "/v1/chat/completions", body)
	if len(e.Order) != 3 || e.Order[0].Replica != resp.Header.Get("X-Warmpath-Replica") || string(e.Order[0].Reason) != resp.Header.Get("X-Warmpath-Decision") {
		t.Errorf("explained %+v, but it went to %s by %s", e.Order, resp.Header.Get("X-Warmpath-Replica"), resp.Header.Get("X-Warmpath-Decision"))
	}
	e.Order = nil
	want := &Explanation{
		API: "openai", Endpoint: "default", Variant: "main", Pool: "pool", Model: "m", Stream: true, Strategy: routing.NamePrefixAware,
		Options: routing.Options{PrefixLength: 1024, ConcurrencyThreshold: 16}, Key: e.Key, Window: 5, WindowUnit: "characters", Hint: "team-a",
	}
	if diff := cmp.Diff(want, e); diff != "" || len(e.Key) != 16 {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(g.access(t, 1)) != 1 || g.inFlight() != 0 {
		t.Error("explaining counted as a request")
	}
}

func TestExplainWindows(t *testing.T) {
	g := newRigAt(t, routing.NamePrefixAware, "http://127.0.0.1:1", "http://127.0.0.1:2")
	for _, r := range g.fleet.View().Replicas {
		g.fleet.SetHealth(r, false)
	}
	e, err := g.proxy.Explain("/invocations", http.Header{dialect.HeaderPrefixAwareID: {"h"}}, []byte("0123456789"))
	if err != nil || e.API != "sagemaker" || e.Window != 10 || e.WindowUnit != "bytes" || e.Hint != "h" || !e.Degraded || len(e.Order) != 2 {
		t.Errorf("got %+v, %v", e, err)
	}
	e, err = g.proxy.Explain("/v1/embeddings", http.Header{}, []byte(`{"input":"x"}`))
	if err != nil || e.Key != "" || e.WindowUnit != "" || e.Order[0].Reason != routing.Fallback {
		t.Errorf("got %+v, %v", e, err)
	}
}

func TestExplainRefusesAsTheProxyDoes(t *testing.T) {
	g := newRigAt(t, routing.NameRandom, "http://127.0.0.1:1")
	g.endpoint.Strict, g.endpoint.Models = true, []string{"m"}
	g.retable()
	for _, c := range []struct{ path, body, want string }{
		{"/elsewhere", "{}", "is not served"},
		{"no path", "{}", "give a path"},
		{"/v1/chat/completions", "{", "invalid_json"},
		{"/v1/chat/completions", `{"model":"other"}`, "model_not_found"},
	} {
		_, err := g.proxy.Explain(c.path, http.Header{}, []byte(c.body))
		var own *dialect.Error
		if err == nil || !strings.Contains(err.Error(), c.want) && (!errors.As(err, &own) || own.Code != c.want) {
			t.Errorf("%+v: got %v", c, err)
		}
	}
}
