// Package prompt reads from a request body what routing needs: the model, the stream flag, a stable key of the prompt's first characters, and the hashes of its blocks.
package prompt

import "fmt"

// One pass (Scan) validates the body as JSON and notes where the few interesting values stand; TextKey then visits only the text
// that falls into the prefix window, and Chain the whole prompt. Bodies are never re-serialised: each Edit (SetModel, AskUsage)
// changes a single place, and Splice leaves every other byte alone.

// Shape says which fields of a JSON body carry prompt text.
type Shape uint8

const (
	// ShapeNone has no prompt text: unknown paths, and embeddings, which leave
	// no reusable KV prefix behind. Only model and stream are read.
	ShapeNone Shape = iota
	// ShapeChat is /v1/chat/completions: messages.
	ShapeChat
	// ShapeCompletion is /v1/completions: prompt, as a string, a list of
	// strings, a list of token ids, or a list of such lists.
	ShapeCompletion
	// ShapeResponses is /v1/responses: instructions, then input, as a string or
	// a list of items.
	ShapeResponses
	// ShapeAnthropic is /v1/messages: system, as a string or blocks, then messages.
	ShapeAnthropic
	// ShapeInvocation is SageMaker's /invocations, which takes anything: a body
	// with messages is a chat, one with a prompt a completion, and any other has
	// no prompt text (ShapeNone). Engines that serve it decide in this order.
	ShapeInvocation
)

// textFields names the top-level keys that carry prompt text, in prompt order.
var textFields = [...][]string{
	ShapeNone:       nil,
	ShapeChat:       {"messages"},
	ShapeCompletion: {"prompt"},
	ShapeResponses:  {"instructions", "input"},
	ShapeAnthropic:  {"system", "messages"},
	ShapeInvocation: {"messages", "prompt"},
}

// frontFields names the top-level keys that a chat template renders before the
// messages, in the order in which they stand in the canonical prompt.
var frontFields = [...]string{"tools", "functions", "documents"}

// seedFields names the top-level keys that tell apart what an engine caches of
// equal prompts: the salts of vLLM, SGLang and TensorRT-LLM (cache_salt), and of
// SGLang alone (extra_key), and the adapters of llama.cpp (lora), SGLang
// (lora_path) and TensorRT-LLM (lora_request). Their order is part of the chain's
// seed: append, never reorder.
var seedFields = [...]string{"cache_salt", "extra_key", "lora", "lora_path", "lora_request"}

// Body is what one pass over a request body found. It refers to the scanned
// bytes and does not own them: they must stay unchanged while the Body is in
// use. Model and CacheKey are copies and may be kept.
type Body struct {
	// Raw is the scanned body itself.
	Raw []byte
	// Model is the decoded value of "model"; empty unless HasModel.
	Model string
	// HasModel reports that "model" is present and a string.
	HasModel bool
	// Stream reports that "stream" is the literal true.
	Stream bool
	// CacheKey is the decoded value of "prompt_cache_key", the client's own hint
	// at which requests share a prefix; empty when absent, not a string, or
	// under ShapeNone and ShapeInvocation.
	CacheKey string

	shape   Shape
	model   span
	options span                   // value of "stream_options"
	text    [2]span                // values of textFields[shape]; empty where absent
	front   [len(frontFields)]span // values of frontFields
	seeds   [len(seedFields)]span  // values of seedFields
}

// span is a half-open range of bytes in the body; the zero span is no value.
type span struct{ start, end int }

// ModelSpan is the range in Raw of the value of the last top-level "model",
// quotes included. It is 0, 0 when there is none or it is not a string.
func (b *Body) ModelSpan() (start, end int) { return b.model.start, b.model.end }

// HasText reports that the body's shape has prompt text, be it empty.
func (b *Body) HasText() bool { return b.shape != ShapeNone }

// settle gives a body of ShapeInvocation the shape that its members show. Its
// hint, if it has one, is in a header.
func (b *Body) settle() {
	if b.shape != ShapeInvocation {
		return
	}
	switch {
	case b.text[0] != (span{}):
		b.shape = ShapeChat
	case b.text[1] != (span{}):
		b.shape, b.text[0] = ShapeCompletion, b.text[1]
	default:
		b.shape = ShapeNone
		clear(b.front[:])
		clear(b.seeds[:])
	}
	b.text[1], b.CacheKey = span{}, ""
}

// field is the value of the i-th text field of the body's shape, empty when absent.
func (b *Body) field(i int) value { return b.at(b.text[i]) }

// at is the value that stands at s, empty for the zero span.
func (b *Body) at(s span) value { return b.Raw[s.start:s.end] }

// SyntaxError reports a body that is not one JSON value (RFC 8259). It names a
// position and a reason and never repeats what the body says.
type SyntaxError struct {
	// Offset is the position of the first byte that cannot be right, counted
	// from 0; the body's length when it ends too early.
	Offset int64
	// Reason says what was wrong there.
	Reason string
}

// Error implements error.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("request body: not valid JSON at byte %d: %s", e.Offset, e.Reason)
}
