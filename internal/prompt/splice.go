package prompt

import "github.com/go-json-experiment/json/jsontext"

// SpliceModel appends the body to dst with only the value of "model" replaced by
// name and returns the extended slice. Every other byte stays: numbers keep
// their digits, objects their order. A body without a model is appended as it
// is. Bytes of name that are not UTF-8 become U+FFFD.
func (b *Body) SpliceModel(dst []byte, name string) []byte {
	if b.model == (span{}) {
		return append(dst, b.Raw...)
	}
	dst = append(dst, b.Raw[:b.model.start]...)
	// The error only reports bytes that were replaced by U+FFFD.
	dst, _ = jsontext.AppendQuote(dst, name)
	return append(dst, b.Raw[b.model.end:]...)
}
