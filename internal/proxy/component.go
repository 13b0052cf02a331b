package proxy

import (
	"cmp"
	"net/http"

	"github.com/warmpath/warmpath/internal/dialect"
	"github.com/warmpath/warmpath/internal/endpoint"
)

// componentOf finds the inference component that a request names in its path or, as an invocation, in a header. A request must name one
// of an endpoint that has them, and none of another; then it is nil.
func componentOf(e *endpoint.Endpoint, route dialect.Route, h http.Header) (*endpoint.Variant, *dialect.Error) {
	name := route.Component
	if route.Invocation != dialect.NoInvocation {
		name = cmp.Or(name, h.Get(dialect.HeaderInferenceComponent))
	}
	if name == "" && e.ByComponent {
		return nil, dialect.ComponentRequired(e.Name, route.Invocation)
	}
	c, err := namedComponent(e, name)
	if c == nil {
		return nil, err
	}
	if target := h.Get(dialect.HeaderTargetVariant); target != "" && target != c.Name {
		return nil, dialect.NotOnVariant(e.Name, target, name)
	}
	return c, nil
}

// namedComponent finds the inference component of that name; nil for the empty name.
func namedComponent(e *endpoint.Endpoint, name string) (*endpoint.Variant, *dialect.Error) {
	if name == "" {
		return nil, nil
	}
	c := e.Component(name)
	switch {
	case c != nil:
		return c, nil
	case e.ByComponent:
		return nil, dialect.ComponentNotFound(e.Name, name)
	}
	return nil, dialect.NoComponents(e.Name)
}
