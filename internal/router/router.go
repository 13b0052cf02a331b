// Package router joins configuration, pools, request path and admin API into one running Warmpath.
package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/admin"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/controlplane"
	"github.com/warmpath/warmpath/internal/dialect"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/session"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// settleTime bounds how long a reload waits for new pools to find and probe their replicas before they get traffic.
const settleTime = 3 * time.Second

// Options are what a Router needs beside its configuration.
type Options struct {
	// Load reads the configuration again for a reload; nil = it cannot be reloaded.
	Load func() (*config.Config, error)
	// Version is shown in metrics.
	Version string
	// Log takes everything that is to be known; nil = nothing is logged.
	Log *slog.Logger
	// Access takes the record of each ended request; nil = it is written to Log.
	Access func(*telemetry.Request)
	// Random gives uniform 64-bit numbers and may be called from many goroutines; nil means math/rand/v2.
	Random func() uint64
	// DNSServer is asked by pools that find their replicas by name, HOST:PORT; "" means the servers that the system uses.
	DNSServer string
}

// Router is a running Warmpath, but for its listeners. All its methods are safe for concurrent use.
type Router struct {
	o        Options
	log      *slog.Logger
	metrics  *telemetry.Metrics
	sessions *session.Table
	proxy    *proxy.Proxy
	admin    http.Handler
	settings atomic.Pointer[proxy.Settings]
	stopping atomic.Bool

	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	retiring sync.WaitGroup

	control     *controlplane.Server // nil = the configuration has none
	controlling sync.WaitGroup

	mu         sync.Mutex // held by a reload from its beginning to its end
	file       *config.Config
	made       map[string]config.Endpoint // by API
	recorders  recorders
	strategies strategies

	state  sync.RWMutex   // of what follows
	config *config.Config // the file's, and what was made by API
	pools  map[string]*pool
	gone   map[*pool]struct{} // no longer in the configuration, with requests still in flight
}

