package controlplane

import (
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/auth"
	"github.com/warmpath/warmpath/internal/config"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(writerVariable); path != "" {
		writeForever(path)
	}
	goleak.VerifyTestMain(m)
}

// fakeRouter stands for the router: pools with ready replicas, an endpoint of the file, and what was applied.
type fakeRouter struct {
	mu      sync.Mutex
	pools   map[string]int
	applied map[string]config.Endpoint
	refuse  error
}

func (r *fakeRouter) pool(name string) (ready int, exists bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ready, exists = r.pools[name]
	return ready, exists
}

func (r *fakeRouter) set(pool string, ready int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pools[pool] = ready
}

func (r *fakeRouter) apply(made map[string]config.Endpoint) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse == nil {
		r.applied = maps.Clone(made)
	}
	return r.refuse
}

// served lists the variants of the applied endpoint.
func (r *fakeRouter) served(endpoint string) []config.Variant {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.applied[endpoint].Variants
}

// plane is a control plane over a fake router. Its clock stands still unless a test moves it.
type plane struct {
	*Server
	router *fakeRouter
	path   string
	now    time.Time
	auth   *auth.Authenticator // nil = nobody is asked
}

func newPlane(t testing.TB) *plane {
	t.Helper()
	p := &plane{
		router: &fakeRouter{pools: map[string]int{"m": 2, "n": 1, "cold": 0}},
		path:   filepath.Join(t.TempDir(), "state.json"),
		now:    time.Date(2026, 11, 30, 2, 1, 38, 500e6, time.UTC),
	}
	p.open(t)
	return p
}

// open begins with what the state file holds, as after a restart.
func (p *plane) open(t testing.TB) {
	t.Helper()
	s, err := Open(Options{
		StateFile: p.path, Region: "eu-central-1", Account: "123456789012",
		Auth: func() *auth.Authenticator { return p.auth }, Pool: p.router.pool, Configured: func(name string) bool { return strings.EqualFold(name, "from-file") }, Apply: p.router.apply,
		Now: func() time.Time { return p.now }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Server = s
}

// answer is a response of the control plane.
type answer struct {
	code int
	body map[string]any
}

func (a answer) message() string { text, _ := a.body["message"].(string); return text }

// send runs one request and checks what all answers have in common.
func (p *plane) send(t testing.TB, r *http.Request) answer {
	t.Helper()
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	a := answer{code: w.Code}
	if err := json.Unmarshal(w.Body.Bytes(), &a.body); err != nil {
		t.Fatalf("%q: %v", w.Body, err)
	}
	if id := w.Header().Get("x-amzn-RequestId"); len(id) != 36 || w.Header().Get("Content-Type") != "application/x-amz-json-1.1" {
		t.Errorf("request id %q, content type %q", id, w.Header().Get("Content-Type"))
	}
	if code, wrong := a.body["__type"]; wrong != (a.code != http.StatusOK) || wrong && w.Header().Get("x-amzn-ErrorType") != code {
		t.Errorf("status %d with type %v and header %q", a.code, code, w.Header().Get("x-amzn-ErrorType"))
	}
	return a
}

// call runs an operation.
func (p *plane) call(t testing.TB, operation, body string) answer {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", "SageMaker."+operation)
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	return p.send(t, r)
}

// must runs an operation that has to succeed.
func (p *plane) must(t testing.TB, operation, body string) map[string]any {
	t.Helper()
	a := p.call(t, operation, body)
	if a.code != http.StatusOK {
		t.Fatalf("%s %s: %d %v", operation, body, a.code, a.body)
	}
	return a.body
}

// config makes an endpoint configuration of variants, each a JSON object without its braces.
func (p *plane) config(t testing.TB, name string, variants ...string) {
	t.Helper()
	p.must(t, "CreateEndpointConfig", `{"EndpointConfigName":"`+name+`","ProductionVariants":[{`+strings.Join(variants, "},{")+`}]}`)
}

// endpoint makes an endpoint and brings it into service.
func (p *plane) endpoint(t testing.TB, name, config string) {
	t.Helper()
	p.must(t, "CreateEndpoint", `{"EndpointName":"`+name+`","EndpointConfigName":"`+config+`"}`)
	p.advance()
}

func (p *plane) describe(t testing.TB, name string) map[string]any {
	t.Helper()
	return p.must(t, "DescribeEndpoint", `{"EndpointName":"`+name+`"}`)
}

func (p *plane) status(t testing.TB, name string) string {
	t.Helper()
	text, _ := p.describe(t, name)["EndpointStatus"].(string)
	return text
}

func same(t testing.TB, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

var errRefused = errors.New("refused by the router")
