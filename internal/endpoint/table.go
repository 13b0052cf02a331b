package endpoint

import (
	"errors"
	"slices"
	"strings"
)

// The reasons for which no endpoint is found.
var (
	ErrUnknownModel  = errors.New("endpoint: no endpoint serves this model")
	ErrModelRequired = errors.New("endpoint: the request names no model and there are several endpoints")
	ErrUnknownName   = errors.New("endpoint: none has this name")
)

// Table leads from model names to endpoints. It is immutable: a reload builds another.
type Table struct {
	endpoints []*Endpoint // by name
	modelled  []*Endpoint // those among them that models lead to
	byModel   map[string]route
}

type route struct {
	endpoint *Endpoint
	model    string // as the engine knows it
}

// NewTable indexes the endpoints. No model or alias may belong to two of those that models lead to; the configuration's validation
// sees to that.
func NewTable(endpoints []*Endpoint) *Table {
	t := &Table{endpoints: slices.Clone(endpoints), byModel: map[string]route{}}
	slices.SortFunc(t.endpoints, func(a, b *Endpoint) int { return strings.Compare(a.Name, b.Name) })
	for _, e := range t.endpoints {
		if e.NameOnly {
			continue
		}
		t.modelled = append(t.modelled, e)
		for _, m := range e.Models {
			t.byModel[m] = route{e, m}
		}
		for alias, m := range e.Aliases {
			t.byModel[alias] = route{e, m}
		}
	}
	return t
}

// Endpoints lists the endpoints by name. The caller must not change the slice.
func (t *Table) Endpoints() []*Endpoint { return t.endpoints }

// ByModel lists those of the endpoints that models lead to. The caller must not change the slice.
func (t *Table) ByModel() []*Endpoint { return t.modelled }

// Resolve finds the endpoint of a request and the model name that its engine expects. A lone endpoint, of those that models lead to,
// takes every request unless it is strict; then a request must name one of its models or none at all. Errors are ErrUnknownModel and
// ErrModelRequired.
func (t *Table) Resolve(model string, named bool) (*Endpoint, string, error) {
	if named {
		if r, ok := t.byModel[model]; ok {
			return r.endpoint, r.model, nil
		}
	}
	switch {
	case len(t.modelled) == 1 && (!named || !t.modelled[0].Strict):
		return t.modelled[0], model, nil
	case named:
		return nil, "", ErrUnknownModel
	}
	return nil, "", ErrModelRequired
}

// Named finds the endpoint that a request names itself, and the model name that its engine expects: of any model, unless the endpoint
// is strict, or of none, an empty one. Errors are ErrUnknownName and ErrUnknownModel.
func (t *Table) Named(name, model string) (*Endpoint, string, error) {
	i, ok := slices.BinarySearchFunc(t.endpoints, name, func(e *Endpoint, name string) int { return strings.Compare(e.Name, name) })
	if !ok {
		return nil, "", ErrUnknownName
	}
	e := t.endpoints[i]
	switch engines, known := e.engineModel(model); {
	case known:
		return e, engines, nil
	case model != "" && e.Strict:
		return nil, "", ErrUnknownModel
	}
	return e, model, nil
}
