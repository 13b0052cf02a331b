// Package endpoint holds what clients name and reach: endpoints, their variants and pools, and which model leads to which.
package endpoint

import (
	"net/http"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/health"
	"github.com/warmpath/warmpath/internal/recording"
	"github.com/warmpath/warmpath/internal/routing"
)

// Pool is a fleet with what the data plane needs to speak to its engines.
type Pool struct {
	Name    string
	Fleet   *fleet.Fleet
	Outlier *health.Outlier
	// Transport carries requests to the engines.
	Transport http.RoundTripper
	// Authorization is sent to the engines instead of the client's own header; empty leaves the client's in place.
	Authorization string
	// CachedApart says that the engines' Messages API leaves cached tokens out of input_tokens (llama.cpp).
	CachedApart bool
	// NullUsage says that the engines write "usage": null into the chunks of any stream, whether asked for usage or not (SGLang, in some
	// versions).
	NullUsage bool
	// KeepOnDisconnect says that the engines bear no broken connection: when a client leaves, the answer to its request is read
	// to its end, within the endpoint's timeouts, and thrown away. The request counts as in flight until then.
	KeepOnDisconnect bool
}

// Variant is a weighted part of an endpoint, or an inference component of one: a pool and the strategy by which its replicas are
// chosen.
type Variant struct {
	Name string
	// Component is the inference component that this is, of the variant Name; empty = the variant itself. Its replicas are its copies.
	Component string

	Weight   float64 // relative to the endpoint's other variants, 0 or more
	Pool     *Pool
	Strategy routing.Strategy
	Options  routing.Options // the strategy's settings, to be shown
}

// Label tells the variant from the endpoint's others in metrics and logs: NAME, or NAME/COMPONENT.
func (v *Variant) Label() string {
	if v.Component == "" {
		return v.Name
	}
	return v.Name + "/" + v.Component
}

// Timeouts limit an engine's answer; 0 = no limit.
type Timeouts struct {
	FirstByte time.Duration // from sending the request to the first byte of the answer's body
	Idle      time.Duration // between two bytes of the answer
	Total     time.Duration // from the request's arrival to the answer's end
}

// Endpoint is a service that clients call by the models it answers to.
type Endpoint struct {
	Name     string
	Models   []string          // empty: any model
	Aliases  map[string]string // name a client may use -> model name sent to the engine
	Strict   bool              // refuse unknown models even if this is the only endpoint
	NameOnly bool              // no model leads here, only the endpoint's name
	// ByComponent says that Variants are inference components, of which each request must name one.
	ByComponent bool
	Timeouts    Timeouts
	// InjectUsage asks engines for the usage of streamed answers and takes it out again, where clients do not ask for it themselves.
	InjectUsage bool
	// InvocationsPath is the escaped path under which the engines take the invocations of SageMaker's runtime API.
	InvocationsPath string
	// SessionTTL is how long a session lasts whose engine does not say.
	SessionTTL time.Duration
	// MaxAttempts is how many replicas one request may be sent to, 1 or more.
	MaxAttempts int
	Budget      *Budget
	Variants    []*Variant
	Shadows     []*Shadow
	// Recorder takes every ended request; nil = nothing is recorded.
	Recorder *recording.Recorder
}

// Variant finds a variant by its name; nil = there is none.
func (e *Endpoint) Variant(name string) *Variant {
	i := slices.IndexFunc(e.Variants, func(v *Variant) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return e.Variants[i]
}

// Component finds an inference component by its name; nil = there is none.
func (e *Endpoint) Component(name string) *Variant {
	i := slices.IndexFunc(e.Variants, func(v *Variant) bool { return v.Component == name && e.ByComponent })
	if i < 0 {
		return nil
	}
	return e.Variants[i]
}

// engineModel is a model as the engine knows it, by one of the names that the endpoint has for its models.
func (e *Endpoint) engineModel(name string) (model string, known bool) {
	if slices.Contains(e.Models, name) {
		return name, true
	}
	model, known = e.Aliases[name]
	return model, known
}

// Pick chooses a variant by weight among those that have a replica to offer, or among all if none has. draw is uniform in
// [0, 1). The endpoint must not be one ByComponent.
func (e *Endpoint) Pick(draw float64) *Variant {
	if len(e.Variants) == 1 {
		return e.Variants[0]
	}
	if v := pick(e.Variants, draw, func(v *Variant) bool { return len(v.Pool.Fleet.View().Eligible) > 0 }); v != nil {
		return v
	}
	return pick(e.Variants, draw, func(*Variant) bool { return true })
}

func pick(variants []*Variant, draw float64, usable func(*Variant) bool) *Variant {
	var sum float64
	for _, v := range variants {
		if usable(v) {
			sum += v.Weight
		}
	}
	left := draw * sum
	var last *Variant
	for _, v := range variants {
		if v.Weight == 0 || !usable(v) {
			continue
		}
		if last = v; left < v.Weight {
			return v
		}
		left -= v.Weight
	}
	return last
}
