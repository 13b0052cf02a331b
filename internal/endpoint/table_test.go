package endpoint

import (
	"errors"
	"testing"
)

func TestTable(t *testing.T) {
	open := &Endpoint{Name: "open", Models: []string{"a"}, Aliases: map[string]string{"x": "a"}, Variants: []*Variant{{Name: "v1"}, {Name: "v2"}}}
	strict := &Endpoint{Name: "strict", Models: []string{"b"}, Strict: true}
	table := NewTable([]*Endpoint{strict, open})
	for _, c := range []struct {
		name, model string
		endpoint    *Endpoint
		engines     string
		err         error
	}{
		{"open", "a", open, "a", nil},
		{"open", "x", open, "a", nil},
		{"open", "b", open, "b", nil}, // another endpoint's model is none of this one's business
		{"open", "", open, "", nil},
		{"strict", "b", strict, "b", nil},
		{"strict", "", strict, "", nil},
		{"strict", "x", nil, "", ErrUnknownModel},
		{"Open", "a", nil, "", ErrUnknownName},
		{"", "a", nil, "", ErrUnknownName},
	} {
		if e, model, err := table.Named(c.name, c.model); e != c.endpoint || model != c.engines || !errors.Is(err, c.err) {
			t.Errorf("%q, %q: got %v, %q, %v", c.name, c.model, e, model, err)
		}
	}
	if open.Variant("v2") != open.Variants[1] || open.Variant("v3") != nil || open.Variant("") != nil {
		t.Error("a variant is not found by its name alone")
	}
}

func TestModelsLeadPastEndpointsThatHaveOnlyAName(t *testing.T) {
	file, made := &Endpoint{Name: "file"}, &Endpoint{Name: "made", NameOnly: true}
	models := &Endpoint{Name: "models", Models: []string{"m"}}
	tests := []struct {
		name      string
		endpoints []*Endpoint
		model     string
		want      *Endpoint
		err       error
	}{
		{"a lone one beside it takes every model", []*Endpoint{made, file}, "x", file, nil},
		{"and requests without", []*Endpoint{made, file}, "", file, nil},
		{"alone it takes none", []*Endpoint{made}, "x", nil, ErrUnknownModel},
		{"nor requests without", []*Endpoint{made}, "", nil, ErrModelRequired},
		{"two that models lead to", []*Endpoint{made, file, models}, "x", nil, ErrUnknownModel},
		{"one of them by its model", []*Endpoint{made, file, models}, "m", models, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			table := NewTable(test.endpoints)
			got, _, err := table.Resolve(test.model, test.model != "")
			if got != test.want || !errors.Is(err, test.err) {
				t.Errorf("got %v, %v, want %v, %v", got, err, test.want, test.err)
			}
			if e, _, err := table.Named("made", "any"); e != made || err != nil {
				t.Errorf("by name: got %v, %v, want it", e, err)
			}
			for _, e := range table.ByModel() {
				if e == made {
					t.Error("it is listed among those that models lead to")
				}
			}
		})
	}
}

// Endpoints that only have a name may serve the same models, under the same aliases.
func TestNamedKnowsItsOwnModelsOnly(t *testing.T) {
	blue := &Endpoint{Name: "blue", NameOnly: true, Models: []string{"m"}, Aliases: map[string]string{"x": "m"}}
	green := &Endpoint{Name: "green", NameOnly: true, Strict: true, Aliases: map[string]string{"x": "n"}}
	table := NewTable([]*Endpoint{blue, green})
	for _, c := range []struct {
		name, model, engines string
		err                  error
	}{
		{"blue", "x", "m", nil}, {"green", "x", "n", nil}, {"blue", "m", "m", nil}, {"green", "m", "", ErrUnknownModel},
	} {
		if _, model, err := table.Named(c.name, c.model); model != c.engines || !errors.Is(err, c.err) {
			t.Errorf("%s, %s: got %q, %v, want %q, %v", c.name, c.model, model, err, c.engines, c.err)
		}
	}
	for _, model := range []string{"x", "m"} {
		if e, _, err := table.Resolve(model, true); e != nil || !errors.Is(err, ErrUnknownModel) {
			t.Errorf("the model %s leads to %v, %v", model, e, err)
		}
	}
}

func TestComponent(t *testing.T) {
	a, b := &Variant{Name: "main", Component: "a"}, &Variant{Name: "main", Component: "b"}
	e := &Endpoint{Variants: []*Variant{a, b}, ByComponent: true}
	if e.Component("a") != a || e.Component("b") != b || e.Component("main") != nil || e.Component("") != nil {
		t.Error("a component is not found by its name alone")
	}
	without := &Endpoint{Variants: []*Variant{{Name: "main"}}}
	if without.Component("") != nil || without.Component("main") != nil {
		t.Error("an endpoint without components has one")
	}
	if a.Label() != "main/a" || without.Variants[0].Label() != "main" {
		t.Errorf("labels are %s and %s", a.Label(), without.Variants[0].Label())
	}
}
