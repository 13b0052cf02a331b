// Package demo shows what routing by prefix gains: emulated replicas and Warmpath on loopback, one workload, one run a strategy.
package demo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/emulator"
	"github.com/warmpath/warmpath/internal/router"
)

// drainLimit is how long requests may take to finish when the demo ends.
const drainLimit = 2 * time.Second

// Demo is a running fleet with Warmpath in front of it.
type Demo struct {
	scenario Scenario
	engines  []*emulator.Instance
	router   *router.Router
	urls     []string // of the engines
	pools    int      // configurations made so far
	data     place
	admin    place

	stop   context.CancelFunc
	served chan error // gets Serve's result once
	close  sync.Once
}

// Start starts the engines on free ports and Warmpath on the scenario's addresses or, where they are in use, on free ports. The
// caller must Close the Demo.
func Start(s Scenario) (*Demo, error) {
	d := &Demo{scenario: s, stop: func() {}, served: make(chan error, 1)}
	if err := d.start(); err != nil {
		d.stopEngines()
		return nil, fmt.Errorf("demo: %w", err)
	}
	return d, nil
}

func (d *Demo) start() error {
	for range d.scenario.Replicas {
		e, err := emulator.Listen("127.0.0.1:0", d.scenario.engine())
		if err != nil {
			return err
		}
		d.engines = append(d.engines, e)
		d.urls = append(d.urls, e.URL())
	}
	listeners, err := d.listen()
	if err != nil {
		return err
	}
	if err := d.serve(listeners); err != nil {
		listeners.Data.Close()
		listeners.Admin.Close()
		return err
	}
	return nil
}

// serve starts Warmpath with the last strategy, which is the one that stays.
func (d *Demo) serve(l *router.Listeners) error {
	cfg, err := d.config(d.scenario.Strategies[len(d.scenario.Strategies)-1])
	if err != nil {
		return err
	}
	d.router, err = router.New(cfg, router.Options{Random: lockedRandom(d.scenario.Seed)})
	if err != nil {
		return err
	}
	var ctx context.Context
	ctx, d.stop = context.WithCancel(context.Background())
	go func() { d.served <- d.router.Serve(ctx, l) }()
	return nil
}

// patience is how long an engine may take to accept a connection or answer a probe. They run in this very process: one that is slow
// says that the machine is busy, and one that is gone refuses at once.
const patience = 30 * time.Second

// config is Warmpath's configuration with one strategy, as flags would give it. Its pool has a new name each time: what Warmpath learned of engines that
// have been restarted since, such as a probe that found one down, would slow the next run's start.
func (d *Demo) config(s Strategy) (*config.Config, error) {
	cfg, err := config.FromFlags(config.Flags{
		Listen: d.data.addr, AdminListen: d.admin.addr, Replicas: d.urls, Engine: "vllm",
		Strategy: s.Name, PrefixLength: s.PrefixLength, ConcurrencyThreshold: s.ConcurrencyThreshold,
	})
	if err != nil {
		return nil, err
	}
	pool := cfg.Pools["default"]
	pool.ConnectTimeout, pool.Health.Timeout = config.Duration(patience), config.Duration(patience)
	d.pools++
	name := fmt.Sprintf("demo-%d", d.pools)
	cfg.Pools = map[string]config.Pool{name: pool}
	cfg.Endpoints["default"].Variants[0].Pool = name
	cfg.Data.Drain = config.Drain{Limit: config.Duration(drainLimit)}
	return cfg, nil
}

// URL is the base URL that clients call.
func (d *Demo) URL() string { return "http://" + d.data.addr }

// AdminURL is the base URL of metrics, health and explain.
func (d *Demo) AdminURL() string { return "http://" + d.admin.addr }

// Engines are the base URLs of the emulated replicas.
func (d *Demo) Engines() []string { return d.urls }

// Moved lists the addresses that were in use, so that free ones were taken instead.
func (d *Demo) Moved() []string {
	var moved []string
	for _, p := range []place{d.data, d.admin} {
		if p.wanted != "" {
			moved = append(moved, p.wanted)
		}
	}
	return moved
}

// Play plays the workload once for each strategy, with cold caches each time: the same requests, in the same order, at the same
// intended times. ended is called after each request, from many goroutines, with the strategy in use; nil = nobody is told.
// The last strategy stays in use.
func (d *Demo) Play(ctx context.Context, ended func(strategy string)) (*bench.Report, error) {
	report := &bench.Report{}
	for _, s := range d.scenario.Strategies {
		run, err := d.play(ctx, s, ended)
		if err != nil {
			return nil, fmt.Errorf("demo: %s: %w", s.Name, err)
		}
		report.Runs = append(report.Runs, *run)
	}
	return report, nil
}

func (d *Demo) play(ctx context.Context, s Strategy, ended func(string)) (*bench.Run, error) {
	for _, e := range d.engines {
		if err := e.Restart(); err != nil { // with a cold cache, on the port it had
			return nil, err
		}
	}
	cfg, err := d.config(s)
	if err != nil {
		return nil, err
	}
	if err := d.router.Apply(cfg); err != nil {
		return nil, err
	}
	o := bench.Options{Target: d.URL(), TimeScale: d.scenario.TimeScale}
	if ended != nil {
		o.Ended = func() { ended(s.Name) }
	}
	run, err := bench.Play(ctx, d.scenario.Requests(), o)
	if err != nil {
		return nil, err
	}
	run.Strategy, run.Knobs = s.Name, s.Knobs
	return run, nil
}

// Wait serves until ctx ends or Warmpath fails, which is the error.
func (d *Demo) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-d.served:
		d.served <- err
		return err
	}
}

// Close stops Warmpath, which gives open requests a moment to finish, and then the engines.
func (d *Demo) Close() {
	d.close.Do(func() {
		d.stop()
		<-d.served
		d.router.Close()
		d.stopEngines()
	})
}

func (d *Demo) stopEngines() {
	for _, e := range d.engines {
		e.Kill()
	}
}

// lockedRandom gives the same numbers for the same seed, to many goroutines in turn.
func lockedRandom(seed uint64) func() uint64 {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 0))
	return func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return r.Uint64()
	}
}

// place is where a listener was wanted and where it is.
type place struct {
	wanted string // empty if it is there
	addr   string
}

// listen opens Warmpath's sockets.
func (d *Demo) listen() (*router.Listeners, error) {
	var l router.Listeners
	var err error
	if l.Data, d.data, err = listenNear(d.scenario.Listen); err != nil {
		return nil, err
	}
	if l.Admin, d.admin, err = listenNear(d.scenario.AdminListen); err != nil {
		l.Data.Close()
		return nil, err
	}
	return &l, nil
}

// listenNear listens on the address that is wanted or, if that cannot be had, on a free port of loopback.
func listenNear(wanted string) (net.Listener, place, error) {
	if l, err := net.Listen("tcp", wanted); err == nil {
		return l, place{addr: l.Addr().String()}, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, place{}, fmt.Errorf("listen: no free port on 127.0.0.1: %w", err)
	}
	return l, place{wanted: wanted, addr: l.Addr().String()}, nil
}