// New builds a Router and starts to look for replicas. The caller must Close it.
func New(cfg *config.Config, o Options) (*Router, error) {
	r := &Router{o: o, log: o.Log, metrics: telemetry.NewMetrics(o.Version), pools: map[string]*pool{}, gone: map[*pool]struct{}{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	random := o.Random
	if random == nil {
		random = rand.Uint64
	}
	access := o.Access
	if access == nil {
		access = func(record *telemetry.Request) { telemetry.Access(r.log, record) }
	}
	r.sessions = session.NewTable(session.Options{
		Now: time.Now, Limit: session.Limit,
		Ended: func(endpoint string, how session.End) { r.metrics.SessionEnded(endpoint, string(how)) },
	})
	r.proxy = proxy.New(proxy.Options{
		Current: r.settings.Load, Metrics: r.metrics, Sessions: r.sessions, Access: access, Log: r.log, Now: time.Now, Random: random,
	})
	r.metrics.Watch(r.Statuses)
	r.metrics.WatchEndpoints(r.variantLabels)
	r.metrics.WatchBeliefs(r.beliefs)
	r.metrics.WatchSessions(r.sessionCounts)
	r.admin = admin.New(admin.Options{
		NotReady: r.notReady, Metrics: r.metrics.Handler(), Pools: r.Statuses, Drain: r.Drain,
		Explain: r.explain,
		Reload:  r.Reload,
	})
	if err := r.openControlPlane(cfg.ControlPlane); err != nil {
		return nil, err
	}
	if err := r.Apply(cfg); err != nil {
		return nil, err
	}
	r.runControlPlane()
	return r, nil
}

// Data is the handler of the listener that clients call.
func (r *Router) Data() http.Handler { return r.proxy }

// Admin is the handler of the listener for operators.
func (r *Router) Admin() http.Handler { return r.admin }

// Explain says where a request would go.
func (r *Router) Explain(path string, header http.Header, body []byte) (*proxy.Explanation, error) {
	return r.proxy.Explain(path, header, body)
}

// explain answers the admin API: what a client would be refused for is refused here.
func (r *Router) explain(_ context.Context, path string, header http.Header, body []byte) (any, error) {
	e, err := r.Explain(path, header, body)
	var refused *dialect.Error
	if errors.As(err, &refused) {
		return nil, &admin.Refusal{Status: refused.Status, Code: refused.Code, Message: refused.Message}
	}
	return e, err
}

// Reload loads the configuration again and applies it. An error means that the one before is still in use, whole.
func (r *Router) Reload(context.Context) error {
	if r.o.Load == nil {
		return fmt.Errorf("reload: this process was configured by flags; restart it to change them")
	}
	cfg, err := r.o.Load()
	if err == nil {
		err = r.Apply(cfg)
	}
	r.metrics.Reload(err == nil, time.Now())
	if err != nil {
		r.log.Error("configuration not reloaded; the old one stays in use", "error", err.Error())
		return fmt.Errorf("reload: %w", err)
	}
	r.log.Info("configuration reloaded")
	return nil
}

// Apply puts a configuration into use, and what was made by API beside it. On an error nothing has changed.
func (r *Router) Apply(cfg *config.Config) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range cfg.Warnings {
		r.log.Warn("configuration", "warning", w.Error())
	}
	whole, err := cfg.With(r.made)
	if err == nil {
		err = r.put(whole)
	}
	if err == nil {
		r.file = cfg
	}
	return err
}

// put switches to a configuration: what is new is built and settles, then the data plane is switched over in one step, then what is
// old goes. Pools that keep their name keep their replicas, counters included. On an error nothing has changed.
func (r *Router) put(cfg *config.Config) error {
	strategies, err := newStrategies(cfg, r.strategies)
	if err != nil {
		return err
	}
	recorders, err := r.newRecorders(cfg)
	if err != nil {
		return err
	}
	next := r.addPools(cfg)
	for name, p := range r.pools {
		if pc, kept := cfg.Pools[name]; kept {
			p.update(pc)
			next[name] = p
		}
	}
	r.settings.Store(newSettings(cfg, parts{next, strategies, recorders}, r.settings.Load()))
	r.strategies = strategies
	r.recorders.closeExcept(recorders)
	r.recorders = recorders
	before := r.pools
	r.setPools(cfg, next)
	r.sessions.Retain(func(endpoint string) bool { _, kept := cfg.Endpoints[endpoint]; return kept })
	for name, p := range before {
		if next[name] == nil {
			r.retire(p)
		}
	}
	return nil
}

// addPools builds the pools that are new in a configuration and waits until they have settled.
func (r *Router) addPools(cfg *config.Config) map[string]*pool {
	added := map[string]*pool{}
	for name, pc := range cfg.Pools {
		if r.pools[name] == nil {
			p := newPool(name, r.o.DNSServer, r.log, r.metrics)
			p.update(pc)
			added[name] = p
		}
	}
	settle(added)
	return added
}

// retire lets a pool go that the configuration no longer has.
func (r *Router) retire(p *pool) {
	r.state.Lock()
	r.gone[p] = struct{}{}
	r.state.Unlock()
	r.retiring.Go(func() {
		p.retire(r.ctx)
		r.state.Lock()
		defer r.state.Unlock()
		delete(r.gone, p)
	})
}

// settle waits until new pools know their replicas and how they are, so that a reload sends nobody to an empty pool.
func settle(pools map[string]*pool) {
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	for _, p := range pools {
		p.settle(ctx)
	}
}

// setPools publishes the pools to the admin side.
func (r *Router) setPools(cfg *config.Config, pools map[string]*pool) {
	if before := r.config; before != nil && !sameListeners(before, cfg) {
		r.log.Warn("listeners keep their addresses, limits and timeouts until the process is restarted; the rest of the configuration is in use")
	}
	r.state.Lock()
	defer r.state.Unlock()
	r.config, r.pools = cfg, pools
}

// sameListeners says whether two configurations want the same of the listeners themselves.
func sameListeners(a, b *config.Config) bool {
	return a.Admin == b.Admin && sameData(a.Data, b.Data) && sameControlPlane(a.ControlPlane, b.ControlPlane)
}

// sameControlPlane compares all but the settings of the endpoints made there, which a reload changes.
func sameControlPlane(a, b *config.ControlPlane) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Listen == b.Listen && a.StateFile == b.StateFile && a.Region == b.Region && a.Account == b.Account
}

