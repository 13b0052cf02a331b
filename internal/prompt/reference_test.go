package prompt

import (
	"bytes"
	"encoding/binary"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"
)

// The reference is a second implementation of the package over jsontext: it
// builds the whole tree, decodes every string and shares no code with the first.

// node is one JSON value; start and end are its position in the body.
type node struct {
	kind       jsontext.Kind
	raw        string
	text       string // decoded, if a string
	items      []node
	members    map[string]node // of duplicates the last
	pairs      []node          // names and values in turn, duplicates included
	start, end int
}

var lenient = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

func parseReference(body []byte) (root node, ok bool) {
	d := jsontext.NewDecoder(strings.NewReader(string(body)), lenient...)
	root, err := readNode(d, string(body))
	if err != nil {
		return node{}, false
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return node{}, false
	}
	return root, true
}

func readNode(d *jsontext.Decoder, body string) (node, error) {
	n := node{kind: d.PeekKind()}
	switch n.kind {
	case '{', '[':
		if _, err := d.ReadToken(); err != nil {
			return n, err
		}
		n.start = int(d.InputOffset()) - 1
		if err := readChildren(&n, d, body); err != nil {
			return n, err
		}
	default:
		v, err := d.ReadValue()
		if err != nil {
			return n, err
		}
		n.start = int(d.InputOffset()) - len(v)
		if n.kind == '"' {
			text, _ := jsontext.AppendUnquote(nil, v)
			n.text = string(text)
		}
	}
	n.end = int(d.InputOffset())
	n.raw = body[n.start:n.end]
	return n, nil
}

func readChildren(n *node, d *jsontext.Decoder, body string) error {
	if n.kind == '{' {
		n.members = map[string]node{}
	}
	for k := d.PeekKind(); k != '}' && k != ']'; k = d.PeekKind() {
		child, err := readNode(d, body)
		if err != nil {
			return err
		}
		if n.kind == '[' {
			n.items = append(n.items, child)
			continue
		}
		val, err := readNode(d, body)
		if err != nil {
			return err
		}
		n.members[child.text] = val
		n.pairs = append(n.pairs, child, val)
	}
	_, err := d.ReadToken()
	return err
}

// referenceKey spells out the encoding of key.go with literal tags.
type referenceKey struct {
	out  []byte
	left int
	any  bool
}

func (k *referenceKey) number(n uint64) { k.out = binary.LittleEndian.AppendUint64(k.out, n) }

func (k *referenceKey) text(s string) {
	runes := []rune(s)
	s = string(runes[:min(len(runes), k.left)])
	if s == "" {
		return
	}
	k.left -= min(len(runes), k.left)
	k.out = append(k.out, 3)
	k.number(uint64(len(s)))
	k.out = append(k.out, s...)
	k.any = true
}

func (k *referenceKey) digest(tag byte, raw string) {
	if k.left == 0 {
		return
	}
	k.left--
	k.out = append(k.out, tag)
	k.number(xxh3.HashStringSeed(raw, 0x5741524d50415448))
	k.any = true
}

func (k *referenceKey) token(n node) {
	id, err := strconv.ParseInt(n.raw, 10, 64)
	if err != nil {
		k.digest(7, n.raw)
		return
	}
	if k.left == 0 {
		return
	}
	k.left = max(0, k.left-4)
	k.out = append(k.out, 4)
	k.number(uint64(id))
	k.any = true
}

func (k *referenceKey) odd(n node) {
	if n.kind != 0 && n.kind != 'n' {
		k.digest(7, n.raw)
	}
}

func (k *referenceKey) part(n node) {
	switch kind := n.members["type"]; {
	case n.kind == '"':
		k.text(n.text)
	case n.kind != '{':
		k.digest(7, n.raw)
	case n.members["text"].kind == '"' && kind.kind == '"' &&
		(kind.text == "text" || kind.text == "input_text" || kind.text == "output_text"):
		k.text(n.members["text"].text)
	default:
		k.digest(6, n.raw)
	}
}

func (k *referenceKey) content(n node) {
	switch n.kind {
	case '"':
		k.text(n.text)
	case '[':
		for _, p := range n.items {
			k.part(p)
		}
	default:
		k.odd(n)
	}
}

func (k *referenceKey) messages(n node) {
	if n.kind != '[' {
		k.odd(n)
		return
	}
	for _, m := range n.items {
		if m.kind == '{' {
			k.content(m.members["content"])
		} else {
			k.digest(7, m.raw)
		}
	}
	if k.any {
		return
	}
	for _, m := range n.items {
		if calls := m.members["tool_calls"]; calls.kind != 0 && calls.kind != 'n' {
			k.digest(8, calls.raw)
		}
	}
}

