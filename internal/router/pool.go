package router

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/discovery"
	"github.com/warmpath/warmpath/internal/endpoint"
	"github.com/warmpath/warmpath/internal/engine"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/health"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// idleUpstream is how long an unused connection to an engine is kept: vLLM and llama.cpp close theirs after 5.0 s, without a
// word, and a request that meets the closing has to be sent twice.
const idleUpstream = 4 * time.Second

// retireTick is how often a removed pool is looked at for its last request to have ended.
const retireTick = 100 * time.Millisecond

// pool keeps one fleet up to date: its source says who is there, its prober, outlier and scraper say how they are. It lives as long as the
// configuration has a pool of its name; update replaces only the parts whose settings have changed.
type pool struct {
	name    string
	dns     string // server to ask; "" = the system's
	log     *slog.Logger
	metrics *telemetry.Metrics
	fleet   *fleet.Fleet
	config  config.Pool
	target  *endpoint.Pool // what the data plane sees; a new object whenever a part is replaced

	mu      sync.Mutex // of prober and scraper, which the source's goroutine uses too
	prober  *health.Prober
	outlier *health.Outlier
	scraper *health.Scraper

	stopSource func() // cancels the source and waits for it
	known      chan struct{}
}

func newPool(name, dns string, log *slog.Logger, metrics *telemetry.Metrics) *pool {
	return &pool{
		name: name, dns: dns, log: log.With("pool", name), metrics: metrics,
		fleet: fleet.New(fleet.Options{}), stopSource: func() {}, known: make(chan struct{}),
	}
}

// update brings the pool to a configuration.
func (p *pool) update(c config.Pool) {
	before, first := p.config, p.target == nil
	p.config = c
	target := &endpoint.Pool{
		Name: p.name, Fleet: p.fleet, Outlier: p.outlier, CachedApart: engine.CachedApart(c.Engine), NullUsage: engine.NullUsage(c.Engine),
		GivesUp: engine.GivesUp(c.Engine), KeepOnDisconnect: !c.CancelOnDisconnect,
	}
	if key := c.APIKey.Reveal(); key != "" {
		target.Authorization = "Bearer " + key
	}
	if first || before.SlowStart != c.SlowStart {
		p.fleet.SetSlowStart(time.Duration(c.SlowStart))
	}
	if first || before.Ejection != c.Ejection || before.Health != c.Health || before.Engine != c.Engine || !before.APIKey.Equal(c.APIKey) {
		p.watchHealth(c)
		target.Outlier = p.outlier
	}
	if first || before.Metrics != c.Metrics || before.Engine != c.Engine || !before.APIKey.Equal(c.APIKey) {
		p.watchMetrics(c)
	}
	dialer := &net.Dialer{Timeout: time.Duration(c.ConnectTimeout), KeepAlive: 15 * time.Second}
	target.Dial = dialer.DialContext
	if first || before.ConnectTimeout != c.ConnectTimeout {
		target.Transport = newTransport(dialer)
	} else {
		target.Transport = p.target.Transport
	}
	p.target = target
	if first || !sameSource(before, c) {
		p.follow(p.source(c))
	}
}

func sameSource(a, b config.Pool) bool {
	return reflect.DeepEqual(a.Static, b.Static) && a.File == b.File && reflect.DeepEqual(a.DNS, b.DNS)
}

// watchHealth replaces the prober and the outlier.
func (p *pool) watchHealth(c config.Pool) {
	outlier := health.NewOutlier(p.fleet, health.OutlierOptions{
		ConsecutiveErrors: c.Ejection.ConsecutiveErrors,
		BaseTime:          time.Duration(c.Ejection.BaseTime),
		MaxTime:           time.Duration(c.Ejection.MaxTime),
		OnEject:           func(replica, cause string) { p.metrics.Ejected(p.name, replica, cause) },
		Log:               p.log,
	})
	path := c.Health.Path
	if path == "" {
		if e, ok := engine.Lookup(c.Engine); ok {
			path = e.HealthPath()
		}
	}
	prober := health.NewProber(p.fleet, health.ProbeOptions{
		Enabled: c.Health.Enabled, Path: path,
		Interval: time.Duration(c.Health.Interval), Timeout: time.Duration(c.Health.Timeout),
		UnhealthyAfter: c.Health.UnhealthyAfter, HealthyAfter: c.Health.HealthyAfter,
		APIKey: c.APIKey.Reveal(), Outlier: outlier, Log: p.log,
	})
	p.stopHealth()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prober, p.outlier = prober, outlier
	if len(p.fleet.View().Replicas) > 0 {
		prober.Sync()
	}
}

func (p *pool) stopHealth() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.prober != nil {
		p.prober.Stop()
		p.outlier.Stop()
	}
}

