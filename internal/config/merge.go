package config

import (
	"maps"
	"slices"
	"strings"
)

// With adds the endpoints that were made by API to those of the file. An endpoint without variants only holds its name. The error is
// an Errors: names are compared as SageMaker does, without regard to case, and none may be in both; every pool must be there.
func (c *Config) With(made map[string]Endpoint) (*Config, error) {
	whole := *c
	whole.Endpoints = maps.Clone(c.Endpoints)
	if whole.Endpoints == nil {
		whole.Endpoints = map[string]Endpoint{}
	}
	r := newReport("")
	for _, name := range slices.Sorted(maps.Keys(made)) {
		e := made[name]
		if twin, taken := c.EndpointNamed(name); taken {
			r.errorf(join("endpoints", twin), "the control plane has an endpoint of this name; rename this one, or delete that one by API first")
		}
		for _, v := range e.Variants {
			if _, exists := c.Pools[v.Pool]; !exists {
				r.errorf(join("pools", v.Pool), "is missing; endpoint %s, made by API, uses it in variant %s: keep the pool, or delete the endpoint by API first",
					quoted(name), quoted(v.Name))
			}
		}
		if len(e.Variants) > 0 {
			whole.Endpoints[name] = e
		}
	}
	if err := r.result(); err != nil {
		return nil, err
	}
	return &whole, nil
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
