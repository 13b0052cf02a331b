// Package admin serves what an operator asks of a running Warmpath: health, readiness, metrics, replicas, explain and reload.
package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"text/tabwriter"

	"github.com/warmpath/warmpath/internal/fleet"
)

// DefaultMaxBody is the longest body that explain reads, in bytes: as long as the data plane's.
const DefaultMaxBody = 64 << 20

// Options connect the handler to the running process. A route whose function is nil does not exist. The functions may be
// called from any goroutine.
type Options struct {
	// NotReady lists the reasons why clients should not be sent here now; an empty list means ready.
	NotReady func() []string
	// Metrics serves GET /metrics.
	Metrics http.Handler
	// Pools lists the replicas by pool. Replicas and Drain need it.
	Pools func() map[string][]fleet.Status
	// Drain stops new requests to a replica, or lets them flow again. It reports whether the pool has such a replica.
	Drain func(pool, replica string, draining bool) bool
	// Explain tells where a request with that path, header and body would go, and why. The result is written as JSON. header
	// and body are the callee's to keep.
	Explain func(ctx context.Context, path string, header http.Header, body []byte) (any, error)
	// Reload loads the configuration again. An error means that the old one is still in use.
	Reload func(ctx context.Context) error
	// MaxBody is the longest body that explain reads, in bytes; 0 means DefaultMaxBody.
	MaxBody int64
	// Hosts are further names by which browsers and clients may call a listener on loopback. IP addresses, names without a
	// dot and names under .localhost always may.
	Hosts []string
}

// route is one thing that can be asked.
type route struct {
	method, pattern string
	about           string
	present         bool
	handle          http.HandlerFunc
}

// server is the handler's state.
type server struct {
	Options
	routes []route
}

// New makes the handler of the admin listener.
func New(o Options) http.Handler {
	if o.MaxBody <= 0 {
		o.MaxBody = DefaultMaxBody
	}
	s := &server{Options: o}
	for _, r := range s.table() {
		if r.present {
			s.routes = append(s.routes, r)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", notFound)
	for _, r := range s.routes {
		mux.HandleFunc(r.pattern, only(r.method, r.handle))
	}
	return guard(o.Hosts, mux)
}

func (s *server) table() []route {
	return []route{
		{http.MethodGet, "/{$}", "this list", true, s.index},
		{http.MethodGet, "/healthz", "200 while the process lives", true, healthz},
		{http.MethodGet, "/readyz", "200 if requests can be served, else 503 and the reasons", s.NotReady != nil, s.readyz},
		{http.MethodGet, "/metrics", "Prometheus metrics", s.Metrics != nil, s.metrics},
		{http.MethodGet, "/api/v1/replicas", "every replica by pool: state, requests in flight, what its engine says", s.Pools != nil, s.replicas},
		{http.MethodGet, replicaPattern, "one replica; in_flight 0 while draining means it can be stopped", s.Pools != nil, s.replica},
		{http.MethodPut, replicaPattern + "/draining", "body true: send it nothing new; false: use it again", s.Pools != nil && s.Drain != nil, s.drain},
		{http.MethodPost, "/api/v1/explain", "where the request in the body would go, and why; ?path= is its path, " + defaultExplainPath + " if left out", s.Explain != nil, s.explain},
		{http.MethodPost, "/api/v1/reload", "load the configuration again", s.Reload != nil, s.reload},
	}
}

func (s *server) index(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "Warmpath admin")
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range s.routes {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", r.method, strings.TrimSuffix(r.pattern, "{$}"), r.about)
	}
	_ = table.Flush() // it and the lines above fail only if the client has gone
}

func healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintln(w, "ok")
}

func (s *server) readyz(w http.ResponseWriter, _ *http.Request) {
	reasons := s.NotReady()
	if len(reasons) > 0 {
		writeJSON(w, http.StatusServiceUnavailable, readiness{Reasons: reasons})
		return
	}
	writeJSON(w, http.StatusOK, readiness{Ready: true})
}

type readiness struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons,omitempty"`
}

func (s *server) metrics(w http.ResponseWriter, r *http.Request) { s.Metrics.ServeHTTP(w, r) }

func (s *server) reload(w http.ResponseWriter, r *http.Request) {
	if err := s.Reload(r.Context()); err != nil {
		refuse(w, err, "reload_failed")
		return
	}
	writeJSON(w, http.StatusOK, map[string]bool{"reloaded": true})
}
