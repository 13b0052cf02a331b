package bench

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxLine bounds one line of an event stream, and maxAnswer an answer that is not streamed, in bytes.
const (
	maxLine   = 16 << 20
	maxAnswer = 256 << 20
)

// answer is what an OpenAI-style answer said, and when.
type answer struct {
	first time.Time       // the first generated content; zero if there was none
	last  time.Time       // the latest one
	gaps  []time.Duration // between one piece of content and the next
	usage *usage          // nil if not reported
}

// usage is the part of the OpenAI usage object that is counted, in tokens.
type usage struct {
	Prompt  int `json:"prompt_tokens"`
	Output  int `json:"completion_tokens"`
	Details *struct {
		Cached *int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// cached reports false if the engine says nothing of its cache.
func (u *usage) cached() (tokens int, reported bool) {
	if u == nil || u.Details == nil || u.Details.Cached == nil {
		return 0, false
	}
	return *u.Details.Cached, true
}

// part is a chunk of a streamed answer, or a whole one.
type part struct {
	Choices []struct {
		Text    string  `json:"text"` // completions
		Delta   content `json:"delta"`
		Message content `json:"message"`
	} `json:"choices"`
	Usage *usage         `json:"usage"`
	Error jsontext.Value `json:"error"`
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

// none says that a value is absent, null or an empty list.
func none(v jsontext.Value) bool {
	return len(v) == 0 || v.Kind() == 'n' || v.Kind() == '[' && len(bytes.Trim(v, "[] \t\r\n")) == 0
}

func (p *part) hasContent() bool {
	for i := range p.Choices {
		if c := &p.Choices[i]; c.Text != "" || !c.Delta.empty() || !c.Message.empty() {
			return true
		}
	}
	return false
}

// readStream reads server-sent events up to [DONE] and then to the end of the body. It returns the kind of failure, or "".
func (a *answer) readStream(body io.Reader) (failure string) {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 4<<10), maxLine)
	done := false
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue
		}
		switch data = bytes.TrimSpace(data); {
		case bytes.Equal(data, []byte("[DONE]")):
			done = true
		case len(data) > 0 && failure == "": // after a failure only the end is awaited
			failure = a.take(data)
		}
	}
	switch {
	case failure != "":
		return failure
	case errors.Is(lines.Err(), bufio.ErrTooLong):
		return failedUnreadable
	case lines.Err() != nil || !done:
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
	if err := json.Unmarshal(data, &p, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return failedUnreadable
	}
	if !none(p.Error) {
		return failedErrorEvent
	}
	if p.Usage != nil {
		a.usage = p.Usage
	}
	if p.hasContent() {
		a.heard(time.Now())
	}
	return ""
}

func (a *answer) heard(now time.Time) {
	if a.first.IsZero() {
		a.first = now
	} else {
		a.gaps = append(a.gaps, now.Sub(a.last))
	}
	a.last = now
}
