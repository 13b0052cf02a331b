package workload

import (
	"bytes"
	"iter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/warmpath/warmpath/internal/prompt"
)

// Window gives the ids of the blocks that the first characters of the prompt reach into. Since the texts of two blocks differ
// from their beginning on, two prompts have the same first characters exactly if they have the same Window.
func (r *Request) Window(characters int) []uint64 {
	size := r.BlockTokens * tokenBytes
	if size < 1 || characters < 1 {
		return nil
	}
	return r.Blocks[:min(len(r.Blocks), (characters-1)/size+1)]
}

// Text is the prompt that Blocks stand for: made of their ids alone, so that two prompts share exactly the text of the blocks
// that they share, and four characters a token long. It is ASCII that needs no escaping in JSON.
func (r *Request) Text() string {
	text := make([]byte, 0, r.PromptTokens*tokenBytes)
	for i, id := range r.Blocks {
		tokens := min(r.BlockTokens, r.PromptTokens-i*r.BlockTokens)
		text = append(text, blockText(id, tokens)...)
	}
	return string(text)
}

// codeAlphabet holds 32 characters, so that 13 of them spell any id.
const codeAlphabet = "abcdefghijklmnopqrstuvwxyz234567"

// blockText begins with the id itself, mixed so that the first characters differ even between ids that follow each other, and
// goes on with prose of the id's own.
func blockText(id uint64, tokens int) string {
	const bits = 64
	mixed := mix(id)
	code := make([]byte, 0, bits/5+2)
	for left := 0; left < bits; left += 5 {
		code = append(code, codeAlphabet[mixed%32])
		mixed /= 32
	}
	code = append(code, ' ')
	size := tokens * tokenBytes
	if size <= len(code) {
		return string(code[:size])
	}
	return string(code) + proseOf(random(id, streamBlock, 0), size-len(code))
}

// mix is the output function of SplitMix64 (Steele, Lea and Flood, 2014): different ids stay different.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// WithBodies returns w with everything that a server needs: requests that are known by their blocks get a body, and bodies that
// name no model name this one. An empty model adds none. The bodies ask for a stream with usage, as those of the generators do.
func WithBodies(w Workload, model string) Workload { return &embodied{w, model} }

type embodied struct {
	Workload
	model string
}

func (w *embodied) Requests() iter.Seq[Request] {
	return func(yield func(Request) bool) {
		for r := range w.Workload.Requests() {
			if r.Body == nil {
				r.Path, r.Body = completionPath, completionBody(r.Text(), r.OutputTokens)
			}
			r.Body = withModel(r.Body, w.model)
			if !yield(r) {
				return
			}
		}
	}
}

func (w *embodied) Len() int {
	n, _ := Len(w.Workload)
	return n
}

// withModel puts a model in front of the other members of a body that has none.
func withModel(body []byte, model string) []byte {
	const space = " \t\r\n"
	object, isObject := bytes.CutPrefix(bytes.TrimLeft(body, space), []byte("{"))
	b, err := prompt.Scan(body, prompt.ShapeNone)
	if model == "" || !isObject || err != nil || b.HasModel {
		return body
	}
	// The error only reports bytes that were replaced by U+FFFD.
	named, _ := jsontext.AppendQuote([]byte(`{"model":`), model)
	if object[len(object)-len(bytes.TrimLeft(object, space))] != '}' {
		named = append(named, ',')
	}
	return append(named, object...)
}

const completionPath = "/v1/completions"

type completion struct {
	Prompt    string        `json:"prompt"`
	MaxTokens int           `json:"max_tokens"`
	Stream    bool          `json:"stream"`
	Options   streamOptions `json:"stream_options"`
}

// completionBody is a request whose whole prompt is one text, without the headers of a chat template, which would shift blocks.
func completionBody(text string, outputTokens int) []byte {
	return marshal(completion{text, max(1, outputTokens), true, streamOptions{IncludeUsage: true}})
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("workload: " + err.Error()) // only a type that JSON cannot express
	}
	return b
}
