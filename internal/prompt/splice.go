package prompt

import (
	"cmp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Edit is a change to one place of a body: SetModel and AskUsage make them, Splice applies them. The zero Edit changes nothing.
type Edit struct {
	at   span // what goes
	text []byte
}

// Splice appends the body to dst with edits made, which must not overlap, and returns the extended slice. Every other byte stays:
// numbers keep their digits, objects their order.
func (b *Body) Splice(dst []byte, edits ...Edit) []byte {
	slices.SortFunc(edits, func(x, y Edit) int { return cmp.Compare(x.at.start, y.at.start) })
	from := 0
	for _, e := range edits {
		dst = append(append(dst, b.Raw[from:e.at.start]...), e.text...)
		from = e.at.end
	}
	return append(dst, b.Raw[from:]...)
}

// SetModel is the edit that replaces the value of "model" by name. A body without a model is left as it is. Bytes of name that are
// not UTF-8 become U+FFFD.
func (b *Body) SetModel(name string) Edit {
	if b.model == (span{}) {
		return Edit{}
	}
	// The error only reports bytes that were replaced by U+FFFD.
	quoted, _ := jsontext.AppendQuote(nil, name)
	return Edit{b.model, quoted}
}

// AskUsage is the edit by which a streamed chat or completion asks the engine for its usage (stream_options.include_usage), and
// whether there is something to ask: not if the body does so itself, and not if it says there what only the engine can judge.
func (b *Body) AskUsage() (Edit, bool) {
	if !b.Stream || b.shape != ShapeChat && b.shape != ShapeCompletion {
		return Edit{}, false
	}
	options := b.at(b.options)
	switch {
	case b.options == (span{}):
		start := next(b.Raw, 0) + 1 // into the object, whose first member is not its last: "stream" is there
		return Edit{span{start, start}, []byte(`"stream_options":{"include_usage":true},`)}, true
	case options.isNull():
		return Edit{b.options, []byte(`{"include_usage":true}`)}, true
	case !options.isObject():
		return Edit{}, false
	}
	return b.askUsageIn(options)
}

// askUsageIn is AskUsage for a body whose stream_options are an object.
func (b *Body) askUsageIn(options value) (Edit, bool) {
	start := b.options.start + 1
	edit := Edit{span{start, start}, []byte(`"include_usage":true,`)}
	if options.isEmptyObject() {
		edit.text = []byte(`"include_usage":true`)
	}
	off := true
	for key, val := range options.members() {
		switch {
		case key.is("include_usage"): // the last counts
			start := b.options.start + offset(options, val)
			edit = Edit{span{start, start + len(val)}, []byte("true")}
			off = val.isOff()
		case key.is("continuous_usage_stats") && !val.isOff(): // idle without include_usage; with it, every chunk would change
			return Edit{}, false
		}
	}
	return edit, off
}

// isOff reports whether v is what an option holds that is not set.
func (v value) isOff() bool { return string(v) == "false" || v.isNull() }

// isEmptyObject reports whether an object has no members.
func (v value) isEmptyObject() bool { return v[next(v, 1)] == '}' }

// offset is where part, which was cut from whole without a limit to its capacity, begins in it.
func offset(whole, part value) int { return cap(whole) - cap(part) }

// Batch reports that a completion's body holds several prompts: a list of more than one string, or of more than one list of tokens.
// Engines do not agree on whose usage they then report.
func (b *Body) Batch() bool {
	list := b.field(0)
	if b.shape != ShapeCompletion || !list.isArray() {
		return false
	}
	prompts := 0
	for e := range list.elements() {
		if !e.isString() && !e.isArray() { // token ids of one prompt
			return false
		}
		if prompts++; prompts > 1 {
			return true
		}
	}
	return false
}
