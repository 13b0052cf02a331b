package proxy

import (
	"bytes"
	"cmp"
	"math"

	"github.com/go-json-experiment/json/jsontext"
)

// usage is the token count of an answer, in the three APIs' words.
type usage struct {
	PromptTokens         int64         `json:"prompt_tokens"`
	CompletionTokens     int64         `json:"completion_tokens"`
	PromptTokensDetails  *cachedTokens `json:"prompt_tokens_details"`
	InputTokens          int64         `json:"input_tokens"`
	OutputTokens         int64         `json:"output_tokens"`
	InputTokensDetails   *cachedTokens `json:"input_tokens_details"`
	CacheReadInputTokens *int64        `json:"cache_read_input_tokens"`
}

// cachedTokens holds the number of cached tokens; nil if the engine does not report it, as vLLM and SGLang if not told to.
type cachedTokens struct {
	CachedTokens *int64 `json:"cached_tokens"`
}

// timings is llama.cpp's account of an answer, which it gives unasked in the last chunk of a stream.
type timings struct {
	Cached    int64 `json:"cache_n"`
	Evaluated int64 `json:"prompt_n"` // of the prompt, without those cached
	Predicted int64 `json:"predicted_n"`
}

func (t *timings) usage() *usage {
	return &usage{
		PromptTokens: t.Cached + t.Evaluated, CompletionTokens: t.Predicted, PromptTokensDetails: &cachedTokens{&t.Cached},
	}
}

// scanUsage reads the counts from a usage object with whatever follows it. It looks for names and numbers only: every plain answer
// has one, and a JSON decoder costs as much as all the rest that is done to it.
func scanUsage(object []byte) *usage {
	u := &struct { // in one piece of memory
		usage
		details      cachedTokens
		cached, read int64
	}{}
	u.details.CachedTokens = known(object, `"cached_tokens"`, &u.cached)
	u.usage = usage{
		PromptTokens:         count(object, `"prompt_tokens"`),
		CompletionTokens:     count(object, `"completion_tokens"`),
		PromptTokensDetails:  &u.details,
		InputTokens:          count(object, `"input_tokens"`),
		OutputTokens:         count(object, `"output_tokens"`),
		CacheReadInputTokens: known(object, `"cache_read_input_tokens"`, &u.read),
	}
	return &u.usage
}

// scanTimings does for timings what scanUsage does for usage.
func scanTimings(object []byte) *usage {
	t := timings{count(object, `"cache_n"`), count(object, `"prompt_n"`), count(object, `"predicted_n"`)}
	return t.usage()
}

// count is the first whole number that stands after a quoted name and a colon; 0 if there is none.
func count(object []byte, name string) (n int64) {
	for _, c := range digitsOf(object, name) {
		if c < '0' || c > '9' || n > math.MaxInt32 {
			break
		}
		n = 10*n + int64(c-'0')
	}
	return n
}

// known is count for a number of which it matters whether it is there: it stands at n then, and is nil else.
func known(object []byte, name string, n *int64) *int64 {
	if digitsOf(object, name) == nil {
		return nil
	}
	*n = count(object, name)
	return n
}

// digitsOf gives what begins with the first number after a quoted name and a colon; nil if what stands there is none.
func digitsOf(object []byte, name string) []byte {
	i := bytes.Index(object, []byte(name))
	if i < 0 {
		return nil
	}
	rest, colon := bytes.CutPrefix(bytes.TrimLeft(object[i+len(name):], " \t\r\n"), []byte(":"))
	rest = bytes.TrimLeft(rest, " \t\r\n")
	if !colon || len(rest) == 0 || rest[0] < '0' || rest[0] > '9' {
		return nil
	}
	return rest
}

// take adds what a later report knows: the Messages API tells the input at a stream's start and the output at its end.
func (u *usage) take(later *usage) {
	for _, f := range [...]struct{ to, from *int64 }{
		{&u.PromptTokens, &later.PromptTokens}, {&u.CompletionTokens, &later.CompletionTokens},
		{&u.InputTokens, &later.InputTokens}, {&u.OutputTokens, &later.OutputTokens},
	} {
		if *f.from != 0 {
			*f.to = *f.from
		}
	}
	u.CacheReadInputTokens = cmp.Or(later.CacheReadInputTokens, u.CacheReadInputTokens)
	u.PromptTokensDetails = cmp.Or(later.PromptTokensDetails, u.PromptTokensDetails)
	u.InputTokensDetails = cmp.Or(later.InputTokensDetails, u.InputTokensDetails)
}

// prompt is the length of the prompt. apart says that its cached tokens do not count as input tokens.
func (u *usage) prompt(apart bool) int64 {
	input := u.InputTokens
	if apart {
		cached, _ := u.cached()
		input += cached
	}
	return max(u.PromptTokens, input, 0)
}

func (u *usage) output() int64 { return max(u.CompletionTokens, u.OutputTokens, 0) }

// cached is the number of cached tokens, 0 or more, and whether the engine reports it.
func (u *usage) cached() (n int64, known bool) {
	for _, d := range [...]*cachedTokens{u.PromptTokensDetails, u.InputTokensDetails, {u.CacheReadInputTokens}} {
		if d != nil && d.CachedTokens != nil {
			n, known = max(n, *d.CachedTokens), true
		}
	}
	return n, known
}

// event is what may stand in one event of a stream, in the three APIs' words.
type event struct {
	Type    string         `json:"type"`
	Error   jsontext.Value `json:"error"`
	Choices []struct {
		Text  string `json:"text"`
		Delta struct {
			Content          jsontext.Value `json:"content"`
			Reasoning        jsontext.Value `json:"reasoning"`
			ReasoningContent jsontext.Value `json:"reasoning_content"`
			ToolCalls        jsontext.Value `json:"tool_calls"`
		} `json:"delta"`
	} `json:"choices"`
	Delta    jsontext.Value `json:"delta"`
	Usage    *usage         `json:"usage"`
	Timings  *timings       `json:"timings"`
	Response *struct {
		Usage *usage `json:"usage"`
	} `json:"response"`
	Message *struct {
		Usage *usage `json:"usage"`
	} `json:"message"`
}

// filled says that a value is there and neither null nor empty.
func filled(v jsontext.Value) bool {
	switch string(v) {
	case "", "null", `""`, "[]", "{}":
		return false
	}
	return true
}

func (e *event) isError() bool {
	return filled(e.Error) || e.Type == "error" || e.Type == "response.failed"
}

// hasContent says that the event carries generated text, in whatever field: it may be an answer, a thought or a tool's arguments.
func (e *event) hasContent() bool {
	for _, c := range e.Choices {
		d := c.Delta
		if c.Text != "" || filled(d.Content) || filled(d.Reasoning) || filled(d.ReasoningContent) || filled(d.ToolCalls) {
			return true
		}
	}
	switch e.Type {
	case "content_block_delta":
		return true
	case "message_delta":
		return false
	}
	return len(e.Delta) > 0 && e.Delta.Kind() == '"' && filled(e.Delta)
}

func (e *event) anyUsage() *usage {
	switch {
	case e.Usage != nil:
		return e.Usage
	case e.Response != nil && e.Response.Usage != nil:
		return e.Response.Usage
	case e.Message != nil:
		return e.Message.Usage
	case e.Timings != nil:
		return e.Timings.usage()
	}
	return nil
}
