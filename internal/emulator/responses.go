package emulator

import "github.com/go-json-experiment/json/jsontext"

func parseResponse(body jsontext.Value) (job, error) {
	var in struct {
		Model           string         `json:"model"`
		Input           jsontext.Value `json:"input"`
		Instructions    string         `json:"instructions"`
		Tools           jsontext.Value `json:"tools"`
		MaxOutputTokens *int           `json:"max_output_tokens"`
		Stream          bool           `json:"stream"`
		CacheSalt       string         `json:"cache_salt"`
	}
	if err := unmarshal(body, &in); err != nil {
		return job{}, err
	}
	messages, err := inputMessages(in.Input)
	if err != nil {
		return job{}, err
	}
	if in.Instructions != "" {
		system := message{Role: "system", Content: quoted(in.Instructions)}
		messages = append([]message{system}, messages...)
	}
	p, err := chatPrompt(in.Tools, messages)
	if err != nil {
		return job{}, err
	}
	j := job{model: in.Model, salt: in.CacheSalt, prompts: []prompt{p}, stream: in.Stream, idPrefix: "resp_"}
	j.answerer = func(g *generation) answerer { return &responseAnswer{g: g} }
	return j, j.limit(in.MaxOutputTokens)
}

// inputMessages reads the input of the Responses API: text, or a list of items of which some are messages.
func inputMessages(input jsontext.Value) ([]message, error) {
	switch input.Kind() {
	case '"':
		return []message{{Role: "user", Content: content(input)}}, nil
	case '[':
		return itemMessages(input)
	}
	return nil, missing("input")
}

func itemMessages(input jsontext.Value) ([]message, error) {
	var items []jsontext.Value
	if err := unmarshal(input, &items); err != nil {
		return nil, err
	}
	messages := make([]message, len(items))
	for i, item := range items {
		if err := unmarshal(item, &messages[i]); err != nil {
			return nil, err
		}
		if messages[i].Role == "" { // a tool call or its output, and whatever comes
			messages[i] = message{Role: "item", Content: quoted(string(item))}
		}
	}
	return messages, nil
}

func quoted(text string) content {
	raw, _ := jsontext.AppendQuote(nil, text) // the error is invalid UTF-8, which it has replaced
	return content(raw)
}

// responseAnswer speaks the Responses API, whose stream repeats the answer at every level when it ends.
type responseAnswer struct {
	g        *generation
	sequence int
}

type outputText struct {
	Annotations []string       `json:"annotations"`
	Text        string         `json:"text"`
	Type        string         `json:"type"`
	Logprobs    jsontext.Value `json:"logprobs"`
}

type outputItem struct {
	ID      string       `json:"id"`
	Content []outputText `json:"content"`
	Role    string       `json:"role"`
	Status  string       `json:"status"`
	Type    string       `json:"type"`
}

type responseUsage struct {
	InputTokens  int `json:"input_tokens"`
	InputDetails struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens  int `json:"output_tokens"`
	OutputDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int `json:"total_tokens"`
}

type incomplete struct {
	Reason string `json:"reason"`
}

type responseBody struct {
	ID         string         `json:"id"`
	CreatedAt  int64          `json:"created_at"`
	Incomplete *incomplete    `json:"incomplete_details"`
	Model      string         `json:"model"`
	Object     string         `json:"object"`
	Output     []outputItem   `json:"output"`
	Parallel   bool           `json:"parallel_tool_calls"`
	ToolChoice string         `json:"tool_choice"`
	Tools      []string       `json:"tools"`
	Status     string         `json:"status"`
	Usage      *responseUsage `json:"usage"`
}

// responseEvent is any event of the stream; a field is left out where the event has none.
type responseEvent struct {
	ContentIndex *int          `json:"content_index,omitempty"`
	Delta        *string       `json:"delta,omitempty"`
	Item         *outputItem   `json:"item,omitempty"`
	ItemID       string        `json:"item_id,omitempty"`
	OutputIndex  *int          `json:"output_index,omitempty"`
	Part         *outputText   `json:"part,omitempty"`
	Response     *responseBody `json:"response,omitempty"`
	Text         *string       `json:"text,omitempty"`
	Sequence     int           `json:"sequence_number"`
	Type         string        `json:"type"`
}

// emit appends one event. Events below the response say which item, and those below the item which part, they concern.
func (a *responseAnswer) emit(b *events, kind string, e responseEvent) {
	zero := 0
	if e.Response == nil {
		e.OutputIndex = &zero
		if e.Item == nil {
			e.ContentIndex, e.ItemID = &zero, a.itemID()
		}
	}
	e.Type, e.Sequence = kind, a.sequence
	a.sequence++
	b.named(kind, e)
}

func (a *responseAnswer) itemID() string { return "msg_" + a.g.id }

func (a *responseAnswer) item(status string, parts ...outputText) *outputItem {
	return &outputItem{ID: a.itemID(), Content: parts, Role: "assistant", Status: status, Type: "message"}
}

func part(text string) *outputText {
	return &outputText{Text: text, Type: "output_text"}
}

func (a *responseAnswer) begun() *responseBody {
	return &responseBody{
		ID: a.g.id, CreatedAt: a.g.created.Unix(), Model: a.g.model, Object: "response", Status: "in_progress",
		Parallel: true, ToolChoice: "none",
	}
}

func (a *responseAnswer) ended() *responseBody {
	body := a.begun()
	body.Status = "completed"
	if a.g.finishReason == "length" {
		body.Status, body.Incomplete = "incomplete", &incomplete{"max_output_tokens"}
	}
	body.Output = []outputItem{*a.item("completed", *part(a.g.sequences[0].wholeText()))}
	u := a.g.usage()
	usage := &responseUsage{InputTokens: u.prompt, OutputTokens: u.output, TotalTokens: u.prompt + u.output}
	usage.InputDetails.CachedTokens = u.cached
	body.Usage = usage
	return body
}

func (a *responseAnswer) token(b *events, q *sequence, text string) {
	if q.sent == 0 {
		a.emit(b, "response.created", responseEvent{Response: a.begun()})
		a.emit(b, "response.in_progress", responseEvent{Response: a.begun()})
		a.emit(b, "response.output_item.added", responseEvent{Item: a.item("in_progress")})
		a.emit(b, "response.content_part.added", responseEvent{Part: part("")})
	}
	a.emit(b, "response.output_text.delta", responseEvent{Delta: &text})
}

func (a *responseAnswer) end(b *events) {
	text := a.g.sequences[0].wholeText()
	a.emit(b, "response.output_text.done", responseEvent{Text: &text})
	a.emit(b, "response.content_part.done", responseEvent{Part: part(text)})
	a.emit(b, "response.output_item.done", responseEvent{Item: a.item("completed", *part(text))})
	a.emit(b, "response.completed", responseEvent{Response: a.ended()})
}

func (a *responseAnswer) whole() any { return a.ended() }
