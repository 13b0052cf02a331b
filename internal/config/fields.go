package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
)

// field is one key of a configuration type, as its struct tags describe it.
type field struct {
	// name is the Go name, key the name in the file.
	name, key string
	index     []int
	typ       reflect.Type
	// initial, least and most are the text of the default and the range; "" where there is none.
	initial, least, most string
	// choices are the values allowed; nil where any is.
	choices  []string
	required bool
}

// fieldsOf returns the keys of the struct type t in the order of the type.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("yaml")
		if key == "-" {
			continue
		}
		each := field{
			name: f.Name, key: key, index: f.Index, typ: f.Type,
			initial: f.Tag.Get("default"), least: f.Tag.Get("min"), most: f.Tag.Get("max"),
			required: f.Tag.Get("required") == "true",
		}
		if choices := f.Tag.Get("enum"); choices != "" {
			each.choices = strings.Split(choices, "|")
		}
		fields = append(fields, each)
	}
	return fields
}

// structType is the struct that the field's value is or points to, nil for any other field.
func (f field) structType() reflect.Type {
	t := f.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || isText(t) {
		return nil
	}
	return t
}

// isText says whether values of t are written as one text of their own syntax.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// hasKey says whether the struct type t has the key.
func hasKey(t reflect.Type, key string) bool {
	for _, f := range fieldsOf(t) {
		if f.key == key {
			return true
		}
	}
	return false
}

// setDefaults sets every field of the struct v, and of the structs in it, to the default in its tag.
func setDefaults(v reflect.Value) {
	if v.Kind() != reflect.Struct || isText(v.Type()) {
		return
	}
	for _, f := range fieldsOf(v.Type()) {
		fv := v.FieldByIndex(f.index)
		if f.initial != "" {
			mustSet(fv, f.initial)
		}
		setDefaults(fv)
	}
}

// mustSet sets v from the text of a struct tag.
func mustSet(v reflect.Value, text string) {
	if err := setText(v, text); err != nil {
		panic(fmt.Sprintf("config: struct tag of a %s: %v", v.Type(), err))
	}
}

// Strategies returns the names of the routing strategies that a configuration may name.
func Strategies() []string { return choicesOf[Routing]("strategy") }

// Engines returns the names of the inference engines that a configuration may name.
func Engines() []string { return choicesOf[Pool]("engine") }

func choicesOf[T any](key string) []string {
	for _, f := range fieldsOf(reflect.TypeFor[T]()) {
		if f.key == key {
			return f.choices
		}
	}
	return nil
}
