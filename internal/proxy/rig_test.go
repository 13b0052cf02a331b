package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/endpoint"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/health"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/session"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// replica is a fake engine that a test controls: it records what it gets and answers as the test says.
type replica struct {
	*httptest.Server
	accepts atomic.Int64

	mu   sync.Mutex
	seen []received
}

// received is one request as it reached a replica.
type received struct {
	method, uri string
	header      http.Header
	length      int64
	chunked     bool
	body        []byte
}

func (r *replica) received() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.seen...)
}

// refusing is an address at which nobody listens. The port of a replica that was closed may soon be another's.
const refusing = "http://127.0.0.1:1"

// newReplica starts a fake engine. answer runs after the request has been read and recorded; nil answers a small chat completion.
func newReplica(t testing.TB, answer http.HandlerFunc) *replica {
	t.Helper()
	r := &replica{}
	if answer == nil {
		answer = func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, chatAnswer) }
	}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.seen = append(r.seen, received{
			method: req.Method, uri: req.RequestURI, header: req.Header.Clone(), length: req.ContentLength,
			chunked: len(req.TransferEncoding) > 0, body: body,
		})
		r.mu.Unlock()
		req.Body = io.NopCloser(bytes.NewReader(body))
		answer(w, req)
	}))
	r.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	r.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			r.accepts.Add(1)
		}
	}
	r.Start()
	t.Cleanup(func() {
		r.CloseClientConnections()
		r.Close()
	})
	return r
}

const chatAnswer = `{"id":"c1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8,"prompt_tokens_details":{"cached_tokens":4}}}`

func writeJSON(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

// rig is a proxy over fake replicas, with everything a test may want to look at.
type rig struct {
	*httptest.Server
	proxy    *Proxy
	settings *Settings
	endpoint *endpoint.Endpoint
	pool     *endpoint.Pool
	fleet    *fleet.Fleet
	// transport reaches the replicas.
	transport *http.Transport
	metrics   *telemetry.Metrics
	sessions  *session.Table
	log       *lockedBuffer
	clock     func() time.Time
}

// dialer opens connections to replicas.
type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// newRig starts a proxy in front of replicas, all of them healthy, as one endpoint that answers to any model.
func newRig(t testing.TB, strategy string, replicas ...*replica) *rig {
	t.Helper()
	urls := make([]string, len(replicas))
	for i, r := range replicas {
		urls[i] = r.URL
	}
	return newRigAt(t, strategy, urls...)
}

// newRigAt is newRig for addresses.
func newRigAt(t testing.TB, strategy string, urls ...string) *rig {
	t.Helper()
	g := assemble(t, strategy, (&net.Dialer{Timeout: time.Minute}).DialContext, urls...)
	g.Server = httptest.NewUnstartedServer(g.proxy)
	g.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(g.log, nil), slog.LevelError)
	g.Config.Protocols = new(http.Protocols)
	g.Config.Protocols.SetHTTP1(true)
	g.Config.Protocols.SetUnencryptedHTTP2(true)
	g.Start()
	t.Cleanup(func() {
		g.CloseClientConnections()
		g.Close()
	})
	return g
}

