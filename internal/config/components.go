package config

import (
	"regexp"
	"slices"
)

// NameOnly says that clients reach the endpoint by its name alone, never by a model.
func (e Endpoint) NameOnly() bool {
	return e.ByAPI || e.ByComponent() || e.Models != nil && len(e.Models) == 0
}

// ByComponent says that clients must name an inference component: the endpoint's variants have no pools of their own.
func (e Endpoint) ByComponent() bool {
	return len(e.InferenceComponents) > 0 || len(e.Variants) > 0 && e.Variants[0].Pool == ""
}

// Serving lists what requests are routed to: the variants, or the inference components, each as its variant with a pool of its own.
func (e Endpoint) Serving() []Variant {
	if !e.ByComponent() {
		return e.Variants
	}
	var serving []Variant
	for _, c := range e.InferenceComponents {
		for _, v := range e.Variants {
			if v.Name == c.Variant {
				v.Pool, v.Component, v.NoCopies = c.Pool, c.Name, c.NoCopies
				serving = append(serving, v)
			}
		}
	}
	return serving
}

// described names the variant, or the component that it is, in an error.
func (v Variant) described() string {
	if v.Component != "" {
		return "inference component " + quoted(v.Component)
	}
	return "variant " + quoted(v.Name)
}

// componentForm is what SageMaker's clients can name in a header (SageMaker Runtime API, InferenceComponentName).
var componentForm = regexp.MustCompile(`^[a-zA-Z0-9]([\-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?$`)

// components checks the inference components of one endpoint, and gives those that name no variant the only one there is.
func (r *report) components(e Endpoint, pools map[string]Pool, endpoint string) {
	if len(e.InferenceComponents) > 0 && len(e.Models) > 0 {
		r.errorf(join(endpoint, "models"), "has no meaning with `inference_components`, which clients name instead; remove it")
	}
	names := map[string]bool{}
	for i := range e.InferenceComponents {
		c, at := &e.InferenceComponents[i], index(join(endpoint, "inference_components"), i)
		switch name := join(at, "name"); {
		case !componentForm.MatchString(c.Name):
			r.errorf(name, "%s is not a name of a component; write letters, digits and inner hyphens, 63 at most", quoted(r.written(name, c.Name)))
		case names[c.Name]:
			r.errorf(name, "another component of this endpoint has the same name; give each its own")
		}
		names[c.Name] = true
		r.variantPool(c.Pool, pools, join(at, "pool"))
		if c.Variant == "" && len(e.Variants) == 1 {
			c.Variant = e.Variants[0].Name
		}
		r.componentVariant(*c, e.Variants, join(at, "variant"))
	}
}

func (r *report) componentVariant(c InferenceComponent, variants []Variant, path string) {
	names := make([]string, len(variants))
	for i, v := range variants {
		names[i] = v.Name
	}
	switch {
	case c.Variant == "" && len(variants) > 1:
		r.errorf(path, "is missing; with several variants, each component says to which it belongs")
	case c.Variant != "" && !slices.Contains(names, c.Variant):
		r.errorf(path, "there is no variant %s; %s", quoted(r.written(path, c.Variant)), r.suggestion(path, c.Variant, names))
	}
}

// componentsVariant checks a variant whose pools are those of its components.
func (r *report) componentsVariant(v Variant, path string) {
	if v.Pool != "" {
		r.errorf(join(path, "pool"), "is given beside `inference_components`, which bring pools of their own; keep the one or the others")
	} else if v.Name == "" {
		r.errorf(join(path, "name"), "is missing; a variant without a pool has none to be called by")
	}
}