func sameData(a, b config.Data) bool {
	return a.Listen == b.Listen && a.MaxHeader == b.MaxHeader && a.MaxConnections == b.MaxConnections &&
		a.HeaderTimeout == b.HeaderTimeout && a.IdleTimeout == b.IdleTimeout
}

// Statuses lists the replicas by pool, those of a removed pool for as long as they have requests in flight.
func (r *Router) Statuses() map[string][]fleet.Status {
	r.state.RLock()
	defer r.state.RUnlock()
	all := make(map[string][]fleet.Status, len(r.pools))
	for name, p := range r.pools {
		all[name] = p.fleet.Statuses()
	}
	for p := range r.gone {
		if left := p.leftovers(); len(left) > 0 {
			all[p.name] = append(all[p.name], left...)
		}
	}
	return all
}

// variantLabels lists what the variants of each endpoint are called in metrics, those made by API included.
func (r *Router) variantLabels() map[string][]string {
	settings := r.settings.Load()
	if settings == nil { // it is being built
		return nil
	}
	labels := map[string][]string{}
	for _, e := range settings.Table.Endpoints() {
		labels[e.Name] = nil
		for _, v := range e.Variants {
			labels[e.Name] = append(labels[e.Name], v.Label())
		}
	}
	return labels
}

// sessionCounts is how many sessions each endpoint has.
func (r *Router) sessionCounts() map[string]int {
	counts := map[string]int{}
	for name := range r.variantLabels() {
		counts[name] = r.sessions.Count(name)
	}
	return counts
}

// beliefs is what the strategies in use have learned, of those that learn.
func (r *Router) beliefs() []telemetry.Belief {
	settings := r.settings.Load()
	if settings == nil {
		return nil
	}
	var all []telemetry.Belief
	for _, e := range settings.Table.Endpoints() {
		for _, v := range e.AllVariants() {
			if learner, ok := v.Strategy.(routing.Learner); ok {
				all = append(all, telemetry.Belief{Endpoint: e.Name, Variant: v.Label(), Learned: learner.Learned()})
			}
		}
	}
	return all
}

// Drain stops new requests to a replica, or lets them flow again, and reports whether there is such a replica.
func (r *Router) Drain(poolName, replica string, draining bool) bool {
	r.state.RLock()
	defer r.state.RUnlock()
	p, ok := r.pools[poolName]
	return ok && p.fleet.Drain(replica, draining)
}

// notReady gives the reasons for which no client should be sent here. One pool with a ready replica is enough to be ready: a model
// without replicas must not take the others out of service with it. A pool for shadows alone serves no client.
func (r *Router) notReady() []string {
	if r.stopping.Load() {
		return []string{"shutting down"}
	}
	r.state.RLock()
	defer r.state.RUnlock()
	var reasons []string
	shadows := onlyShadows(r.config)
	for _, name := range slices.Sorted(maps.Keys(r.pools)) {
		if shadows[name] {
			continue
		}
		v := r.pools[name].fleet.View()
		if !v.Degraded {
			return nil
		}
		reasons = append(reasons, fmt.Sprintf("pool %s: none of its %d replicas is ready", name, len(v.Replicas)))
	}
	return reasons
}

// Close stops looking for replicas and probing them, cuts off copies for shadow variants, and ends the recordings. Requests that are
// still open go on, unrecorded.
func (r *Router) Close() {
	r.cancel()
	r.proxy.Close()
	r.controlling.Wait() // it may be about to apply something
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retiring.Wait()
	r.recorders.closeExcept(nil)
	for _, p := range r.pools {
		p.close()
	}
}
