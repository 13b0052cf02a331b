package health

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

// troubledInterval bounds the time between two probes of a replica that is out of rotation, so that one that comes back is
// in use within two seconds of answering, however rarely healthy ones are asked.
const troubledInterval = time.Second

// ProbeOptions configure a Prober.
type ProbeOptions struct {
	// Enabled is false for a fleet whose replicas cannot be probed: all count as healthy.
	Enabled bool
	// Path is asked with GET below each replica's base URL; it begins with a slash. 2xx is healthy, anything else is not.
	Path string
	// Interval is the time from one probe of a replica to the next, give or take a tenth; more than 0. A replica that is out
	// of rotation is probed every second if that is less.
	Interval time.Duration
	// Timeout is how long a replica may take to answer, connecting included; more than 0.
	Timeout time.Duration
	// UnhealthyAfter is how many failures in a row make a replica unhealthy, at least 1. One refused connection always does.
	UnhealthyAfter int
	// HealthyAfter is how many successes in a row make a replica healthy, at least 1.
	HealthyAfter int
	// APIKey is sent as a bearer token; "" = none.
	APIKey string
	// Outlier is told of replicas that can be reached again and of those that left the fleet; nil = nobody.
	Outlier *Outlier
	// Transport carries the probes; nil means one that makes a new connection for each, because only that shows whether the
	// engine's port still accepts.
	Transport http.RoundTripper
	// Rand returns a number in [0, 1) and is safe for concurrent use; nil means math/rand/v2.
	Rand func() float64
	// Log gets one line for every change; nil = no log.
	Log *slog.Logger
}

// DefaultProbeOptions find a dead replica within a second and a hung one within three or four.
var DefaultProbeOptions = ProbeOptions{
	Enabled: true, Path: "/health", Interval: time.Second, Timeout: time.Second, UnhealthyAfter: 3, HealthyAfter: 1,
}

// Prober asks every replica of a fleet, again and again, whether it can serve. It never gives one up.
type Prober struct {
	fleet  *fleet.Fleet
	o      ProbeOptions
	ctx    context.Context // of all loops; ends with Stop
	cancel context.CancelFunc
	loops  sync.WaitGroup

	mu      sync.Mutex
	watches map[*fleet.Replica]*watch
	synced  bool
	pending int // replicas of the first Sync whose first probe is not over
	settled chan struct{}
}

// NewProber makes a prober of f's replicas. It does nothing before Sync; the caller must Stop it.
func NewProber(f *fleet.Fleet, o ProbeOptions) *Prober {
	if o.Transport == nil {
		o.Transport = &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	}
	if o.Outlier == nil {
		o.Outlier = NewOutlier(f, DefaultOutlierOptions)
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Prober{fleet: f, o: o, watches: map[*fleet.Replica]*watch{}, settled: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Sync makes the prober watch the fleet's present replicas. It is to be called after every fleet.Apply and does not wait.
// New replicas are probed at once. Those that have left are watched only until their last request has ended, so that it
// is not left waiting on a dead engine.
func (p *Prober) Sync() {
	p.o.Outlier.Sync()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return
	}
	for r, w := range p.watches {
		if r.Removed() && r.InFlight() == 0 {
			w.cancel()
		}
	}
	for _, r := range p.fleet.View().Replicas {
		p.watch(r)
	}
	if !p.synced {
		p.synced = true
		p.pending = len(p.watches)
		p.settleIfDone()
	}
}

// Settled returns a channel that is closed when each replica of the first Sync has been probed once, whatever it answered.
func (p *Prober) Settled() <-chan struct{} { return p.settled }

// Stop ends all probes and returns when every loop has ended.
func (p *Prober) Stop() {
	p.mu.Lock()
	p.cancel()
	p.mu.Unlock()
	p.loops.Wait()
}

// watch starts the loop of a replica that has none.
func (p *Prober) watch(r *fleet.Replica) {
	if !p.o.Enabled {
		p.fleet.SetHealth(r, true)
		return
	}
	if p.watches[r] != nil {
		return
	}
	ctx, cancel := context.WithCancel(p.ctx)
	w := &watch{prober: p, replica: r, cancel: cancel, awaited: !p.synced}
	p.watches[r] = w
	p.loops.Go(func() {
		defer p.unwatch(w)
		w.run(ctx)
	})
}

func (p *Prober) unwatch(w *watch) {
	w.cancel()
	p.probedOnce(w)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watches, w.replica)
}

// probedOnce counts w's first probe, if the prober waits for it.
func (p *Prober) probedOnce(w *watch) {
	if !w.awaited {
		return
	}
	w.awaited = false
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending--
	p.settleIfDone()
}

func (p *Prober) settleIfDone() {
	if p.pending == 0 {
		close(p.settled)
	}
}
