package config

import (
	"bytes"
	"encoding"
	"errors"
	"io"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// maxNodes bounds the values of one file, aliases counted as often as they are used: a few lines of nested aliases can
// otherwise stand for more than memory holds.
const maxNodes = 50_000

// decoder walks the nodes of a file beside the types of a configuration.
type decoder struct {
	*report
	env   func(string) (string, bool)
	nodes int
}

// document parses data as one YAML document and returns its top node, or nil after an error.
func (d *decoder) document(data []byte) *yaml.Node {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		d.syntaxError(err)
		return nil
	}
	var doc, second yaml.Node
	switch err := loader.Load(&doc); {
	case errors.Is(err, io.EOF) || (err == nil && len(doc.Content) == 1 && isNull(doc.Content[0])):
		d.errorf("", "the file is empty; it needs at least `pools` and `endpoints`")
		return nil
	case err != nil:
		d.syntaxError(err)
		return nil
	}
	if err := loader.Load(&second); !errors.Is(err, io.EOF) {
		d.places[""] = place{line: max(second.Line, 1), column: max(second.Column, 1)}
		d.errorf("", "the file holds more than one YAML document; keep one")
		return nil
	}
	return doc.Content[0]
}

// quotation is a name or value of the file in a message of the YAML parser; it may be part of a secret.
var quotation = regexp.MustCompile(`'[^']{2,}' `)

func (d *decoder) syntaxError(err error) {
	message := "is not valid YAML"
	if at := (*yaml.LoadError)(nil); errors.As(err, &at) {
		d.places[""] = place{line: at.Mark.Line, column: at.Mark.Column}
		message += ": " + quotation.ReplaceAllString(at.Message, "")
	}
	d.errorf("", "%s; check the indentation, colons and quotes here and in the line before", message)
}

// value decodes n into v, which holds its default.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	n, ok := d.resolve(n, path)
	if !ok || isNull(n) {
		return
	}
	if _, scalar := v.Addr().Interface().(encoding.TextUnmarshaler); scalar {
		d.scalar(n, v, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		fresh := reflect.New(v.Type().Elem())
		setDefaults(fresh.Elem())
		d.value(n, fresh.Elem(), path)
		v.Set(fresh)
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Map:
		d.mapping(n, v, path)
	case reflect.Slice:
		d.sequence(n, v, path)
	default:
		d.scalar(n, v, path)
	}
}

// resolve follows an alias and refuses what a configuration has no use for.
func (d *decoder) resolve(n *yaml.Node, path string) (*yaml.Node, bool) {
	if d.nodes++; d.nodes > maxNodes {
		if d.nodes == maxNodes+1 {
			d.errorf(path, "the file holds more than %d values; check its aliases (*name)", maxNodes)
		}
		return nil, false
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Style&yaml.TaggedStyle != 0 {
		d.errorf(path, "has a YAML tag (!name); remove it, tags have no meaning here")
		return nil, false
	}
	return n, true
}

func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Tag == "!!null"
}

// structure decodes the keys of n into the fields of v.
func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string) {
	fields := fieldsOf(v.Type())
	d.pairs(n, path, func(key, value *yaml.Node) {
		for _, f := range fields {
			if f.key == key.Value {
				at := join(path, f.key)
				d.places[at] = place{line: key.Line, column: key.Column}
				d.value(value, v.FieldByIndex(f.index), at)
				return
			}
		}
		d.unknownKey(key, v.Type(), path)
	})
}

