package proxy

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/warmpath/warmpath/internal/dialect"
	"github.com/warmpath/warmpath/internal/endpoint"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/routing"
)

// Explanation says where a request would go and why.
type Explanation struct {
	API      string `json:"api"`
	Endpoint string `json:"endpoint"`
	Variant  string `json:"variant"`
	// Component is the inference component of the variant that the request names; empty = the endpoint has none.
	Component string          `json:"component,omitempty"`
	Pool      string          `json:"pool"`
	Model     string          `json:"model,omitempty"`
	Stream    bool            `json:"stream"`
	Strategy  string          `json:"strategy"`
	Options   routing.Options `json:"options,omitzero"`
	// Key is the hash that the placement follows, in hexadecimal; empty if the request has none and goes by load.
	Key string `json:"key,omitempty"`
	// Window is how much of the prompt went into the key, in bytes or characters as WindowUnit says.
	Window     int    `json:"window,omitempty"`
	WindowUnit string `json:"window_unit,omitempty"`
	Hint       string `json:"hint,omitempty"`
	// Blocks is the length of the prompt's block chain, for strategies that go by it.
	Blocks int `json:"blocks,omitempty"`
	// Learned is what the strategy has learned from the endpoint's answers, if it learns.
	Learned *routing.Learned `json:"learned,omitempty"`
	// Degraded says that no replica of the pool is ready and the request would be tried all the same.
	Degraded bool `json:"degraded,omitempty"`
	// Order is the whole ranking: the first is chosen, the others are the retries.
	Order []Place `json:"order"`
	// Shadows are the variants that get a copy of such requests.
	Shadows []Shadow `json:"shadows,omitempty"`
}

// Shadow is a shadow variant in an Explanation.
type Shadow struct {
	Variant string `json:"variant"`
	Pool    string `json:"pool"`
	// Share is the share of the requests that is copied, 0 to 1.
	Share    float64 `json:"share"`
	Strategy string  `json:"strategy"`
}

// Place is one replica in an Explanation.
type Place struct {
	Replica  string         `json:"replica"`
	Reason   routing.Reason `json:"reason"`
	InFlight int64          `json:"in_flight"`
	// Cost is what the request is expected to add there, by strategies that reckon it.
	Cost *routing.Cost `json:"cost,omitempty"`
}

var windowUnits = map[dialect.Window]string{dialect.TextWindow: "characters", dialect.ByteWindow: "bytes"}

// Explain plans a request as ServeHTTP does and ranks every replica, without sending or counting anything. Errors are those that
// a client would get.
func (p *Proxy) Explain(path string, header http.Header, body []byte) (*Explanation, error) {
	target, err := url.ParseRequestURI(path)
	if err != nil {
		return nil, fmt.Errorf("explain: %w; give a path such as /v1/chat/completions", err)
	}
	route, known := dialect.Recognise(http.MethodPost, target.EscapedPath())
	if !known {
		return nil, fmt.Errorf("explain: %s is not served; give a path such as /v1/chat/completions", target.Path)
	}
	if route.Refusal != nil {
		return nil, route.Refusal
	}
	r := &http.Request{Method: http.MethodPost, URL: target, Header: header}
	made, refusal := p.planFor(p.Current(), route, r, body, nil)
	if refusal != nil {
		return nil, refusal
	}
	e := p.explain(route, made)
	if repeatable(r) {
		e.Shadows = shadowsOf(made.endpoint)
	}
	return e, nil
}

func shadowsOf(e *endpoint.Endpoint) (all []Shadow) {
	for _, s := range e.Shadows {
		v := s.Variant()
		all = append(all, Shadow{Variant: v.Name, Pool: v.Pool.Name, Share: s.Share, Strategy: v.Strategy.Name()})
	}
	return all
}

func (p *Proxy) explain(route dialect.Route, made *plan) *Explanation {
	e := &Explanation{
		API: route.Dialect.Name(), Endpoint: made.endpoint.Name, Variant: made.variant.Name, Component: made.variant.Component,
		Pool:  made.variant.Pool.Name,
		Model: made.model, Stream: made.stream, Strategy: made.variant.Strategy.Name(), Options: made.variant.Options, Hint: made.hint,
	}
	if made.query.HasKey {
		e.Key, e.Window, e.WindowUnit = fmt.Sprintf("%016x", made.query.Key), made.window, windowUnits[route.Window]
	}
	defer made.release()
	e.Blocks = len(made.query.Chain.Blocks)
	learner, learns := made.variant.Strategy.(routing.Learner)
	if learns {
		learned := learner.Learned()
		e.Learned = &learned
	}
	made.query.Limit, made.query.Now = 0, p.Now()
	made.variant.Pool.Fleet.Acquire(func(v *fleet.View) *fleet.Replica {
		e.Degraded = v.Degraded
		for _, c := range made.rank(v, nil) {
			place := Place{Replica: c.Replica.ID(), Reason: c.Reason, InFlight: c.Replica.InFlight()}
			if learns {
				place.Cost = &c.Cost
			}
			e.Order = append(e.Order, place)
		}
		return nil
	})
	return e
}
