package bench

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxLine bounds one line of an event stream, and maxAnswer an answer that is not streamed, in bytes.
const (
	maxLine   = 16 << 20
	maxAnswer = 256 << 20
)

// lenient reads what engines write, which is not always what the standard asks for.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// answer is what an OpenAI-style answer said, and when.
type answer struct {
	first time.Time       // the first generated content; zero if there was none
	last  time.Time       // the latest one
	gaps  []time.Duration // between one piece of content and the next
	usage *usage          // nil if not reported
	done  bool            // a stream has said that it is at its end
}

// part is an event of a streamed answer, or a whole one, in the words of the three APIs: chat and completions have choices, messages
// and responses have types.
type part struct {
	Choices []struct {
		Text    string  `json:"text"` // completions
		Delta   content `json:"delta"`
		Message content `json:"message"`
	} `json:"choices"`
	Object   string         `json:"object"`
	Type     string         `json:"type"`
	Delta    jsontext.Value `json:"delta"`    // of typed events
	Content  jsontext.Value `json:"content"`  // of a whole message
	Output   jsontext.Value `json:"output"`   // of a whole response
	Message  jsontext.Value `json:"message"`  // in a typed event; a text in some errors
	Response jsontext.Value `json:"response"` // in a typed event
	Usage    *usage         `json:"usage"`
	Error    jsontext.Value `json:"error"`
}

// The types of events that say something, and those that end a stream.
var (
	sayingTypes = []string{
		"content_block_delta", // messages: text, thoughts, and arguments of calls
		"response.output_text.delta", "response.reasoning_text.delta", "response.reasoning_summary_text.delta",
		"response.refusal.delta", "response.function_call_arguments.delta",
	}
	endTypes   = []string{"message_stop", "response.completed", "response.incomplete"}
	errorTypes = []string{"error", "response.failed"}
)

func (p *part) ends() bool { return slices.Contains(endTypes, p.Type) }

// fails says that the engine reports an error.
func (p *part) fails() bool {
	return !none(p.Error) || p.Object == "error" || slices.Contains(errorTypes, p.Type)
}

// usages are those that the part carries, itself or in its message or response.
func (p *part) usages() []*usage {
	all := []*usage{p.Usage}
	for _, v := range []jsontext.Value{p.Message, p.Response} {
		var carrier struct {
			Usage *usage `json:"usage"`
		}
		if v.Kind() == '{' && json.Unmarshal(v, &carrier, lenient) == nil {
			all = append(all, carrier.Usage)
		}
	}
	return all
}

// content is what a model can say: words, thoughts under either of their names, calls.
type content struct {
	Content          string         `json:"content"`
	ReasoningContent string         `json:"reasoning_content"`
	Reasoning        string         `json:"reasoning"`
	ToolCalls        jsontext.Value `json:"tool_calls"`
}

func (c *content) empty() bool {
	return c.Content == "" && c.ReasoningContent == "" && c.Reasoning == "" && none(c.ToolCalls)
}

// none says that a value is absent, null, or an empty list or text.
func none(v jsontext.Value) bool {
	return len(v) == 0 || v.Kind() == 'n' || v.Kind() == '[' && len(bytes.Trim(v, "[] \t\r\n")) == 0 || v.Kind() == '"' && len(v) == 2
}

func (p *part) hasContent() bool {
	for i := range p.Choices {
		if c := &p.Choices[i]; c.Text != "" || !c.Delta.empty() || !c.Message.empty() {
			return true
		}
	}
	if p.Type == "message" || p.Type == "" { // a whole answer of messages or responses
		return !none(p.Content) || !none(p.Output)
	}
	return slices.Contains(sayingTypes, p.Type) && !none(p.Delta)
}

// readStream reads server-sent events up to the last one, [DONE] or one of endTypes, and then to the end of the body. It returns the
// kind of failure, or "".
func (a *answer) readStream(body io.Reader) (failure string) {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 4<<10), maxLine)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue
		}
		switch data = bytes.TrimSpace(data); {
		case bytes.Equal(data, []byte("[DONE]")):
			a.done = true
		case len(data) > 0 && failure == "": // after a failure only the end is awaited
			failure = a.take(data)
		}
	}
	switch {
	case failure != "":
		return failure
	case errors.Is(lines.Err(), bufio.ErrTooLong):
		return failedUnreadable
	case lines.Err() != nil || !a.done:
		return failedBroken
	}
	return ""
}

// readWhole reads an answer that is one JSON object. Its first token is known when all of it is.
func (a *answer) readWhole(body io.Reader) (failure string) {
	data, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	switch {
	case err != nil:
		return failedBroken
	case len(data) > maxAnswer:
		return failedUnreadable
	}
	return a.take(data)
}

// take notes what one part says and that it came now.
func (a *answer) take(data []byte) (failure string) {
	var p part
	if err := json.Unmarshal(data, &p, lenient); err != nil {
		return failedUnreadable
	}
	if p.fails() {
		return failedErrorEvent
	}
	for _, u := range p.usages() {
		a.count(u)
	}
	a.done = a.done || p.ends()
	if p.hasContent() {
		a.heard(time.Now())
	}
	return ""
}

func (a *answer) count(u *usage) {
	switch {
	case u == nil:
	case a.usage == nil:
		a.usage = u
	default:
		a.usage.take(u)
	}
}

func (a *answer) heard(now time.Time) {
	if a.first.IsZero() {
		a.first = now
	} else {
		a.gaps = append(a.gaps, now.Sub(a.last))
	}
	a.last = now
}
