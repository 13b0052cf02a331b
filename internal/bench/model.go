package bench

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// withModel adds the name of a model to a JSON object that has none. Other bodies, and all if model is empty, stay as they are.
func withModel(body []byte, model string) []byte {
	if model == "" {
		return body
	}
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return body
	}
	start := int(d.InputOffset())
	empty := d.PeekKind() == '}'
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil || name.String() == "model" || d.SkipValue() != nil {
			return body
		}
	}
	if d.PeekKind() != '}' {
		return body
	}
	name, err := json.Marshal(model)
	if err != nil {
		return body
	}
	member := slices.Concat([]byte(`"model":`), name)
	if !empty {
		member = append(member, ',')
	}
	return slices.Concat(body[:start], member, body[start:])
}
