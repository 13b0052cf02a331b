package emulator

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxBody bounds a request body, in bytes. vLLM has no limit; an emulator on a laptop wants one.
const maxBody = 256 << 20

// maxLag bounds how far the steps may fall behind real time on a busy machine before the delay is accepted rather
// than caught up with.
const maxLag = 50 * time.Millisecond

// Stats counts a server's work since it started.
type Stats struct {
	Requests     uint64 // HTTP requests for an answer, struck by faults or not
	PromptTokens uint64 // of sequences whose prefill has ended
	CachedTokens uint64 // those of them found in the cache
}

// Server is an emulated engine as an http.Handler. Its answers come as Run steps the engine. It takes its time from
// package time alone, so testing/synctest runs it in virtual time.
type Server struct {
	options  Options
	config   Config                                 // of the engine without faults
	routes   map[string]map[string]http.HandlerFunc // path, method
	faults   *faultBook
	metrics  *metrics
	started  time.Time
	requests atomic.Uint64
	ids      atomic.Uint64 // answers named so far
	wake     chan struct{} // holds a token when the engine may have something to do
	sessions sessions
	refuse   func(bool) // opens and closes the port, if the server has one

	mu      sync.Mutex // guards what follows
	core    *Core
	stalled bool
	events  []Event
}

// New returns a cold server that answers once Run runs, or an error when an option is out of range.
func New(o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("emulator: %w", err)
	}
	core, err := NewCore(o.Config)
	if err != nil {
		return nil, fmt.Errorf("emulator: %w", err)
	}
	s := &Server{
		options: o,
		started: time.Now(),
		wake:    make(chan struct{}, 1),
		core:    core,
		config:  core.Config(),

		sessions: sessions{ttl: o.Sessions},
	}
	s.metrics = newMetrics(s)
	s.faults = &faultBook{rand: o.Rand, changed: s.faultsChanged}
	s.routes = s.table()
	s.faults.add(o.Faults...)
	return s, nil
}

func (s *Server) table() map[string]map[string]http.HandlerFunc {
	get := func(h http.HandlerFunc) map[string]http.HandlerFunc { return map[string]http.HandlerFunc{"GET": h} }
	post := func(h http.HandlerFunc) map[string]http.HandlerFunc { return map[string]http.HandlerFunc{"POST": h} }
	metrics := promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}).ServeHTTP
	routes := map[string]map[string]http.HandlerFunc{
		"/v1/chat/completions/render": post(s.render),
		"/v1/messages/count_tokens":   post(s.countTokens),
		"/v1/models":                  get(s.models),
		"/health":                     get(s.health),
		"/ping":                       {"GET": s.health, "POST": s.health},
		"/version":                    get(s.version),
		"/reset_prefix_cache":         post(s.resetPrefixCache),
		"/metrics":                    {"GET": metrics, "HEAD": metrics},
		"/emulator/faults":            {"GET": s.getFaults, "POST": s.postFaults, "DELETE": s.deleteFaults},
	}
	for path, api := range generators {
		routes[path] = post(s.api(api.parse, api.fail))
	}
	return routes
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	methods, ok := s.routes[r.URL.Path]
	if !ok {
		frameworkError(w, http.StatusNotFound)
		return
	}
	handle, ok := methods[r.Method]
	if !ok {
		allowed := make([]string, 0, len(methods))
		for m := range methods {
			allowed = append(allowed, m)
		}
		slices.Sort(allowed)
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		frameworkError(w, http.StatusMethodNotAllowed)
		return
	}
	handle(w, r)
}

// Run steps the engine in real time, TimeScale times as fast as the model says, until ctx ends. It is called once.
func (s *Server) Run(ctx context.Context) {
	defer s.faults.stop()
	p := pace{scale: s.options.TimeScale, reached: time.Now()}
	interrupt := s.wake
	if !s.config.Cost.Slots {
		interrupt = nil // those who come during a step wait for the next one
	}
	for ctx.Err() == nil {
		end, ok := s.begin(p.now)
		if !ok {
			sleep(ctx, nil, s.wake)
			p.reached = time.Now()
			continue
		}
		timer := time.NewTimer(time.Until(p.deadline(end)))
		if sleep(ctx, timer.C, interrupt) {
			p.arrive(end)
			s.finish()
			continue
		}
		timer.Stop()
		p.stop(end)
	}
}

// pace leads the engine's time along the clock. It stands still while there is nothing to compute.
type pace struct {
	scale   float64       // how many times faster it runs
	now     time.Duration // the engine's time
	reached time.Time     // when that is: behind the clock while the engine catches up
}

