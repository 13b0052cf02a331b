package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/router"
	"github.com/warmpath/warmpath/internal/simulate"
)

// readTargets reads where the runs go: to the targets, or through a router of their own to the replicas.
func (b *benchCommand) readTargets() ([]target, error) {
	switch {
	case len(b.replicas) == 0 && len(b.strategies) > 0:
		return nil, errors.New("--strategy says how engines are routed; name them with --replica URL")
	case len(b.replicas) == 0 && b.engine != "":
		return nil, errors.New("--engine says what replicas run; name them with --replica URL")
	case len(b.replicas) == 0:
		return parseTargets(b.targets)
	case len(b.targets) > 0:
		return nil, errors.New("--target and --replica exclude each other: a target routes by itself, replicas are routed by --strategy")
	}
	lists := b.strategies
	if len(lists) == 0 {
		lists = []string{defaultStrategies}
	}
	var targets []target
	for _, list := range lists {
		strategies, err := simulate.ParseStrategies(list)
		if err != nil {
			return nil, err
		}
		for i := range strategies {
			if _, err := b.routing(&strategies[i], "127.0.0.1:0", "127.0.0.1:0"); err != nil {
				return nil, err
			}
			targets = append(targets, target{strategy: &strategies[i]})
		}
	}
	return targets, nil
}

// routing is the configuration of `warmpath serve` with one strategy in front of the replicas.
func (b *benchCommand) routing(s *simulate.Strategy, data, admin string) (*config.Config, error) {
	return config.FromFlags(config.Flags{
		Listen: data, AdminListen: admin, Replicas: b.replicas, Engine: b.engine,
		Strategy: s.Name, PrefixLength: s.Options.PrefixLength, ConcurrencyThreshold: s.Options.ConcurrencyThreshold,
	})
}

// route starts a router with a strategy in front of the replicas, whose caches it empties if they can be emptied.
func (b *benchCommand) route(ctx context.Context, s *simulate.Strategy) (url string, stop func(), err error) {
	if len(b.resets) == 0 {
		b.full = bench.Empty(ctx, b.replicas, nil)
	}
	return b.startRouter(s)
}

// name says whose figures a run has.
func (b *benchCommand) name(run *bench.Run, t target) {
	run.Name = t.name
	if s := t.strategy; s != nil {
		run.Strategy, run.Target = s.Name, strings.Join(b.replicas, ",")
		run.Knobs = bench.Knobs{PrefixLength: s.Options.PrefixLength, ConcurrencyThreshold: s.Options.ConcurrencyThreshold}
	}
}

// startRouter starts a Warmpath on free ports of loopback, and gives its URL and what ends it.
func (b *benchCommand) startRouter(s *simulate.Strategy) (url string, stop func(), err error) {
	data, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	admin, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		data.Close()
		return "", nil, err
	}
	l := &router.Listeners{Data: data, Admin: admin}
	cfg, err := b.routing(s, data.Addr().String(), admin.Addr().String())
	if err == nil {
		cfg.Data.Drain = config.Drain{}
		stop, err = serveRouter(cfg, l)
	}
	if err != nil {
		data.Close()
		admin.Close()
		return "", nil, err
	}
	return "http://" + data.Addr().String(), stop, nil
}

func serveRouter(cfg *config.Config, l *router.Listeners) (stop func(), err error) {
	r, err := router.New(cfg, router.Options{Version: buildVersion()})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.Serve(ctx, l) // its failure is that of every request
	}()
	return func() {
		cancel()
		<-ended
		r.Close()
	}, nil
}

// inTurn says what several runs, one after the other, had of each other; empty if nothing.
func (b *benchCommand) inTurn(runs int) string {
	switch {
	case len(b.resets) > 0 || (len(b.replicas) > 0 && len(b.full) == 0):
		return ""
	case len(b.replicas) > 0:
		return fmt.Sprintf("The caches of %s could not be emptied, and each run met what had been there before. vLLM empties them with VLLM_SERVER_DEV_MODE=1; "+
			"others, if they can, with --reset URL.", strings.Join(b.full, ", "))
	case runs > 1:
		return "The runs were played in turn: where targets share engines, the later ones met caches that the earlier ones had filled. --reset empties them."
	}
	return ""
}

// label is what a run is called while it is played.
func (t *target) label() string {
	if t.strategy != nil {
		return t.strategy.Name
	}
	return cmp.Or(t.name, t.url)
}
