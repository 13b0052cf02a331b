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
	CacheReadInputTokens int64         `json:"cache_read_input_tokens"`
}

type cachedTokens struct {
	CachedTokens int64 `json:"cached_tokens"`
}

// scanUsage reads the counts from a usage object with whatever follows it. It looks for names and numbers only: every plain answer
// has one, and a JSON decoder costs as much as all the rest that is done to it.
func scanUsage(object []byte) *usage {
	cached := cachedTokens{member(object, `"cached_tokens"`)}
	return &usage{
		PromptTokens:         member(object, `"prompt_tokens"`),
		CompletionTokens:     member(object, `"completion_tokens"`),
		PromptTokensDetails:  &cached,
		InputTokens:          member(object, `"input_tokens"`),
		OutputTokens:         member(object, `"output_tokens"`),
		CacheReadInputTokens: member(object, `"cache_read_input_tokens"`),
	}
}

// member is the first whole number that stands after a quoted name and a colon; 0 if there is none.
func member(object []byte, name string) (n int64) {
	i := bytes.Index(object, []byte(name))
	if i < 0 {
		return 0
	}
	rest, colon := bytes.CutPrefix(bytes.TrimLeft(object[i+len(name):], " \t\r\n"), []byte(":"))
	if !colon {
		return 0
	}
	for _, c := range bytes.TrimLeft(rest, " \t\r\n") {
		if c < '0' || c > '9' || n > math.MaxInt32 {
			break
		}
		n = 10*n + int64(c-'0')
	}
	return n
}

// take adds what a later report knows: the Messages API tells the input at a stream's start and the output at its end.
func (u *usage) take(later *usage) {
	for _, f := range [...]struct{ to, from *int64 }{
		{&u.PromptTokens, &later.PromptTokens}, {&u.CompletionTokens, &later.CompletionTokens},
		{&u.InputTokens, &later.InputTokens}, {&u.OutputTokens, &later.OutputTokens},
		{&u.CacheReadInputTokens, &later.CacheReadInputTokens},
	} {
		if *f.from != 0 {
			*f.to = *f.from
		}
	}
	u.PromptTokensDetails = cmp.Or(later.PromptTokensDetails, u.PromptTokensDetails)
	u.InputTokensDetails = cmp.Or(later.InputTokensDetails, u.InputTokensDetails)
}

func (u *usage) prompt() int64 { return max(u.PromptTokens, u.InputTokens, 0) }

func (u *usage) output() int64 { return max(u.CompletionTokens, u.OutputTokens, 0) }

func (u *usage) cached() int64 {
	n := max(u.CacheReadInputTokens, 0)
	for _, d := range [...]*cachedTokens{u.PromptTokensDetails, u.InputTokensDetails} {
		if d != nil {
			n = max(n, d.CachedTokens)
		}
	}
	return n
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
	}
	return nil
}
