package router

import (
	"fmt"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/endpoint"
	"github.com/warmpath/warmpath/internal/engine"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/routing"
)

// strategies holds the strategy of each variant.
type strategies map[placement]routing.Strategy

// placement is a variant and everything that its strategy is made of.
type placement struct {
	endpoint, variant, component, pool string
	name                               string
	options                            routing.Options
}

func placementOf(cfg *config.Config, endpoint string, v config.Variant) placement {
	return placement{endpoint: endpoint, variant: v.Name, component: v.Component, pool: v.Pool, name: v.Routing.Strategy, options: routing.Options{
		PrefixLength: v.Routing.PrefixLength, ConcurrencyThreshold: v.Routing.ConcurrencyThreshold,
		WholePrompts:  engine.WholePrompts(cfg.Pools[v.Pool].Engine),
		SiblingsFirst: v.Component != "",
	}}
}

// newStrategies makes the strategies of a configuration. Those that were in use for the same variants stay, with all that they
// have learned.
func newStrategies(cfg *config.Config, before strategies) (strategies, error) {
	made := strategies{}
	for name, e := range cfg.Endpoints {
		for _, v := range e.AllVariants() {
			p := placementOf(cfg, name, v)
			if s, kept := before[p]; kept {
				made[p] = s
				continue
			}
			s, err := routing.New(p.name, p.options)
			if err != nil {
				return nil, fmt.Errorf("endpoint %s, variant %s: %w", name, v.Name, err)
			}
			made[p] = s
		}
	}
	return made, nil
}

// parts are what the endpoints of a configuration are made of, beside the configuration itself.
type parts struct {
	pools      map[string]*pool
	strategies strategies
	recorders  recorders
}

// poolOf is the pool of a variant. A component without copies has an empty one: what is asked of it finds no replica.
func (p parts) poolOf(v config.Variant) *endpoint.Pool {
	if v.NoCopies {
		return &endpoint.Pool{Name: v.Pool, Fleet: fleet.New(fleet.Options{})}
	}
	return p.pools[v.Pool].target
}

// newSettings is what the data plane sees of a configuration. Endpoints keep the retry budget they had, and shadows their room.
func newSettings(cfg *config.Config, made parts, before *proxy.Settings) *proxy.Settings {
	budgets, rooms := map[string]*endpoint.Budget{}, rooms{}
	if before != nil {
		for _, e := range before.Table.Endpoints() {
			budgets[e.Name] = e.Budget
			rooms.keep(e)
		}
	}
	endpoints := make([]*endpoint.Endpoint, 0, len(cfg.Endpoints))
	for name, c := range cfg.Endpoints {
		e := &endpoint.Endpoint{
			Name: name, Models: c.Models, Aliases: c.Aliases, Strict: c.StrictModels, NameOnly: c.NameOnly(), ByComponent: c.ByComponent(),
			MaxAttempts: c.Retry.MaxAttempts, InjectUsage: c.Usage == "inject", InvocationsPath: c.InvocationsPath, SessionTTL: time.Duration(c.SessionTTL),
			Timeouts: endpoint.Timeouts{
				FirstByte: time.Duration(c.Timeouts.FirstByte), Idle: time.Duration(c.Timeouts.Idle), Total: time.Duration(c.Timeouts.Total),
			},
			Budget:   budgets[name],
			Recorder: made.recorders.of(name),
		}
		if e.Budget == nil || e.Budget.Share() != c.Retry.Budget {
			e.Budget = endpoint.NewBudget(c.Retry.Budget, time.Now)
		}
		var all []*endpoint.Variant
		for _, v := range c.AllVariants() {
			p := placementOf(cfg, name, v)
			all = append(all, &endpoint.Variant{
				Name: v.Name, Component: v.Component, Weight: v.Weight, Pool: made.poolOf(v), Strategy: made.strategies[p], Options: p.options,
			})
		}
		serving := len(all) - len(c.ShadowVariants)
		e.Variants = all[:serving]
		for i, s := range c.ShadowVariants {
			e.Shade(all[serving+i], s.Share, rooms.of(name, s.Name))
		}
		endpoints = append(endpoints, e)
	}
	d := cfg.Data
	return &proxy.Settings{
		Table:           endpoint.NewTable(endpoints),
		Limits:          proxy.Limits{Body: int64(d.MaxBody), DecodedBody: int64(d.MaxDecodedBody), BodyIdle: time.Duration(d.BodyTimeout)},
		Auth:            newAuthenticator(cfg.Auth),
		DecisionHeaders: d.DecisionHeaders,
		TrustForwarded:  d.TrustForwarded,
	}
}
