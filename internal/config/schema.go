package config

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// reference is a pattern for text that holds a ${NAME}: what it stands for, an editor cannot know.
const reference = `\$\{`

// Schema returns a JSON Schema (draft 2020-12) of the configuration file, for editors and other tools. It allows nothing
// that Parse refuses by form; ranges of durations and sizes, and rules between keys, are Parse's alone. Parse is looser in
// that it takes quoted numbers.
func Schema() ([]byte, error) {
	descriptions, err := describe()
	if err != nil {
		return nil, err
	}
	root := schemaBuilder(descriptions).structure(reflect.TypeFor[Config]())
	root.Schema = "https://json-schema.org/draft/2020-12/schema"
	root.Title = "Warmpath configuration"
	data, err := json.MarshalIndent(root, "", "  ")
	return append(data, '\n'), err
}

// schemaBuilder builds schemas with the descriptions it holds.
type schemaBuilder map[string]string

// of is the schema of any value of t, without what only its field knows.
func (b schemaBuilder) of(t reflect.Type) *jsonschema.Schema {
	switch {
	case t == reflect.TypeFor[Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|` + reference}
	case t == reflect.TypeFor[Bytes]():
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: "integer", Minimum: jsonschema.Ptr(0.0)},
			{Type: "string", Pattern: `^[0-9]+ *(([kKmMgGtT][iI]?)?[bB])?$|` + reference},
		}}
	case t == reflect.TypeFor[Secret]():
		return &jsonschema.Schema{Type: "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return b.of(t.Elem())
	case reflect.Struct:
		return b.structure(t)
	case reflect.Map:
		return &jsonschema.Schema{Type: "object", AdditionalProperties: b.of(t.Elem()), PropertyNames: &jsonschema.Schema{MinLength: jsonschema.Ptr(1)}}
	case reflect.Slice:
		return &jsonschema.Schema{Type: "array", Items: b.of(t.Elem())}
	}
	return &jsonschema.Schema{Type: map[reflect.Kind]string{
		reflect.Bool: "boolean", reflect.Int: "integer", reflect.Float64: "number", reflect.String: "string",
	}[t.Kind()]}
}

// structure is the schema of a struct: its keys and no others.
func (b schemaBuilder) structure(t reflect.Type) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type:                 "object",
		Description:          b[t.Name()],
		Properties:           map[string]*jsonschema.Schema{},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	for _, f := range fieldsOf(t) {
		s.Properties[f.key] = b.property(t, f)
		s.PropertyOrder = append(s.PropertyOrder, f.key)
		if f.required {
			s.Required = append(s.Required, f.key)
		}
	}
	switch t {
	case reflect.TypeFor[Config]():
		s.AnyOf = []*jsonschema.Schema{{Required: []string{"endpoints"}}, {Required: []string{"control_plane"}}}
	case reflect.TypeFor[Endpoint]():
		pooled := &jsonschema.Schema{Items: &jsonschema.Schema{Required: []string{"pool"}}}
		s.AnyOf = []*jsonschema.Schema{{Required: []string{"inference_components"}}, {Properties: map[string]*jsonschema.Schema{"variants": pooled}}}
	case reflect.TypeFor[Auth]():
		s.AnyOf = []*jsonschema.Schema{{Required: []string{"keys"}}, {Required: []string{"access_keys"}}}
	case reflect.TypeFor[APIKey]():
		s.OneOf = []*jsonschema.Schema{{Required: []string{"key"}}, {Required: []string{"key_file"}}}
	case reflect.TypeFor[AccessKey]():
		s.OneOf = []*jsonschema.Schema{{Required: []string{"secret"}}, {Required: []string{"secret_file"}}}
	case reflect.TypeFor[Pool]():
		s.OneOf = []*jsonschema.Schema{{Required: []string{"static"}}, {Required: []string{"file"}}, {Required: []string{"dns"}}}
	case reflect.TypeFor[Routing]():
		s.If = &jsonschema.Schema{
			Properties: map[string]*jsonschema.Schema{"strategy": {Const: jsonschema.Ptr[any]("PREFIX_AWARE")}},
			Required:   []string{"strategy"},
		}
		s.Then = &jsonschema.Schema{Required: []string{"prefix_length", "concurrency_threshold"}}
	}
	return s
}

// property is the schema of one key.
func (b schemaBuilder) property(t reflect.Type, f field) *jsonschema.Schema {
	s := b.of(f.typ)
	for _, choice := range f.choices {
		s.Enum = append(s.Enum, choice)
	}
	if f.typ.Kind() == reflect.Int || f.typ.Kind() == reflect.Float64 {
		s.Minimum, s.Maximum = bound(f.least), bound(f.most)
	}
	if len(f.choices) > 0 || s.Type == "integer" || s.Type == "number" || s.Type == "boolean" {
		s = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{s, {Type: "string", Pattern: reference}}}
	}
	s.Description = b[t.Name()+"."+f.name]
	if span := f.rangeText(); span != "" {
		s.Description += " Range: " + span + "."
	}
	s.Default = f.defaultJSON()
	return s
}

// bound is the limit of a number's range, nil for "".
func bound(text string) *float64 {
	number, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil
	}
	return &number
}

// defaultJSON is the field's default as a JSON value, nil where there is none.
func (f field) defaultJSON() json.RawMessage {
	switch {
	case f.initial == "":
		return nil
	case f.typ.Kind() == reflect.String || isText(f.typ):
		return json.RawMessage(strconv.Quote(f.initial))
	}
	return json.RawMessage(strings.TrimSpace(f.initial))
}
