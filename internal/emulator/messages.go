package emulator

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
)

type messagesRequest struct {
	Model     string         `json:"model"`
	System    content        `json:"system"`
	Messages  []message      `json:"messages"`
	Tools     jsontext.Value `json:"tools"`
	MaxTokens *int           `json:"max_tokens"`
	Stream    bool           `json:"stream"`
	CacheSalt string         `json:"cache_salt"`
}

// prompt renders an Anthropic request; its system text leads as a message of its own.
func (in *messagesRequest) prompt() (prompt, error) {
	if len(in.Messages) == 0 {
		return nil, missing("messages")
	}
	messages := in.Messages
	if len(in.System) > 0 {
		messages = append([]message{{Role: "system", Content: in.System}}, messages...)
	}
	return chatPrompt(in.Tools, messages)
}

func parseMessages(body jsontext.Value) (job, error) {
	var in messagesRequest
	if err := unmarshal(body, &in); err != nil {
		return job{}, err
	}
	if in.MaxTokens == nil {
		return job{}, missing("max_tokens")
	}
	p, err := in.prompt()
	if err != nil {
		return job{}, err
	}
	j := job{model: in.Model, salt: in.CacheSalt, prompts: []prompt{p}, stream: in.Stream, idPrefix: "chatcmpl-"}
	j.answerer = func(g *generation) answerer { return &messagesAnswer{g} }
	return j, j.limit(in.MaxTokens)
}

func (s *Server) countTokens(w http.ResponseWriter, r *http.Request) {
	var in messagesRequest
	body, err := readJSON(r)
	if err == nil {
		err = unmarshal(body, &in)
	}
	var p prompt
	if err == nil {
		p, err = in.prompt()
	}
	if err != nil {
		messagesError(w, asWireError(err))
		return
	}
	writeJSON(w, http.StatusOK, map[string]int{"input_tokens": p.tokens()})
}

// messagesAnswer speaks the Anthropic Messages API.
type messagesAnswer struct{ g *generation }

// messagesUsage leaves the cache's part out until it is known.
type messagesUsage struct {
	InputTokens   int  `json:"input_tokens"`
	OutputTokens  int  `json:"output_tokens"`
	CacheCreation *int `json:"cache_creation_input_tokens,omitempty"`
	CacheRead     *int `json:"cache_read_input_tokens,omitempty"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type messagesBody struct {
	ID           string        `json:"id"`
	Type         string        `json:"type"`
	Role         string        `json:"role"`
	Content      []textBlock   `json:"content"`
	Model        string        `json:"model"`
	StopReason   *string       `json:"stop_reason"`
	StopSequence *string       `json:"stop_sequence"`
	Usage        messagesUsage `json:"usage"`
}

// messagesEvent is any event of the stream; a field is left out where the event has none.
type messagesEvent struct {
	Type         string         `json:"type"`
	Message      *messagesBody  `json:"message,omitempty"`
	ContentBlock *textBlock     `json:"content_block,omitempty"`
	Delta        any            `json:"delta,omitempty"`
	Index        *int           `json:"index,omitempty"`
	Usage        *messagesUsage `json:"usage,omitempty"`
}

func (a *messagesAnswer) body() *messagesBody {
	return &messagesBody{ID: a.g.id, Type: "message", Role: "assistant", Model: a.g.model}
}

// usage counts the cached tokens within input_tokens, as vLLM does and Anthropic does not.
func (a *messagesAnswer) usage() messagesUsage {
	u := a.g.usage()
	return messagesUsage{InputTokens: u.prompt, OutputTokens: u.output, CacheCreation: &u.created, CacheRead: &u.cached}
}

func (a *messagesAnswer) stopReason() string {
	if a.g.finishReason == "length" {
		return "max_tokens"
	}
	return "end_turn"
}

func emitMessages(b *events, e messagesEvent) { b.named(e.Type, e) }

func (a *messagesAnswer) token(b *events, q *sequence, text string) {
	index := 0
	if q.sent == 0 {
		body := a.body()
		body.Usage.InputTokens = q.PromptTokens
		emitMessages(b, messagesEvent{Type: "message_start", Message: body})
		emitMessages(b, messagesEvent{Type: "content_block_start", ContentBlock: &textBlock{Type: "text"}, Index: &index})
	}
	emitMessages(b, messagesEvent{Type: "content_block_delta", Delta: textBlock{"text_delta", text}, Index: &index})
}

func (a *messagesAnswer) end(b *events) {
	index, usage := 0, a.usage()
	emitMessages(b, messagesEvent{Type: "content_block_stop", Index: &index})
	type stop struct {
		StopReason   string  `json:"stop_reason"`
		StopSequence *string `json:"stop_sequence"`
	}
	emitMessages(b, messagesEvent{Type: "message_delta", Delta: stop{StopReason: a.stopReason()}, Usage: &usage})
	emitMessages(b, messagesEvent{Type: "message_stop"})
}

func (a *messagesAnswer) whole() any {
	body, reason := a.body(), a.stopReason()
	body.Content = []textBlock{{"text", a.g.sequences[0].wholeText()}}
	body.StopReason, body.Usage = &reason, a.usage()
	return body
}
