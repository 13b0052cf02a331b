package proxy

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/routing"
)

const openAIPath = "/endpoints/default/openai/v1/chat/completions"

// TestOpenAIBehindAnEndpoint: the path decides, whatever the model; all else is as below /v1.
func TestOpenAIBehindAnEndpoint(t *testing.T) {
	right, wrong := newReplica(t, nil), newReplica(t, nil)
	g := newRigAt(t, routing.NamePrefixAware, right.URL+"/base")
	g.endpoint.Models, g.endpoint.Aliases = []string{"m"}, map[string]string{"alias": "m"}
	other := *newRig(t, routing.NameRandom, wrong).endpoint
	other.Name, other.Models = "other", []string{"theirs"}
	g.retable(&other)
	n := 0
	for sent, want := range map[string]string{
		`{"model":"m","messages":[]}`:      `{"model":"m","messages":[]}`,
		`{"model":"alias","messages":[]}`:  `{"model":"m","messages":[]}`,
		`{"model":"theirs","messages":[]}`: `{"model":"theirs","messages":[]}`,
		`{"model":"","messages":[]}`:       `{"model":"","messages":[]}`,
		`{"messages":[]}`:                  `{"messages":[]}`,
	} {
		resp, got := g.ask(t, openAIPath+"?a=b", sent, "User-Agent", "OpenAI/Python", "Authorization", "Bearer key", "Idempotency-Key", "k")
		if resp.StatusCode != 200 || got != chatAnswer || resp.Header.Get("X-Amzn-Invoked-Production-Variant") != "main" || resp.Header.Get("X-Amzn-RequestId") == "" {
			t.Errorf("%s: got %d %s, %v", sent, resp.StatusCode, got, resp.Header)
		}
		seen := right.received()[n]
		if seen.uri != "/base/v1/chat/completions?a=b" || string(seen.body) != want || seen.header.Get("User-Agent") != "OpenAI/Python" || seen.header.Get("Authorization") != "Bearer key" {
			t.Errorf("%s: the engine got %s %s %v", sent, seen.uri, seen.body, seen.header)
		}
		n++
	}
	if len(wrong.received()) != 0 {
		t.Error("a request went by its model")
	}
}

// TestOpenAIErrorsBehindAnEndpoint: the envelope is OpenAI's; the engine's own errors are passed on as they are.
func TestOpenAIErrorsBehindAnEndpoint(t *testing.T) {
	const engines = `{"error":{"message":"too long","type":"BadRequestError","code":400}}`
	g := newRig(t, routing.NameRandom, newReplica(t, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 400, engines) }))
	if resp, body := g.post(t, openAIPath, chatBody); resp.StatusCode != 400 || body != engines {
		t.Errorf("the engine's error became %d %s", resp.StatusCode, body)
	}
	g.endpoint.Strict, g.endpoint.Models = true, []string{"m"}
	g.retable()
	if resp, _ := g.post(t, openAIPath, `{"model":"","messages":[]}`); resp.StatusCode != 400 {
		t.Errorf("an empty model is refused with %d, but it is none", resp.StatusCode)
	}
	nobody := newRig(t, routing.NameRandom)
	for name, c := range map[string]struct {
		g          *rig
		path, body string
		status     int
		kind, code string
	}{
		"unknown endpoint": {g, "/endpoints/nobody/openai/v1/chat/completions", chatBody, 400, "invalid_request_error", "validation_error"},
		"component":        {g, "/endpoints/default/inference-components/c/openai/v1/chat/completions", chatBody, 400, "invalid_request_error", "validation_error"},
		"strict":           {g, openAIPath, `{"model":"x","messages":[]}`, 404, "invalid_request_error", "model_not_found"},
		"not JSON":         {g, openAIPath, `{`, 400, "invalid_request_error", "invalid_json"},
		"dots":             {g, "/endpoints/default/openai/v1/../../x", chatBody, 404, "invalid_request_error", "unknown_path"},
		"nobody there":     {nobody, openAIPath, chatBody, 503, "server_error", "no_replica"},
	} {
		resp, body := c.g.ask(t, c.path, c.body)
		var answer struct {
			Error struct{ Message, Type, Code string }
		}
		err := json.Unmarshal([]byte(body), &answer)
		if e := answer.Error; err != nil || resp.StatusCode != c.status || e.Type != c.kind || e.Code != c.code || e.Message == "" {
			t.Errorf("%s: got %d %s", name, resp.StatusCode, body)
		}
		if c.status == 503 && resp.Header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", name)
		}
	}
}

func TestModelListOfAnEndpoint(t *testing.T) {
	engine := newReplica(t, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, `{"data":[{"id":"served"}]}`) })
	g := newRig(t, routing.NameRandom, engine)
	other := *g.endpoint
	other.Name, other.Models, other.Aliases = "other", []string{"org/b"}, map[string]string{"alias": "org/b"}
	g.retable(&other)
	for path, want := range map[string]string{
		"/v1/models":                                `["alias" "org/b" "served"]`,
		"/endpoints/default/openai/v1/models":       `["served"]`,
		"/endpoints/other/openai/v1/models":         `["alias" "org/b"]`,
		"/endpoints/other/openai/v1/models/org%2Fb": `org/b`,
		"/endpoints/other/openai/v1/models/served":  `model_not_found`,
		"/endpoints/nobody/openai/v1/models":        `validation_error`,
	} {
		resp, err := http.Get(g.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		var list struct{ Data []struct{ ID string } }
		_ = json.Unmarshal(body, &list)
		var ids []string
		for _, m := range list.Data {
			ids = append(ids, `"`+m.ID+`"`)
		}
		if got := "[" + strings.Join(ids, " ") + "]"; got != want && !strings.Contains(string(body), `"`+want+`"`) {
			t.Errorf("%s: got %s", path, body)
		}
	}
}