// watchMetrics replaces the scraper.
func (p *pool) watchMetrics(c config.Pool) {
	o := health.ScrapeOptions{
		Interval: time.Duration(c.Metrics.Interval), Timeout: time.Duration(c.Metrics.Timeout), APIKey: c.APIKey.Reveal(), Log: p.log,
		OnFailure: func(replica string) { p.metrics.ScrapeFailed(p.name, replica) },
	}
	e, _ := engine.Lookup(c.Engine)
	if metered, ok := e.(engine.Metered); ok && c.Metrics.Enabled {
		o.Path, o.Read = cmp.Or(c.Metrics.Path, metered.MetricsPath()), metered.ReadSignals
	}
	if pausable, ok := e.(engine.Pausable); ok {
		o.PausedPath, o.Paused = pausable.PausedPath(), pausable.ReadPaused
	}
	scraper := health.NewScraper(p.fleet, o)
	p.stopMetrics()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.scraper = scraper
	scraper.Sync()
}

func (p *pool) stopMetrics() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.scraper != nil {
		p.scraper.Stop()
	}
}

func newTransport(dialer *net.Dialer) http.RoundTripper {
	return &http.Transport{
		DialContext:           dialer.DialContext,
		TLSHandshakeTimeout:   dialer.Timeout,
		MaxIdleConnsPerHost:   1 << 16, // as many as were in use at once
		IdleConnTimeout:       idleUpstream,
		DisableCompression:    true,
		ReadBufferSize:        16 << 10, // an open stream holds both
		WriteBufferSize:       16 << 10,
		ExpectContinueTimeout: time.Second,
	}
}

// source makes the pool's source of replicas.
func (p *pool) source(c config.Pool) discovery.Source {
	failed := func(err error) {
		p.metrics.Discovery(p.name, false)
		p.log.Warn("replicas not read; the last set stays in use", "error", err.Error())
	}
	switch {
	case c.File != "":
		return discovery.NewFile(discovery.FileOptions{Path: c.File, OnError: failed})
	case c.DNS != nil:
		return discovery.NewDNS(discovery.DNSOptions{
			Name: c.DNS.Name, Port: c.DNS.Port, Type: c.DNS.Type, Scheme: c.DNS.Scheme,
			Interval: time.Duration(c.DNS.Interval), Server: p.dns, OnError: failed,
		})
	}
	return discovery.NewStatic(c.Static)
}

// follow applies every set that the source sends, in place of the source before.
func (p *pool) follow(s discovery.Source) {
	p.stopSource()
	ctx, cancel := context.WithCancel(context.Background())
	sets := make(chan []fleet.Target)
	var running sync.WaitGroup
	running.Go(func() {
		defer close(sets)
		if err := s.Run(ctx, sets); err != nil {
			p.log.Error("replicas are no longer read", "error", err.Error())
		}
	})
	running.Go(func() {
		for set := range sets {
			p.apply(set)
		}
	})
	p.stopSource = func() {
		cancel()
		running.Wait()
	}
}

func (p *pool) apply(set []fleet.Target) {
	for _, err := range p.fleet.Apply(set) {
		p.log.Warn("replica left out", "error", err.Error())
	}
	p.metrics.Discovery(p.name, true)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prober.Sync()
	p.scraper.Sync()
	select {
	case <-p.known:
	default:
		close(p.known)
	}
}

// settle waits until the replicas are known and each has been probed once.
func (p *pool) settle(ctx context.Context) {
	select {
	case <-p.known:
	case <-ctx.Done():
		return
	}
	p.mu.Lock()
	settled := p.prober.Settled()
	p.mu.Unlock()
	select {
	case <-settled:
	case <-ctx.Done():
	}
}

// retire lets a pool that the configuration no longer has finish its requests, and closes it then or when ctx ends. Its replicas
// stay until then: a request that has chosen the pool and not yet a replica still finds one, and those that wait on a dead engine
// are told.
func (p *pool) retire(ctx context.Context) {
	p.stopSource()
	tick := time.NewTicker(retireTick)
	defer tick.Stop()
	for ctx.Err() == nil && len(p.leftovers()) > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	p.close()
}

// leftovers lists the replicas that still have requests in flight, as those of a pool that has been removed.
func (p *pool) leftovers() []fleet.Status {
	var busy []fleet.Status
	for _, s := range p.fleet.Statuses() {
		if s.InFlight > 0 {
			s.State, s.Removed = fleet.Draining, true
			busy = append(busy, s)
		}
	}
	return busy
}

// close ends the pool's watching. Requests that are still open go on.
func (p *pool) close() {
	p.stopSource()
	p.stopHealth()
	p.stopMetrics()
	if t, ok := p.target.Transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}
