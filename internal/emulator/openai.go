package emulator

import (
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
)

// openAIRequest holds the fields that the OpenAI generation APIs share.
type openAIRequest struct {
	Model         string `json:"model"`
	N             *int   `json:"n"`
	MaxTokens     *int   `json:"max_tokens"`
	Stream        bool   `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	CacheSalt string `json:"cache_salt"`
}

// maxChoices bounds n, the answers to one prompt.
const maxChoices = 128

func (in openAIRequest) job(idPrefix string, prompts []prompt, limits ...*int) (job, error) {
	j := job{
		model: in.Model, salt: in.CacheSalt, prompts: prompts, stream: in.Stream,
		usage: in.StreamOptions.IncludeUsage, idPrefix: idPrefix,
	}
	if err := j.limit(limits...); err != nil {
		return j, err
	}
	if in.N != nil {
		j.choices = *in.N
	}
	if j.choices < 1 || j.choices > maxChoices {
		return j, badRequest("n", "n must be between 1 and 128.")
	}
	return j, nil
}

// message is one message of a chat, in the OpenAI and the Anthropic shape.
type message struct {
	Role      string         `json:"role"`
	Content   content        `json:"content"`
	ToolCalls jsontext.Value `json:"tool_calls"`
}

// chatPrompt renders messages as a chat template would: tools first, the header of the answer last.
func chatPrompt(tools jsontext.Value, messages []message) (prompt, error) {
	var p prompt
	if len(tools) > 0 && tools.Kind() != 'n' {
		p = p.addMessage("tools", string(tools))
	}
	for _, m := range messages {
		text, err := m.Content.text()
		if err != nil {
			return nil, invalid("body.messages", err.Error())
		}
		if len(m.ToolCalls) > 0 && m.ToolCalls.Kind() != 'n' {
			text += string(m.ToolCalls)
		}
		p = p.addMessage(m.Role, text)
	}
	return p.add("<|assistant|>\n"), nil
}

func parseChat(body jsontext.Value) (job, error) {
	var in struct {
		openAIRequest
		MaxCompletionTokens *int           `json:"max_completion_tokens"`
		Messages            []message      `json:"messages"`
		Tools               jsontext.Value `json:"tools"`
	}
	if err := unmarshal(body, &in); err != nil {
		return job{}, err
	}
	if len(in.Messages) == 0 {
		return job{}, missing("messages")
	}
	p, err := chatPrompt(in.Tools, in.Messages)
	if err != nil {
		return job{}, err
	}
	j, err := in.job("chatcmpl-", []prompt{p}, in.MaxCompletionTokens, in.MaxTokens)
	j.answerer = func(g *generation) answerer { return &chatAnswer{g: g, usage: j.usage} }
	return j, err
}

// render answers with the token ids of a chat's prompt, all that routers want of vLLM's answer: some ask for it to look for prefixes.
func (s *Server) render(w http.ResponseWriter, r *http.Request) {
	var j job
	body, err := readJSON(r)
	if err == nil {
		j, err = parseChat(body)
	}
	if err != nil {
		openAIError(w, asWireError(err))
		return
	}
	writeJSON(w, http.StatusOK, map[string][]uint32{"token_ids": j.prompts[0].ids()})
}

func parseCompletion(body jsontext.Value) (job, error) {
	var in struct {
		openAIRequest
		Prompt jsontext.Value `json:"prompt"`
	}
	if err := unmarshal(body, &in); err != nil {
		return job{}, err
	}
	if len(in.Prompt) == 0 {
		return job{}, errEmptyPrompt()
	}
	list, err := prompts(in.Prompt)
	if err != nil {
		return job{}, invalid("body.prompt", err.Error())
	}
	j, err := in.job("cmpl-", list, in.MaxTokens)
	j.answerer = func(g *generation) answerer { return &completionAnswer{g: g, usage: j.usage} }
	return j, err
}

// parseInvocation tells the APIs apart by the shape of the body.
func parseInvocation(body jsontext.Value) (job, error) {
	var shape map[string]jsontext.Value
	if err := unmarshal(body, &shape); err != nil {
		return job{}, err
	}
	switch {
	case shape["messages"] != nil:
		return parseChat(body)
	case shape["input"] != nil:
		return parseEmbedding(body)
	}
	return parseCompletion(body)
}

// openAIUsage is the usage object of the OpenAI chat and completion APIs.
type openAIUsage struct {
	PromptTokens     int           `json:"prompt_tokens"`
	TotalTokens      int           `json:"total_tokens"`
	CompletionTokens int           `json:"completion_tokens"`
	Details          promptDetails `json:"prompt_tokens_details"`
}

type promptDetails struct {
	CachedTokens  int `json:"cached_tokens"`
	CreatedTokens int `json:"created_cache_tokens"`
}

func (g *generation) openAIUsage() *openAIUsage {
	u := g.usage()
	return &openAIUsage{u.prompt, u.prompt + u.output, u.output, promptDetails{u.cached, u.created}}
}

// fingerprint names the engine build in answers.
const fingerprint = "vllm-0.32.0-emulated"

// envelope is what chat and completion answers and chunks have in common.
type envelope[C any] struct {
	ID          string       `json:"id"`
	Object      string       `json:"object"`
	Created     int64        `json:"created"`
	Model       string       `json:"model"`
	Choices     []C          `json:"choices"`
	Usage       *openAIUsage `json:"usage,omitempty"`
	Fingerprint string       `json:"system_fingerprint,omitempty"`
}

func enclose[C any](g *generation, object string, choices ...C) envelope[C] {
	return envelope[C]{ID: g.id, Object: object, Created: g.created.Unix(), Model: g.model, Choices: choices}
}

// closing appends the usage chunk, if asked for, and [DONE].
func closing[C any](b *events, g *generation, object string, usage bool) {
	if usage {
		chunk := enclose[C](g, object)
		chunk.Usage, chunk.Fingerprint = g.openAIUsage(), fingerprint
		b.data(chunk)
	}
	b.done()
}

// reason returns the finish reason of q's token number q.sent: nil for all but the last.
func (q *sequence) reason() *string {
	if q.sent == q.OutputTokens-1 {
		return &q.generation.finishReason
	}
	return nil
}

func (q *sequence) wholeText() string {
	return string(appendAnswer(nil, q.seed, q.OutputTokens))
}

type chatAnswer struct {
	g     *generation
	usage bool
}

type chatDelta struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content"`
}

