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
