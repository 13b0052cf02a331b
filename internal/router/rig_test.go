package router_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/router"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// engine is a fake replica that a test controls.
type engine struct {
	*httptest.Server
	sick     atomic.Bool // /health answers 503
	probes   atomic.Int64
	requests atomic.Int64
	began    chan struct{} // takes a value for each stream whose first chunk has been sent
	goOn     chan struct{} // closed or fed: streams end, silent requests answer
	silent   atomic.Bool   // answers wait for goOn before their first byte

	mu   sync.Mutex
	keys []string // method and Authorization of each probe and request, in their order
}

// newEngine starts a fake replica on a free port.
func newEngine(t testing.TB) *engine { return newEngineAt(t, "127.0.0.1:0") }

// newEngineAt starts one on a given address.
func newEngineAt(t testing.TB, address string) *engine {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{began: make(chan struct{}, 1<<10), goOn: make(chan struct{})}
	e.Server = &httptest.Server{Listener: l, Config: &http.Server{Handler: e, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}}
	e.Start()
	t.Cleanup(e.kill)
	return e
}

// kill ends the engine as kill -9 would: the port refuses, connections break.
func (e *engine) kill() {
	_ = e.Listener.Close()
	e.CloseClientConnections()
	e.Close()
}

func (e *engine) address() string { return e.Listener.Addr().String() }

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.keys = append(e.keys, r.Method+" "+r.Header.Get("Authorization"))
	e.mu.Unlock()
	switch r.URL.Path {
	case "/health", "/ready":
		e.probes.Add(1)
		if e.sick.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		return
	case "/v1/chat/completions", "/v1/completions":
	default:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	body, _ := io.ReadAll(r.Body)
	e.requests.Add(1)
	if bytes.Contains(body, []byte(`"stream":true`)) {
		e.stream(w, r)
		return
	}
	if e.silent.Load() {
		e.wait(r)
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hi"}}]}`)
}

func (e *engine) keysSeen() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.keys)
}

// stream sends one chunk, waits, and ends in order.
func (e *engine) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")
	_ = http.NewResponseController(w).Flush()
	e.began <- struct{}{}
	e.wait(r)
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func (e *engine) wait(r *http.Request) {
	select {
	case <-e.goOn:
	case <-r.Context().Done():
	}
}

type options = router.Options

// site is a running Router with its configuration file.
type site struct {
	*router.Router
	data, admin *httptest.Server
	path        string
	log         *lockedBuffer
	client      *http.Client
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// start runs a Router with a configuration file of that text until the test ends.
func start(t testing.TB, text string, adjust ...func(*options)) *site {
	t.Helper()
	s := &site{path: filepath.Join(t.TempDir(), "warmpath.yaml"), log: &lockedBuffer{}}
	s.write(t, text)
	load := func() (*config.Config, error) { return config.Load(s.path, os.LookupEnv) }
	cfg, err := load()
	if err != nil {
		t.Fatal(err)
	}
	o := options{Load: load, Version: "test", Log: slog.New(slog.NewTextHandler(s.log, nil))}
	for _, f := range adjust {
		f(&o)
	}
	if s.Router, err = router.New(cfg, o); err != nil {
		t.Fatal(err)
	}
	s.data, s.admin = httptest.NewServer(s.Data()), httptest.NewServer(s.Admin())
	s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1 << 10}}
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		s.data.CloseClientConnections()
		s.data.Close()
		s.admin.CloseClientConnections()
		s.admin.Close()
		s.Close()
	})
	return s
}

