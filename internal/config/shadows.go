package config

import "slices"

// AllVariants lists what requests are routed to, then the shadows as variants of no weight.
func (e Endpoint) AllVariants() []Variant {
	all := slices.Clip(e.Serving())
	for _, s := range e.ShadowVariants {
		all = append(all, Variant{Name: s.Name, Pool: s.Pool, Routing: s.Routing})
	}
	return all
}

// shadows checks an endpoint's shadow variants, beside its variants, and names those that have no name.
func (r *report) shadows(e Endpoint, pools map[string]Pool, path string) {
	if len(e.ShadowVariants) > 0 && e.ByComponent() {
		r.errorf(path, "is given beside `inference_components`, which cannot be shadowed; remove the one or the others")
		return
	}
	for i := range e.ShadowVariants {
		s, at := &e.ShadowVariants[i], index(path, i)
		r.variantPool(s.Pool, pools, join(at, "pool"))
		if s.Name == "" {
			s.Name = s.Pool
		}
		before := e.AllVariants()[:len(e.Variants)+i]
		if s.Name != "" && slices.ContainsFunc(before, func(v Variant) bool { return v.Name == s.Name }) {
			r.errorf(join(at, "name"), "another variant of this endpoint has the same name; give each its own `name`")
		}
		if s.Pool != "" && slices.ContainsFunc(e.Variants, func(v Variant) bool { return v.Pool == s.Pool }) {
			r.errorf(join(at, "pool"), "serves the endpoint's clients, whom the copies would slow; give the shadow a pool of its own")
		}
		r.routing(s.Routing, join(at, "routing"))
	}
}