type chatChunk struct {
	Index        int            `json:"index"`
	Delta        chatDelta      `json:"delta"`
	Logprobs     jsontext.Value `json:"logprobs"`
	FinishReason *string        `json:"finish_reason"`
}

const chatChunkObject = "chat.completion.chunk"

func (a *chatAnswer) token(b *events, q *sequence, text string) {
	if q.sent == 0 {
		b.data(enclose(a.g, chatChunkObject, chatChunk{Index: q.index, Delta: chatDelta{Role: "assistant"}}))
	}
	b.data(enclose(a.g, chatChunkObject, chatChunk{Index: q.index, Delta: chatDelta{Content: text}, FinishReason: q.reason()}))
}

func (a *chatAnswer) end(b *events) { closing[chatChunk](b, a.g, chatChunkObject, a.usage) }

func (a *chatAnswer) whole() any {
	type reply struct {
		Role    string  `json:"role"`
		Content string  `json:"content"`
		Refusal *string `json:"refusal"`
	}
	type choice struct {
		Index        int            `json:"index"`
		Message      reply          `json:"message"`
		Logprobs     jsontext.Value `json:"logprobs"`
		FinishReason string         `json:"finish_reason"`
		StopReason   *string        `json:"stop_reason"`
	}
	body := enclose[choice](a.g, "chat.completion")
	for _, q := range a.g.sequences {
		body.Choices = append(body.Choices, choice{
			Index: q.index, Message: reply{Role: "assistant", Content: q.wholeText()}, FinishReason: a.g.finishReason,
		})
	}
	body.Usage, body.Fingerprint = a.g.openAIUsage(), fingerprint
	return body
}

type completionAnswer struct {
	g     *generation
	usage bool
}

type completionChoice struct {
	Index        int            `json:"index"`
	Text         string         `json:"text"`
	Logprobs     jsontext.Value `json:"logprobs"`
	FinishReason *string        `json:"finish_reason"`
	StopReason   *string        `json:"stop_reason"`
}

const completionObject = "text_completion"

func (a *completionAnswer) token(b *events, q *sequence, text string) {
	b.data(enclose(a.g, completionObject, completionChoice{Index: q.index, Text: text, FinishReason: q.reason()}))
}

func (a *completionAnswer) end(b *events) {
	closing[completionChoice](b, a.g, completionObject, a.usage)
}

func (a *completionAnswer) whole() any {
	body := enclose[completionChoice](a.g, completionObject)
	for _, q := range a.g.sequences {
		body.Choices = append(body.Choices, completionChoice{Index: q.index, Text: q.wholeText(), FinishReason: &a.g.finishReason})
	}
	body.Usage, body.Fingerprint = a.g.openAIUsage(), fingerprint
	return body
}