// unknownKey says what the key was probably meant to be.
func (d *decoder) unknownKey(key *yaml.Node, t reflect.Type, path string) {
	name, _, joined := strings.Cut(key.Value, ":")
	d.places[join(path, name)] = place{line: key.Line, column: key.Column}
	if joined {
		// The rest may be a secret: `{api_key:abc}` is one long key to YAML.
		d.errorf(join(path, name), "is followed by a colon without a space; write `%s: VALUE`", clip(name))
		return
	}
	if name == "<<" {
		d.errorf(join(path, name), "YAML merge keys are not supported; use an alias for the whole value, or write the keys out")
		return
	}
	var keys, owners []string
	for _, f := range fieldsOf(t) {
		keys = append(keys, f.key)
		if inner := f.structType(); inner != nil && hasKey(inner, name) {
			owners = append(owners, "`"+f.key+"`")
		}
	}
	advice := didYouMean(name, keys)
	if len(owners) > 0 {
		advice = "it belongs under " + strings.Join(owners, " or ")
	}
	d.errorf(join(path, name), "is not a key here; %s", advice)
}

// mapping decodes n into the map v, each value over its type's defaults.
func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string) {
	v.Set(reflect.MakeMap(v.Type()))
	d.pairs(n, path, func(key, value *yaml.Node) {
		at := join(path, key.Value)
		d.places[at] = place{line: key.Line, column: key.Column}
		if key.Value == "" {
			d.errorf(at, "is an empty name; give it one")
			return
		}
		element := reflect.New(v.Type().Elem()).Elem()
		setDefaults(element)
		d.value(value, element, at)
		v.SetMapIndex(reflect.ValueOf(key.Value), element)
	})
}

// pairs calls each for every key of the mapping n, unless it is no mapping, or the key is no name or there twice.
func (d *decoder) pairs(n *yaml.Node, path string, each func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		d.wrongKind(n, path, "a mapping (key: value)")
		return
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, ok := d.resolve(n.Content[i], path)
		switch {
		case !ok:
			continue
		case key.Kind != yaml.ScalarNode:
			d.wrongKind(key, path, "a name as key")
			continue
		case first[key.Value] > 0:
			d.places[join(path, key.Value)] = place{line: key.Line, column: key.Column}
			d.errorf(join(path, key.Value), "is there twice, first in line %d; remove one", first[key.Value])
			continue
		}
		first[key.Value] = key.Line
		each(key, n.Content[i+1])
	}
}

// sequence decodes n into the slice v, each item over its type's defaults.
func (d *decoder) sequence(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.wrongKind(n, path, "a list (one `- item` a line, or [item, item])")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		at := index(path, i)
		d.places[at] = place{line: item.Line, column: item.Column}
		if isNull(item) {
			d.errorf(at, "is empty; give it a value or remove the item")
			continue
		}
		setDefaults(v.Index(i))
		d.value(item, v.Index(i), at)
	}
}

// scalar decodes one value from its text, once the environment is expanded.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode {
		d.wrongKind(n, path, "a single value")
		return
	}
	_, secret := v.Interface().(Secret)
	written := n.Value
	if secret {
		written = redacted
	}
	d.places[path] = place{line: n.Line, column: n.Column, written: written}
	text, err := expand(n.Value, d.env)
	if err != nil {
		d.errorf(path, "%v", err)
		return
	}
	switch err := setText(v, text); {
	case err == nil:
	case secret:
		d.errorf(path, "%v", err)
	default:
		d.errorf(path, "%s %v", quoted(written), err)
	}
}

func (d *decoder) wrongKind(n *yaml.Node, path, want string) {
	is := map[yaml.Kind]string{yaml.MappingNode: "a mapping", yaml.SequenceNode: "a list", yaml.ScalarNode: "a single value"}[n.Kind]
	d.places[path] = place{line: n.Line, column: n.Column}
	d.errorf(path, "is %s; write %s", is, want)
}

// setText parses text as v's type. Errors do not repeat the text.
func setText(v reflect.Value, text string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.Bool:
		if text != "true" && text != "false" {
			return errors.New("is not true or false")
		}
		v.SetBool(text == "true")
	case reflect.Int:
		number, err := strconv.ParseInt(text, 10, 0)
		if err != nil {
			return errors.New("is not a whole number")
		}
		v.SetInt(number)
	case reflect.Float64:
		number, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(number, 0) || math.IsNaN(number) {
			return errors.New("is not a number")
		}
		v.SetFloat(number)
	default:
		v.SetString(text)
	}
	return nil
}
