package config

import (
	"maps"
	"slices"
	"strings"
)

// With adds the endpoints that were made by API, of which only variants, components and shadows count, to those of the file. One without
// variants only holds its name. The error is an Errors: names are compared as SageMaker does, without regard to case, and none may be in
// both; every pool must be there.
func (c *Config) With(made map[string]Endpoint) (*Config, error) {
	whole := *c
	whole.Endpoints = maps.Clone(c.Endpoints)
	if whole.Endpoints == nil {
		whole.Endpoints = map[string]Endpoint{}
	}
	r := newReport("")
	for _, name := range slices.Sorted(maps.Keys(made)) {
		if twin, taken := c.EndpointNamed(name); taken {
			r.errorf(join("endpoints", twin), "the control plane has an endpoint of this name; rename this one, or delete that one by API first")
		}
		for _, v := range made[name].AllVariants() {
			if _, exists := c.Pools[v.Pool]; !exists {
				r.errorf(join("pools", v.Pool), "is missing; endpoint %s, made by API, uses it in %s: keep the pool, or delete the endpoint by API first",
					quoted(name), v.described())
			}
		}
		if len(made[name].Variants) > 0 {
			whole.Endpoints[name] = c.madeEndpoint(made[name])
		}
	}
	if err := r.result(); err != nil {
		return nil, err
	}
	return &whole, nil
}

// madeEndpoint is an endpoint that was made by API, with the settings that the file has for such.
func (c *Config) madeEndpoint(made Endpoint) Endpoint {
	s := newWithDefaults[MadeEndpoints]()
	if c.ControlPlane != nil {
		s = c.ControlPlane.Endpoints
	}
	e := newWithDefaults[Endpoint]()
	e.ByAPI, e.Variants, e.InferenceComponents, e.ShadowVariants = true, made.Variants, made.InferenceComponents, made.ShadowVariants
	e.InvocationsPath, e.Usage, e.SessionTTL, e.Timeouts, e.Retry = s.InvocationsPath, s.Usage, s.SessionTTL, s.Timeouts, s.Retry
	return e
}

// EndpointNamed finds the name of an endpoint without regard to case.
func (c *Config) EndpointNamed(name string) (string, bool) {
	for each := range c.Endpoints {
		if strings.EqualFold(each, name) {
			return each, true
		}
	}
	return "", false
}
