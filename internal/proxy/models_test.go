package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/warmpath/warmpath/internal/routing"
)

// TestC107_AliasLeadsToEachEnginesOwnName: every attempt carries the name that the endpoint's engines know.
func TestC107_AliasLeadsToEachEnginesOwnName(t *testing.T) {
	busy := func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 503, "{}") }
	engines := []*replica{newReplica(t, busy), newReplica(t, busy)}
	g := newRig(t, routing.NameRandom, engines...)
	g.endpoint.Models, g.endpoint.Aliases = []string{"real-a"}, map[string]string{"x": "real-a"}
	missing := newReplica(t, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 404, `{"error":"no such model"}`) })
	h := newRig(t, routing.NameRandom, missing)
	other := *h.endpoint
	other.Name, other.Models, other.Aliases = "other", []string{"real-b"}, map[string]string{"y": "real-b"}
	g.retable(&other)
	g.post(t, "/v1/completions", `{"model":"x"}`)
	g.access(t, 1)
	for _, e := range engines {
		if seen := e.received(); len(seen) != 1 || !bytes.Equal(seen[0].body, []byte(`{"model":"real-a"}`)) {
			t.Errorf("an engine got %+v", seen)
		}
	}
	if resp, _ := g.post(t, "/v1/completions", `{"model":"y"}`); resp.StatusCode != 404 || string(missing.received()[0].body) != `{"model":"real-b"}` {
		t.Errorf("got %d", resp.StatusCode)
	}
	if l := g.access(t, 2)[1]; l.Outcome != "client_error" || l.Status != 404 || l.Endpoint != "other" {
		t.Errorf("logged %+v", l)
	}
}

func TestC117_ResponsesKeepTheirHabits(t *testing.T) {
	const stream = "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"usage\":null}}\n\n" +
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n" +
		"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":26,\"input_tokens_details\":{\"cached_tokens\":16},\"output_tokens\":8}}}\n\n"
	answer := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		say(w, stream)
	}
	a, b := newReplica(t, answer), newReplica(t, answer)
	g := newRig(t, routing.NamePrefixAware, a, b)
	bodies := []string{
		`{"model":"m","stream":true,"instructions":"be brief","input":"hello"}`,
		`{"model":"m","stream":true,"input":[{"role":"user","content":[{"type":"input_text","text":"hello"}]}]}`,
		`{"model":"m","stream":true,"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}]}`,
	}
	for i, body := range bodies {
		resp, got := g.post(t, "/v1/responses", body)
		if got != stream || resp.Header.Get("X-Warmpath-Decision") != "affinity" {
			t.Errorf("%s: by %s\n%s", body, resp.Header.Get("X-Warmpath-Decision"), got)
		}
		if l := g.access(t, i+1)[i]; l.PromptTokens != 26 || l.CachedTokens != 16 || l.OutputTokens != 8 {
			t.Errorf("logged %+v", l)
		}
	}
	for _, seen := range append(a.received(), b.received()...) {
		if !strings.Contains(strings.Join(bodies, "\n"), string(seen.body)) {
			t.Errorf("an engine got %s", seen.body)
		}
	}
}

func TestC084_ModelList(t *testing.T) { synctest.Test(t, modelList) }

func modelList(t *testing.T) {
	n := newMemoryNet()
	list := func(address string, ids ...string) {
		var data []string
		for _, id := range ids {
			data = append(data, fmt.Sprintf(`{"id":%q,"object":"model"}`, id))
		}
		n.engine(t, address, func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Authorization"); got != "Bearer engine" {
				t.Errorf("the list was asked for with the key %q, want the engine's", got)
			}
			writeJSON(w, 200, `{"object":"list","data":[`+strings.Join(data, ",")+`]}`)
		})
	}
	list("one:80", "org/a", "a-alias")
	list("two:80", "org/a", "b")
	n.engine(t, "slow:80", hang(0))
	g := assemble(t, routing.NameRandom, n.dial, "http://one", "http://two", "http://down", "http://slow")
	g.pool.Authorization = "Bearer engine"
	client := n.client(t, g)
	get := func(path string) (int, string) {
		resp, err := client.Get("http://proxy" + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	status, body := get("/v1/models")
	var at []int
	for _, id := range []string{`"a-alias"`, `"b"`, `"org/a"`} {
		at = append(at, strings.Index(body, id))
		if strings.Count(body, id) != 1 {
			t.Errorf("%s is there %d times", id, strings.Count(body, id))
		}
	}
	if status != 200 || at[0] < 0 || at[0] > at[1] || at[1] > at[2] || !strings.Contains(body, `"object":"list"`) {
		t.Errorf("got %d %s", status, body)
	}
	g.endpoint.Models, g.endpoint.Aliases = []string{"org/a", "b"}, map[string]string{"gpt": "b"}
	g.retable()
	for path, want := range map[string]int{
		"/v1/models": 200, "/v1/models/org%2Fa": 200, "/v1/models/org/a": 200, "/v1/models/gpt": 200, "/v1/models/nobody": 404,
	} {
		if status, body := get(path); status != want {
			t.Errorf("%s: got %d %s", path, status, body)
		}
	}
}
