package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/endpoint"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/routing"
)

const (
	componentHeader = "X-Amzn-SageMaker-Inference-Component"
	variantHeader   = "X-Amzn-SageMaker-Target-Variant"
)

// newHost is a rig whose endpoint has the inference components a, of a replica of that name, and b, both of the variant main, and c
// of the variant other, without copies.
func newHost(t *testing.T) (g *rig, a, b *replica) {
	t.Helper()
	says := func(model string) *replica {
		return newReplica(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/models" {
				writeJSON(w, 200, `{"data":[{"id":"`+model+`"}]}`)
				return
			}
			writeJSON(w, 200, chatAnswer)
		})
	}
	a, b = says("model-a"), says("model-b")
	g = newRig(t, routing.NameLeastOutstanding, a)
	component := func(name, variant string, pool *endpoint.Pool) *endpoint.Variant {
		return &endpoint.Variant{Name: variant, Component: name, Weight: 1, Pool: pool, Strategy: g.endpoint.Variants[0].Strategy}
	}
	empty := &endpoint.Pool{Name: "empty", Fleet: fleet.New(fleet.Options{})}
	g.endpoint.ByComponent, g.endpoint.NameOnly, g.endpoint.Variants = true, true, []*endpoint.Variant{
		component("a", "main", g.pool), component("b", "main", newRig(t, routing.NameRandom, b).pool), component("c", "other", empty),
	}
	g.retable()
	return g, a, b
}

func TestRequestsGoToTheComponentTheyName(t *testing.T) {
	g, a, b := newHost(t)
	for i, c := range []struct {
		path    string
		headers []string
		to      *replica
	}{
		{invokePath, []string{componentHeader, "a"}, a},
		{invokePath, []string{componentHeader, "b"}, b},
		{streamPath, []string{componentHeader, "b", variantHeader, "main"}, b},
		{"/endpoints/default/inference-components/a/openai/v1/chat/completions", nil, a},
		{"/endpoints/default/inference-components/b/openai/v1/messages", nil, b},
		{"/endpoints/default/inference-components/b/openai/v1/completions", []string{variantHeader, "main"}, b},
	} {
		before := len(c.to.received())
		resp, body := g.ask(t, c.path, chatBody, c.headers...)
		if resp.StatusCode != 200 || resp.Header.Get("X-Amzn-Invoked-Production-Variant") != "main" || len(c.to.received()) != before+1 {
			t.Errorf("%s %v: got %d %s by variant %q", c.path, c.headers, resp.StatusCode, body, resp.Header.Get("X-Amzn-Invoked-Production-Variant"))
		}
		if lines := g.access(t, i+1); lines[i].Variant != "main/a" && c.to == a || lines[i].Variant != "main/b" && c.to == b {
			t.Errorf("%s %v: logged as variant %q", c.path, c.headers, lines[i].Variant)
		}
	}
	for _, r := range a.received() {
		if strings.Contains(r.uri, "components") || strings.Contains(r.uri, "endpoints") {
			t.Errorf("an engine got %s", r.uri)
		}
	}
	if len(a.received()) != 2 || len(b.received()) != 4 {
		t.Errorf("got %d and %d requests, want 2 and 4", len(a.received()), len(b.received()))
	}
}

