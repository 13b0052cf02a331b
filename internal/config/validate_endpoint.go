package config

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// endpoints checks every endpoint, and that no two answer to one model.
func (r *report) endpoints(cfg *Config) {
	if len(cfg.Endpoints) == 0 && cfg.ControlPlane == nil {
		r.errorf("endpoints", "there is no endpoint; add one with a variant that names a pool")
	}
	owner, recordings := map[string]string{}, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(cfg.Endpoints)) {
		e, path := cfg.Endpoints[name], join("endpoints", name)
		if len(e.Models) == 0 && !e.NameOnly() && len(cfg.Endpoints) > 1 {
			r.errorf(join(path, "models"), "is missing; with several endpoints, each says which models it answers to, or `models: []` if clients reach it by its name only")
		}
		if len(e.Models) == 0 && len(e.Aliases) == 0 && e.StrictModels {
			r.errorf(join(path, "strict_models"), "is true without `models`, so that no request could be served; list them")
		}
		r.models(e, path)
		if !e.NameOnly() {
			r.owned(e, name, path, owner)
		}
		r.invocationsPath(e.InvocationsPath, join(path, "invocations_path"))
		r.timeouts(e.Timeouts, join(path, "timeouts"))
		r.variants(e, cfg.Pools, join(path, "variants"))
		r.components(e, cfg.Pools, path)
		r.shadows(e, cfg.Pools, join(path, "shadow_variants"))
		r.record(e.Record, name, join(path, "record"), recordings)
	}
}

// models checks the names that one endpoint answers to.
func (r *report) models(e Endpoint, path string) {
	for i, model := range e.Models {
		at := index(join(path, "models"), i)
		switch {
		case model == "":
			r.errorf(at, "is an empty name; write a model or remove the item")
		case slices.Index(e.Models, model) < i:
			r.errorf(at, "is there twice; remove one")
		}
	}
	for alias, target := range e.Aliases {
		at := join(join(path, "aliases"), alias)
		switch {
		case target == "":
			r.errorf(at, "has no model; write the name that the engine knows")
		case slices.Contains(e.Models, alias):
			r.errorf(at, "is a model of this endpoint already; rename the alias or remove the model")
		case len(e.Models) > 0 && !slices.Contains(e.Models, target):
			r.errorf(at, "%s is not among the endpoint's models; %s",
				quoted(r.written(at, target)), r.suggestion(at, target, e.Models))
		}
	}
}

// owned checks that the endpoint's models and aliases belong to no other, and records them in owner.
func (r *report) owned(e Endpoint, endpoint, path string, owner map[string]string) {
	claim := func(model, at string) {
		other, taken := owner[model]
		switch {
		case !taken:
			owner[model] = endpoint
		case other != endpoint:
			r.errorf(at, "endpoints %s and %s both answer to this model; keep it in one", quoted(other), quoted(endpoint))
		}
	}
	for i, model := range e.Models {
		claim(model, index(join(path, "models"), i))
	}
	for alias := range e.Aliases {
		claim(alias, join(join(path, "aliases"), alias))
	}
}

// invocationsPath checks the path below a replica's base URL. A query would be lost.
func (r *report) invocationsPath(urlPath, path string) {
	if urlPath == "" || strings.ContainsAny(urlPath, "?#") {
		r.errorf(path, "is not a path; write one without a query, such as /invocations")
		return
	}
	r.urlPath(urlPath, path, "/invocations")
}

func (r *report) timeouts(t Timeouts, path string) {
	first, total := join(path, "first_byte"), join(path, "total")
	if t.Total > 0 && t.FirstByte > t.Total {
		r.errorf(first, "is longer than `total` (%v), which would always end the answer before; lower it or raise `total`",
			r.written(total, t.Total))
	}
}

// record checks that a recording has a file of its own, and notes it in owner.
func (r *report) record(record *Record, endpoint, path string, owner map[string]string) {
	if record == nil {
		return
	}
	at := join(path, "file")
	if record.File == "" {
		r.errorf(at, "is missing; write the path of the file to record into")
		return
	}
	file := filepath.Clean(record.File)
	if other, taken := owner[file]; taken {
		r.errorf(at, "endpoint %s records into the same file; give each its own", quoted(other))
		return
	}
	owner[file] = endpoint
}

func (r *report) variants(e Endpoint, pools map[string]Pool, path string) {
	if len(e.Variants) == 0 {
		r.errorf(path, "there is no variant; add one that names a pool")
		return
	}
	sum, names := 0.0, map[string]bool{}
	for i := range e.Variants {
		v, at := &e.Variants[i], index(path, i)
		if len(e.InferenceComponents) > 0 {
			r.componentsVariant(*v, at)
		} else {
			r.variantPool(v.Pool, pools, join(at, "pool"))
		}
		if v.Name == "" {
			v.Name = v.Pool
		}
		if names[v.Name] && v.Name != "" {
			r.errorf(join(at, "name"), "another variant of this endpoint has the same name; give each its own `name`")
		}
		names[v.Name] = true
		sum += v.Weight
		r.routing(v.Routing, join(at, "routing"))
	}
	if sum == 0 && len(e.InferenceComponents) == 0 { // components are named, not drawn
		r.errorf(path, "every weight is 0, so that no request could be served; give one variant a weight above 0")
	}
}

func (r *report) variantPool(name string, pools map[string]Pool, path string) {
	if name == "" {
		r.errorf(path, "is missing; write the name of one of `pools`")
		return
	}
	if _, ok := pools[name]; !ok {
		r.errorf(path, "there is no pool %s; %s", quoted(r.written(path, name)),
			r.suggestion(path, name, slices.Sorted(maps.Keys(pools))))
	}
}

// routing checks that the knobs are there with PREFIX_AWARE and only there. Their ranges are constraints of the type.
func (r *report) routing(g Routing, path string) {
	for _, knob := range []struct {
		key   string
		value int
		span  string
	}{
		{"prefix_length", g.PrefixLength, "1024 to 65536"},
		{"concurrency_threshold", g.ConcurrencyThreshold, "1 to 1024"},
	} {
		at := join(path, knob.key)
		given := knob.value != 0 || r.isSet(at)
		switch {
		case g.Strategy == "PREFIX_AWARE" && !given:
			r.errorf(at, "is missing; PREFIX_AWARE needs it, %s", knob.span)
		case g.Strategy != "PREFIX_AWARE" && given && slices.Contains(Strategies(), g.Strategy):
			r.errorf(at, "has no meaning with %s; remove it, or use PREFIX_AWARE", g.Strategy)
		}
	}
}