// assemble makes a proxy that reaches its replicas by dial and has no server yet.
func assemble(t testing.TB, strategy string, dial dialer, urls ...string) *rig {
	t.Helper()
	g := &rig{fleet: fleet.New(fleet.Options{}), metrics: telemetry.NewMetrics("test"), log: &lockedBuffer{}, clock: time.Now}
	g.apply(t, urls...)
	outlier := health.NewOutlier(g.fleet, health.DefaultOutlierOptions)
	t.Cleanup(outlier.Stop)
	g.transport = &http.Transport{
		DialContext: dial, MaxIdleConnsPerHost: 1 << 16, IdleConnTimeout: 4 * time.Second, DisableCompression: true,
		WriteBufferSize: 64 << 10,
	}
	t.Cleanup(g.transport.CloseIdleConnections)
	g.pool = &endpoint.Pool{Name: "pool", Fleet: g.fleet, Outlier: outlier, Transport: g.transport}
	o := routing.Options{}
	if strategy == routing.NamePrefixAware {
		o = routing.Options{PrefixLength: 1024, ConcurrencyThreshold: 16}
	}
	s, err := routing.New(strategy, o)
	if err != nil {
		t.Fatal(err)
	}
	g.endpoint = &endpoint.Endpoint{
		Name: "default", InvocationsPath: "/invocations", SessionTTL: 20 * time.Minute, MaxAttempts: 3, Budget: endpoint.NewBudget(0.2, time.Now), Timeouts: endpoint.Timeouts{Idle: 10 * time.Minute},
		Variants: []*endpoint.Variant{{Name: "main", Weight: 1, Pool: g.pool, Strategy: s, Options: o}},
	}
	g.settings = &Settings{
		Table: endpoint.NewTable([]*endpoint.Endpoint{g.endpoint}), DecisionHeaders: true,
		Limits: Limits{Body: 64 << 20, DecodedBody: 256 << 20, BodyIdle: 30 * time.Second},
	}
	g.sessions = session.NewTable(session.Options{
		Now: func() time.Time { return g.clock() }, Limit: 100,
		Ended: func(endpoint string, how session.End) { g.metrics.SessionEnded(endpoint, string(how)) },
	})
	g.proxy = New(Options{
		Current: func() *Settings { return g.settings }, Metrics: g.metrics, Sessions: g.sessions, Now: func() time.Time { return g.clock() },
		Log: slog.New(slog.NewJSONHandler(g.log, nil)), Random: rand.Uint64,
		Access: func(r *telemetry.Request) { telemetry.Access(g.proxy.Log, r) },
	})
	return g
}

// apply makes the fleet hold healthy replicas at these addresses.
func (g *rig) apply(t testing.TB, urls ...string) {
	t.Helper()
	targets := make([]fleet.Target, len(urls))
	for i, u := range urls {
		targets[i].URL = u
	}
	if errs := g.fleet.Apply(targets); errs != nil {
		t.Fatal(errs)
	}
	for _, r := range g.fleet.View().Replicas {
		g.fleet.SetHealth(r, true)
	}
}

// inFlight is the sum over all replicas, removed ones included.
func (g *rig) inFlight() (n int64) {
	for _, s := range g.fleet.Statuses() {
		n += s.InFlight
	}
	return n
}

// accessLine is what tests look at in an access line.
type accessLine struct {
	Msg, Level, ID, Method, Path, Key, Endpoint, Variant, Replica, Decision, Outcome, Code, Error string

	Status, Attempts int
	BytesIn          int64 `json:"bytes_in"`
	BytesOut         int64 `json:"bytes_out"`
	PromptTokens     int64 `json:"prompt_tokens"`
	CachedTokens     int64 `json:"cached_tokens"`
	OutputTokens     int64 `json:"output_tokens"`
}

// access waits for n access lines and returns them in the order in which they were written; it fails if there are more. An answer
// may reach its client before its line is written: to know whose line is whose, wait for it before the next request is sent.
func (g *rig) access(t testing.TB, n int) (lines []accessLine) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d requests are logged", n), func() bool {
		return strings.Count(g.log.String(), `"msg":"request"`) >= n
	})
	for text := range strings.Lines(g.log.String()) {
		var l accessLine
		if json.Unmarshal([]byte(text), &l) == nil && l.Msg == "request" {
			lines = append(lines, l)
		}
	}
	if len(lines) != n {
		t.Fatalf("%d access lines, want %d:\n%s", len(lines), n, g.log)
	}
	return lines
}

// idle waits until nothing is in flight.
func (g *rig) idle(t testing.TB) {
	t.Helper()
	eventually(t, "nothing is in flight", func() bool { return g.inFlight() == 0 })
}

// eventually waits for a condition that another goroutine brings about. Its limit only ends a test that would hang.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
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

const chatBody = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`

// post sends a JSON body to the proxy and reads the whole answer.
func (g *rig) post(t testing.TB, path, body string) (*http.Response, string) {
	t.Helper()
	resp, err := http.Post(g.URL+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading the answer: %v", err)
	}
	return resp, string(answer)
}

// direct hands a chat request to the proxy without a network between, and returns what it wrote.
func (g *rig) direct(body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	g.proxy.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(body)))
	return w
}

// retable makes changed models and aliases count.
func (g *rig) retable(more ...*endpoint.Endpoint) {
	g.settings.Table = endpoint.NewTable(append(more, g.endpoint))
}