// deadline is when the engine's time will be end.
func (p *pace) deadline(end time.Duration) time.Time {
	if earliest := time.Now().Add(-maxLag); p.reached.Before(earliest) {
		p.reached = earliest
	}
	return p.reached.Add(time.Duration(float64(end-p.now) / p.scale))
}

// arrive moves on to end, when its deadline has come.
func (p *pace) arrive(end time.Duration) {
	p.reached = p.reached.Add(time.Duration(float64(end-p.now) / p.scale))
	p.now = end
}

// stop moves on to where the engine is on its way to end.
func (p *pace) stop(end time.Duration) {
	clock := time.Now()
	p.now = min(end, p.now+time.Duration(float64(clock.Sub(p.reached))*p.scale))
	p.reached = clock
}

// sleep reports whether the time has come, rather than an interruption or the end of ctx.
func sleep(ctx context.Context, timer <-chan time.Time, interruption <-chan struct{}) bool {
	select {
	case <-ctx.Done():
	case <-interruption:
	case <-timer:
		return true
	}
	return false
}

// begin starts a step at now, or looks again at the one under way, and returns its end; both are the engine's time.
func (s *Server) begin(now time.Duration) (end time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stalled {
		return 0, false
	}
	return s.core.Begin(now)
}

// finish ends the step and tells the sequences that advanced.
func (s *Server) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = s.core.Finish(s.events[:0])
	for _, e := range s.events {
		e.Request.Data.(*sequence).advance(e)
	}
	clear(s.events)
}

func (s *Server) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // it is awake, or about to be
	}
}

// faultsChanged brings the engine to the state that the faults in force ask for. It reads them with the lock held, so
// that of two changes at once the later one lasts.
func (s *Server) faultsChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.faults.state()
	s.core.SetCost(s.config.Cost.Scale(state.slow))
	s.stalled = state.stalled
	if s.refuse != nil {
		s.refuse(state.refused)
	}
	s.wakeUp()
}

// refusedWithoutPort reports whether FaultRefuse holds and there is no port to close: a reset must do.
func (s *Server) refusedWithoutPort() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refuse == nil && s.faults.state().refused
}

// Stats returns the server's counters.
func (s *Server) Stats() Stats {
	load := s.load()
	return Stats{Requests: s.requests.Load(), PromptTokens: load.PromptTokens, CachedTokens: load.CachedTokens}
}

func (s *Server) load() Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.core.Load()
}

// maxTokens is the longest prompt and answer together: whatever fits in the cache.
func (s *Server) maxTokens() int {
	return s.config.Blocks * s.config.BlockSize
}

func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	if _, ok := s.faults.take(r.URL.Path); ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// resetPrefixCache answers 200 without a body, as vLLM does in its development mode. What running requests hold stays cached.
func (s *Server) resetPrefixCache(http.ResponseWriter, *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.ResetCache()
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"version": "0.32.0"})
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		ID          string  `json:"id"`
		Object      string  `json:"object"`
		Created     int64   `json:"created"`
		OwnedBy     string  `json:"owned_by"`
		Root        string  `json:"root"`
		Parent      *string `json:"parent"`
		MaxModelLen int     `json:"max_model_len"`
	}
	list := make([]model, len(s.options.Models))
	for i, name := range s.options.Models {
		list[i] = model{ID: name, Object: "model", Created: s.started.Unix(), OwnedBy: "vllm", Root: name, MaxModelLen: s.maxTokens()}
	}
	writeJSON(w, http.StatusOK, struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", list})
}

// readJSON reads a body as vLLM does: an undeclared type passes, any other than JSON does not.
func readJSON(r *http.Request) (jsontext.Value, error) {
	if kind := r.Header.Get("Content-Type"); kind != "" {
		if media, _, err := mime.ParseMediaType(kind); err != nil || media != "application/json" {
			return nil, invalid("", "Unsupported Media Type: Only 'application/json' is allowed")
		}
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, invalid("body", fmt.Sprintf("the body ended early: %v", err))
	case len(body) > maxBody:
		return nil, newWireError(http.StatusRequestEntityTooLarge, "Request Entity Too Large", "body", "the body is too large")
	case len(body) == 0:
		return nil, invalid("body", "{'type': 'missing', 'loc': 'body', 'msg': 'Field required', 'input': 'None'}")
	}
	value := jsontext.Value(body)
	if !value.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		return nil, invalid("body", "{'type': 'json_invalid', 'loc': 'body', 'msg': 'JSON decode error'}")
	}
	return jsontext.Value(strings.TrimSpace(string(body))), nil
}