func (k *referenceKey) input(n node) {
	if n.kind != '[' {
		k.content(n)
		return
	}
	for _, item := range n.items {
		if item.members["role"].kind != 0 {
			k.content(item.members["content"])
		} else {
			k.part(item)
		}
	}
}

func (k *referenceKey) completion(n node) {
	if n.kind != '[' {
		k.content(n)
		return
	}
	for _, e := range n.items {
		switch e.kind {
		case '"':
			k.text(e.text)
		case '[':
			for i, id := range e.items {
				if i == 0 && k.left > 0 {
					k.out = append(k.out, 5)
				}
				k.token(id)
			}
		default:
			k.token(e)
		}
	}
}

func referenceTextKey(root node, shape Shape, prefixLength int, hint string) (key uint64, used int, ok bool) {
	k := referenceKey{left: prefixLength}
	if hint != "" {
		k.out = append(k.out, 1)
		k.number(uint64(len(hint)))
		k.out = append(k.out, hint...)
	}
	switch shape {
	case ShapeChat:
		k.messages(root.members["messages"])
	case ShapeCompletion:
		k.completion(root.members["prompt"])
	case ShapeResponses:
		k.content(root.members["instructions"])
		k.input(root.members["input"])
	case ShapeAnthropic:
		k.content(root.members["system"])
		k.messages(root.members["messages"])
	}
	return xxh3.HashSeed(k.out, 0x5741524d50415448), prefixLength - k.left, len(k.out) > 0
}

// mendStrings replaces, byte for byte, what is no JSON inside strings: control characters and escapes that do not exist. Scan leaves
// these to the engine.
func mendStrings(raw []byte) []byte {
	out := bytes.Clone(raw)
	inside := false
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '"':
			inside = !inside
		case inside && c < 0x20:
			out[i] = ' '
		case inside && c == '\\' && i+1 < len(out):
			if escape.Match(out[i:]) {
				i++
				continue
			}
			out[i] = ' '
		}
	}
	return out
}

var escape = regexp.MustCompile(`^\\(["\\/bfnrt]|u[0-9a-fA-F]{4})`)

// compareWithReference holds Scan, TextKey and Splice against the reference.
func compareWithReference(t rapid.TB, raw []byte, shape Shape, prefixLength int, hint string) {
	t.Helper()
	body, err := Scan(raw, shape)
	mended := mendStrings(raw)
	root, valid := parseReference(mended)
	if (err == nil) != valid {
		t.Fatalf("%.200q: Scan error %v, reference valid %v", raw, err, valid)
	}
	if !valid {
		syntax, ok := err.(*SyntaxError)
		if !ok || syntax.Offset < 0 || syntax.Offset > int64(len(raw)) {
			t.Fatalf("error %#v, want a SyntaxError inside the body", err)
		}
		return
	}
	if !bytes.Equal(raw, mended) { // what its strings say is the engine's to judge; here it only must be read without harm
		body.TextKey(prefixLength, hint)
		body.Chain(nil, hint)
		return
	}
	model := root.members["model"]
	if body.HasModel != (model.kind == '"') || body.HasModel && body.Model != model.text {
		t.Errorf("model %q %v, want %q %v", body.Model, body.HasModel, model.text, model.kind == '"')
	}
	if start, end := body.ModelSpan(); body.HasModel && (start != model.start || end != model.end) {
		t.Errorf("model span %d:%d, want %d:%d", start, end, model.start, model.end)
	}
	if want := root.members["stream"].kind == 't'; body.Stream != want {
		t.Errorf("stream %v, want %v", body.Stream, want)
	}
	if want := root.members["prompt_cache_key"].text; shape != ShapeNone && body.CacheKey != want {
		t.Errorf("cache key %q, want %q", body.CacheKey, want)
	}
	key, used, ok := body.TextKey(prefixLength, hint)
	wantKey, wantUsed, wantOK := referenceTextKey(root, shape, prefixLength, hint)
	if key != wantKey || used != wantUsed || ok != wantOK {
		t.Errorf("%.200q: TextKey = %x %d %v, want %x %d %v", raw, key, used, ok, wantKey, wantUsed, wantOK)
	}
	compareSplice(t, &body, root, hint)
	compareChain(t, &body, root, shape, hint)
}

// compareSplice checks that a body with another model is the same but for it.
func compareSplice(t rapid.TB, body *Body, root node, name string) {
	t.Helper()
	want := string(body.Raw)
	if model := root.members["model"]; body.HasModel {
		quoted, _ := jsontext.AppendQuote(nil, name)
		want = want[:model.start] + string(quoted) + want[model.end:]
	}
	if got := string(body.Splice(nil, body.SetModel(name))); got != want {
		t.Errorf("Splice = %q, want %q", got, want)
	}
}
