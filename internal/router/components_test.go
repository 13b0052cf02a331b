package router_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/fleet"
)

// host is a configuration of pools, given by their sources, and an endpoint whose variant main has a component of the name of each.
func host(routing string, sources map[string]string) string {
	var pools, components strings.Builder
	for name, source := range sources {
		fmt.Fprintf(&pools, "  %s: {%s, %s}\n", name, source, quick)
		fmt.Fprintf(&components, "{name: %s, pool: %s}, ", name, name)
	}
	return "pools:\n" + pools.String() + "endpoints:\n  e:\n    variants: [{name: main, routing: {" + routing + "}}]\n" +
		"    inference_components: [" + components.String() + "]\n"
}

func pathOf(component string) string {
	return "/endpoints/e/inference-components/" + component + "/openai/v1/chat/completions"
}

// send posts a body below the data listener. The caller closes the answer's body.
func (s *site) send(t testing.TB, path, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.data.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// statusOf is send for the status alone.
func (s *site) statusOf(t testing.TB, path, body string, header ...string) int {
	t.Helper()
	resp := s.send(t, path, body, header...)
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

func TestComponentsOfTheFile(t *testing.T) {
	t.Parallel()
	a, b := newEngine(t), newEngine(t)
	s := start(t, host("strategy: RANDOM", map[string]string{"a": static(a), "b": static(b)}))
	s.ready(t, a, b)
	for range 3 {
		if got := s.statusOf(t, pathOf("a"), chatBody); got != http.StatusOK {
			t.Errorf("got %d, want 200", got)
		}
	}
	if got := s.statusOf(t, "/v1/chat/completions", chatBody); got != http.StatusNotFound {
		t.Errorf("a model leads to an endpoint with components: got %d, want 404", got)
	}
	if x, y := a.requests.Load(), b.requests.Load(); x != 3 || y != 0 {
		t.Errorf("got %d and %d requests, want 3 for the component's engine alone", x, y)
	}
	eventually(t, "the requests are counted with their component", func() bool {
		return s.sum(t, `warmpath_requests_total{code="200",decision="random",endpoint="e",replica="`+a.address()+`",variant="main/a"`) == 3
	})
}

// Components of one variant learn apart, and a reload that adds another keeps what they know.
func TestComponentsLearnApart(t *testing.T) {
	t.Parallel()
	engines := emulated(t, 3)
	sources := map[string]string{"a": "engine: vllm, static: [" + engines[0].URL() + "]", "b": "engine: vllm, static: [" + engines[1].URL() + "]"}
	j := newJournal()
	s := start(t, host("strategy: KV_AWARE", sources), j.into)
	s.becomes(t, engines[0].Addr(), fleet.Ready)
	s.call(t, j, pathOf("a"), chat(longText("document", 4000)))
	blocks := func(component string) float64 {
		return s.sum(t, `warmpath_index_blocks{endpoint="e",variant="main/`+component+`"`)
	}
	known := blocks("a")
	if known == 0 || blocks("b") != 0 {
		t.Errorf("after a request to a: a knows %g blocks, b %g; want only a to know some", known, blocks("b"))
	}
	sources["c"] = "engine: vllm, static: [" + engines[2].URL() + "]"
	s.reload(t, host("strategy: KV_AWARE", sources))
	if got := blocks("a"); got != known {
		t.Errorf("after a reload: %g blocks, want the %g from before", got, known)
	}
	s.becomes(t, engines[2].Addr(), fleet.Ready)
	s.call(t, j, pathOf("c"), chat("hello"))
}

// The addresses say which copies share a host: those at 127.0.0.1 do, and those at localhost.
func TestAFullCopyHandsOverToItsSibling(t *testing.T) {
	t.Parallel()
	engines := []*engine{newEngine(t), newEngine(t), newEngine(t), newEngine(t)}
	var urls []string
	for i, e := range engines {
		_, port, _ := strings.Cut(e.address(), ":")
		urls = append(urls, "http://"+[]string{"127.0.0.1", "localhost"}[i/2]+":"+port)
	}
	s := start(t, host("strategy: PREFIX_AWARE, prefix_length: 1024, concurrency_threshold: 1", map[string]string{"copies": "static: [" + strings.Join(urls, ", ") + "]"}))
	for _, u := range urls {
		s.becomes(t, strings.TrimPrefix(u, "http://"), fleet.Ready)
	}
	var hosts []string
	for range 3 {
		resp := s.send(t, pathOf("copies"), streamBody)
		defer resp.Body.Close()
		name, _, _ := strings.Cut(resp.Header.Get("X-Warmpath-Replica"), ":")
		hosts = append(hosts, name+" "+resp.Header.Get("X-Warmpath-Decision"))
	}
	for _, e := range engines {
		close(e.goOn)
	}
	first, _, _ := strings.Cut(hosts[0], " ")
	if hosts[0] != first+" affinity" || hosts[1] != first+" overflow" || strings.HasPrefix(hosts[2], first) {
		t.Errorf("got %v; want the key's copy, its sibling, then another host", hosts)
	}
}

func TestComponentsByAPI(t *testing.T) {
	t.Parallel()
	a, b := newEngine(t), newEngine(t)
	state := filepath.Join(t.TempDir(), "state.json")
	file := controlled(state, "pools:\n  p: {"+static(a)+", "+quick+"}\n  q: {"+static(b)+", "+quick+"}\n")
	s := start(t, file)
	s.ready(t, a, b)
	const invocations, header = "/endpoints/e/invocations", "X-Amzn-SageMaker-Inference-Component"
	s.mustControl(t, "CreateEndpointConfig", `{"EndpointConfigName":"c","ExecutionRoleArn":"arn:aws:iam::123456789012:role/r","ProductionVariants":[{"VariantName":"v"}]}`)
	s.mustControl(t, "CreateEndpoint", `{"EndpointName":"e","EndpointConfigName":"c"}`)
	s.reaches(t, "e", "InService")
	if got := s.statusOf(t, invocations, chatBody, header, "ic"); got != http.StatusBadRequest {
		t.Errorf("before the component is made: got %d, want 400", got)
	}
	becomes := func(status string) {
		t.Helper()
		eventually(t, "the component is "+status, func() bool {
			_, answer := s.control(t, "DescribeInferenceComponent", `{"InferenceComponentName":"ic"}`)
			return answer["InferenceComponentStatus"] == status
		})
	}
	s.mustControl(t, "CreateInferenceComponent", `{"InferenceComponentName":"ic","EndpointName":"e","Specification":{"ModelName":"p"}}`)
	becomes("InService")
	if got := s.statusOf(t, invocations, chatBody, header, "ic"); got != http.StatusOK || a.requests.Load() != 1 {
		t.Errorf("got %d, want 200 by the engine of its pool", got)
	}
	s.mustControl(t, "UpdateInferenceComponent", `{"InferenceComponentName":"ic","Specification":{"ModelName":"q"}}`)
	becomes("InService")
	s.reload(t, file+"# the same\n")
	if got := s.statusOf(t, invocations, chatBody, header, "ic"); got != http.StatusOK || b.requests.Load() != 1 {
		t.Errorf("after an update and a reload: got %d, want 200 by the engine of its new pool", got)
	}
	for copies, want := range []int{http.StatusServiceUnavailable, http.StatusOK} {
		s.mustControl(t, "UpdateInferenceComponentRuntimeConfig", fmt.Sprintf(`{"InferenceComponentName":"ic","DesiredRuntimeConfig":{"CopyCount":%d}}`, copies))
		becomes("InService")
		if got := s.statusOf(t, invocations, chatBody, header, "ic"); got != want {
			t.Errorf("with %d copies: got %d, want %d", copies, got, want)
		}
	}
	s.write(t, strings.Replace(file, "  q: {", "  r: {", 1))
	if err := s.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), `inference component "ic"`) {
		t.Errorf("a file without the component's pool: got %v, want an error that says so", err)
	}
	s.mustControl(t, "DeleteInferenceComponent", `{"InferenceComponentName":"ic"}`)
	eventually(t, "the component is gone", func() bool {
		status, _ := s.control(t, "DescribeInferenceComponent", `{"InferenceComponentName":"ic"}`)
		return status == http.StatusBadRequest && s.statusOf(t, invocations, chatBody, header, "ic") == http.StatusBadRequest
	})
}

// Two endpoints may serve one model if clients reach them by name.
func TestEndpointsThatHaveOnlyANameShareModels(t *testing.T) {
	t.Parallel()
	a, b := newEngine(t), newEngine(t)
	s := start(t, "pools:\n  p: {"+static(a)+", "+quick+"}\n  q: {"+static(b)+", "+quick+"}\nendpoints:\n"+
		"  blue: {models: [], aliases: {x: m}, variants: [{pool: p}]}\n  green: {models: [], aliases: {x: m}, variants: [{pool: q}]}\n")
	s.ready(t, a, b)
	for _, name := range []string{"blue", "green", "green"} {
		if got := s.statusOf(t, "/endpoints/"+name+"/openai/v1/chat/completions", strings.Replace(chatBody, `"m"`, `"x"`, 1)); got != http.StatusOK {
			t.Errorf("%s: got %d, want 200", name, got)
		}
	}
	if got := s.statusOf(t, "/v1/chat/completions", chatBody); got != http.StatusNotFound {
		t.Errorf("by model: got %d, want 404", got)
	}
	if x, y := a.requests.Load(), b.requests.Load(); x != 1 || y != 2 {
		t.Errorf("got %d and %d requests, want 1 and 2", x, y)
	}
}