func (s *site) write(t testing.TB, text string) {
	t.Helper()
	if err := os.WriteFile(s.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// reload writes a new configuration and puts it into use.
func (s *site) reload(t testing.TB, text string) {
	t.Helper()
	s.write(t, text)
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
}

const (
	chatBody   = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`
	streamBody = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`
)

// post sends a body and returns the status, the answer and its header.
func (s *site) post(t testing.TB, body string) (int, string, http.Header) {
	t.Helper()
	resp, err := s.client.Post(s.data.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading the answer: %v", err)
	}
	return resp.StatusCode, string(answer), resp.Header
}

// mustPost sends n chat requests, all of which must be answered with 200.
func (s *site) mustPost(t testing.TB, n int) {
	t.Helper()
	for range n {
		if status, answer, _ := s.post(t, chatBody); status != http.StatusOK {
			t.Fatalf("got %d %s, want 200", status, answer)
		}
	}
}

// open starts a stream and returns a function that reads it to its end and gives its whole text.
func (s *site) open(t testing.TB) func() (string, error) {
	t.Helper()
	resp, err := s.client.Post(s.data.URL+"/v1/chat/completions", "application/json", strings.NewReader(streamBody))
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("stream: got %s, want 200", resp.Status)
	}
	return func() (string, error) {
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return string(text), err
	}
}

// ask sends a request to the admin API and returns the status and the answer.
func (s *site) ask(t testing.TB, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, s.admin.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// scrape reads the metrics: the value of every series whose line begins with prefix.
func (s *site) scrape(t testing.TB, prefix string) map[string]float64 {
	t.Helper()
	_, text := s.ask(t, http.MethodGet, "/metrics", "")
	found := map[string]float64{}
	for line := range strings.Lines(text) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok {
			series, value, _ = strings.Cut(strings.TrimSpace(line), " ")
		}
		if strings.HasPrefix(series, prefix) {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatalf("metrics: %q: %v", line, err)
			}
			found[series] = v
		}
	}
	return found
}

// sum adds up the series whose line begins with prefix.
func (s *site) sum(t testing.TB, prefix string) (sum float64) {
	t.Helper()
	for _, v := range s.scrape(t, prefix) {
		sum += v
	}
	return sum
}

// status is the state of the replica at an address, as the admin API shows it; empty if there is none.
func (s *site) status(t testing.TB, address string) (found fleet.Status) {
	t.Helper()
	_, text := s.ask(t, http.MethodGet, "/api/v1/replicas", "")
	var answer struct {
		Pools map[string][]fleet.Status `json:"pools"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("replicas: %s: %v", text, err)
	}
	for _, statuses := range answer.Pools {
		for _, st := range statuses {
			if st.Replica == address && !st.Removed {
				return st
			}
		}
	}
	return found
}

// ready waits until all of these engines are in use.
func (s *site) ready(t testing.TB, engines ...*engine) {
	t.Helper()
	for _, e := range engines {
		s.becomes(t, e.address(), fleet.Ready)
	}
}

// becomes waits until the replica at an address is in a state.
func (s *site) becomes(t testing.TB, address string, state fleet.State) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s is %s", address, state), func() bool { return s.status(t, address).State == state })
}

// eventually waits for a condition that another goroutine brings about. Its limit only ends a test that would hang.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for !condition() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("it never came about that %s", what)
		}
	}
}

// quick makes a pool notice within tenths of a second what takes seconds by default, and yet take no slow machine for a sick engine.
const quick = "health: {interval: 100ms, timeout: 30s, unhealthy_after: 2}, ejection: {base_time: 50ms, max_time: 200ms}, slow_start: 0s, connect_timeout: 30s"

// onePool is a configuration of one pool with a source, and one endpoint with a strategy.
func onePool(source, strategy string) string {
	routing := "{strategy: " + strategy + "}"
	if strategy == "PREFIX_AWARE" {
		routing = "{strategy: PREFIX_AWARE, prefix_length: 1024, concurrency_threshold: 8}"
	}
	return fmt.Sprintf("pools:\n  p: {%s, %s}\nendpoints:\n  e: {variants: [{pool: p, routing: %s}]}\n", source, quick, routing)
}

// static is a static source of engines.
func static(engines ...*engine) string {
	urls := make([]string, len(engines))
	for i, e := range engines {
		urls[i] = e.URL
	}
	return "static: [" + strings.Join(urls, ", ") + "]"
}

const leastOutstanding = "LEAST_OUTSTANDING_REQUESTS"