func TestRequestsThatNameNoComponent(t *testing.T) {
	const openAI = "/endpoints/default/openai/v1/chat/completions"
	g, a, b := newHost(t)
	plainRig := newRig(t, routing.NameRandom, newReplica(t, nil))
	required, none := "Inference Component Name header is required", "Inference Component Name header is not allowed"
	for _, c := range []struct {
		g       *rig
		path    string
		headers []string
		code    string
		message string
	}{
		{g, invokePath, nil, "inference_component_required", required},
		{g, invokePath, []string{variantHeader, "main"}, "inference_component_required", required},
		{g, openAI, nil, "inference_component_required", required},
		{g, openAI, []string{componentHeader, "a"}, "invalid_header", "name the inference component in it"},
		{g, "/endpoints/default/inference-components/a/openai/v1/chat/completions", []string{componentHeader, "a"}, "invalid_header", "is not taken on this path"},
		{g, invokePath, []string{componentHeader, "A"}, "inference_component_not_found", "Inference Component A not found for Endpoint default."},
		{g, invokePath, []string{componentHeader, "a_b"}, "invalid_header", "'inferenceComponentName'"},
		{g, "/endpoints/default/inference-components/x/openai/v1/chat/completions", nil, "inference_component_not_found", "Inference Component x not found for Endpoint default."},
		{g, invokePath, []string{componentHeader, "a", variantHeader, "other"}, "variant_not_found", "Variant other of Endpoint default has no Inference Component a."},
		{plainRig, invokePath, []string{componentHeader, "a"}, "inference_component_not_found", none},
		{plainRig, "/endpoints/default/inference-components/x/openai/v1/chat/completions", nil, "inference_component_not_found", none},
	} {
		resp, body := c.g.ask(t, c.path, chatBody, c.headers...)
		var answer struct {
			Message string
			Error   struct{ Message, Code string }
		}
		_ = json.Unmarshal([]byte(body), &answer)
		message, openAI := answer.Message+answer.Error.Message, strings.Contains(c.path, "openai")
		if resp.StatusCode != 400 || resp.Header.Get("X-Warmpath-Code") != c.code || !strings.Contains(message, c.message) ||
			openAI && answer.Error.Code != "validation_error" || !openAI && resp.Header.Get("X-Amzn-ErrorType") != "ValidationError" {
			t.Errorf("%s %v: got %d %s %s", c.path, c.headers, resp.StatusCode, resp.Header.Get("X-Warmpath-Code"), body)
		}
	}
	if len(a.received())+len(b.received()) != 0 {
		t.Error("a request reached an engine")
	}
}

// A component without copies is not there now, and clients are told to come again.
func TestAComponentWithoutCopies(t *testing.T) {
	g, _, _ := newHost(t)
	for path, headers := range map[string][]string{
		invokePath: {componentHeader, "c"}, streamPath: {componentHeader, "c"},
		"/endpoints/default/inference-components/c/openai/v1/chat/completions": nil,
	} {
		resp, body := g.ask(t, path, chatBody, headers...)
		if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || resp.Header.Get("X-Warmpath-Code") != "no_replica" ||
			!strings.Contains(body, "Inference Component has no capacity to process this request: c has no copies now") {
			t.Errorf("%s: got %d %v %s", path, resp.StatusCode, resp.Header, body)
		}
		if e := resp.Header.Get("X-Amzn-ErrorType"); headers != nil && e != "ServiceUnavailable" {
			t.Errorf("%s: got %s, want ServiceUnavailable, which SDKs repeat", path, e)
		}
	}
}

func TestModelListOfAComponent(t *testing.T) {
	g, _, _ := newHost(t)
	for path, want := range map[string]string{
		"/endpoints/default/inference-components/a/openai/v1/models":         "[model-a]",
		"/endpoints/default/inference-components/b/openai/v1/models":         "[model-b]",
		"/endpoints/default/inference-components/c/openai/v1/models":         "[]",
		"/endpoints/default/openai/v1/models":                                "[model-a model-b]",
		"/endpoints/default/inference-components/b/openai/v1/models/model-b": "model-b",
		"/endpoints/default/inference-components/b/openai/v1/models/model-a": "model_not_found",
		"/endpoints/default/inference-components/x/openai/v1/models":         "Inference Component x not found for Endpoint default.",
		"/v1/models": "[]",
	} {
		resp, err := http.Get(g.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		var list struct{ Data []struct{ ID string } }
		_ = json.Unmarshal(body, &list)
		ids := []string{}
		for _, m := range list.Data {
			ids = append(ids, m.ID)
		}
		if got := fmt.Sprint(ids); err != nil || got != want && !strings.Contains(string(body), `"`+want+`"`) {
			t.Errorf("%s: got %s, %v, want %s", path, body, err, want)
		}
	}
}

func TestExplainNamesTheComponent(t *testing.T) {
	g, _, _ := newHost(t)
	e, err := g.proxy.Explain("/endpoints/default/inference-components/b/openai/v1/chat/completions", http.Header{}, []byte(chatBody))
	if err != nil || e.Component != "b" || e.Variant != "main" || len(e.Order) != 1 {
		t.Errorf("got %+v, %v", e, err)
	}
	if e, err = g.proxy.Explain(invokePath, http.Header{http.CanonicalHeaderKey(componentHeader): {"c"}}, []byte(chatBody)); err != nil || e.Component != "c" || len(e.Order) != 0 {
		t.Errorf("without copies: got %+v, %v", e, err)
	}
}
