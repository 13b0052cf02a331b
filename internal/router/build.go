package router

import (
	"fmt"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/endpoint"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/routing"
)

// strategies holds a strategy for each variant, by endpoint and place.
type strategies map[string][]routing.Strategy

func newStrategies(cfg *config.Config) (strategies, error) {
	made := strategies{}
	for name, e := range cfg.Endpoints {
		for _, v := range e.Variants {
			s, err := routing.New(v.Routing.Strategy, options(v.Routing))
			if err != nil {
				return nil, fmt.Errorf("endpoint %s, variant %s: %w", name, v.Name, err)
			}
			made[name] = append(made[name], s)
		}
	}
	return made, nil
}

func options(r config.Routing) routing.Options {
	return routing.Options{PrefixLength: r.PrefixLength, ConcurrencyThreshold: r.ConcurrencyThreshold}
}

// parts are what the endpoints of a configuration are made of, beside the configuration itself.
type parts struct {
	pools      map[string]*pool
	strategies strategies
	recorders  recorders
}

// newSettings is what the data plane sees of a configuration. Endpoints keep the retry budget they had.
func newSettings(cfg *config.Config, made parts, before *proxy.Settings) *proxy.Settings {
	budgets := map[string]*endpoint.Budget{}
	if before != nil {
		for _, e := range before.Table.Endpoints() {
			budgets[e.Name] = e.Budget
		}
	}
	endpoints := make([]*endpoint.Endpoint, 0, len(cfg.Endpoints))
	for name, c := range cfg.Endpoints {
		e := &endpoint.Endpoint{
			Name: name, Models: c.Models, Aliases: c.Aliases, Strict: c.StrictModels, MaxAttempts: c.Retry.MaxAttempts,
			Timeouts: endpoint.Timeouts{
				FirstByte: time.Duration(c.Timeouts.FirstByte), Idle: time.Duration(c.Timeouts.Idle), Total: time.Duration(c.Timeouts.Total),
			},
			Budget:   budgets[name],
			Recorder: made.recorders.of(name),
		}
		if e.Budget == nil || e.Budget.Share() != c.Retry.Budget {
			e.Budget = endpoint.NewBudget(c.Retry.Budget, time.Now)
		}
		for i, v := range c.Variants {
			e.Variants = append(e.Variants, &endpoint.Variant{
				Name: v.Name, Weight: v.Weight, Pool: made.pools[v.Pool].target, Strategy: made.strategies[name][i], Options: options(v.Routing),
			})
		}
		endpoints = append(endpoints, e)
	}
	d := cfg.Data
	return &proxy.Settings{
		Table:           endpoint.NewTable(endpoints),
		Limits:          proxy.Limits{Body: int64(d.MaxBody), DecodedBody: int64(d.MaxDecodedBody), BodyIdle: time.Duration(d.BodyTimeout)},
		DecisionHeaders: d.DecisionHeaders,
		TrustForwarded:  d.TrustForwarded,
	}
}
