package workload

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/warmpath/warmpath/internal/prompt"
)

// maxTokens bounds the length of a prompt or an answer, in tokens. It is far above what any engine takes.
const maxTokens = 1 << 24

// row is what one line of a trace says.
type row struct {
	request   Request
	timestamp *float64      // nil if the row has none
	unit      time.Duration // of timestamp
}

// parser reads one row. It must not keep raw.
type parser func(raw []byte, line int) (row, error)

// recognise chooses the parser that the members of the first row ask for.
func recognise(raw []byte, o TraceOptions) (parser, error) {
	var members map[string]jsontext.Value
	if err := decode(raw, &members); err != nil {
		return nil, err
	}
	has := func(name string) bool { _, ok := members[name]; return ok }
	switch {
	case has("hash_ids") && has("parent_chat_id"):
		return bailian.with(o.BlockTokens).parse, nil
	case has("hash_ids"):
		return mooncake.with(o.BlockTokens).parse, nil
	case has("body"):
		return parseRecorded, nil
	case has("input") && (has("output") || has("session_id")):
		return parseText, nil
	case has("messages"), has("prompt"), has("input"):
		return parseBody, nil
	}
	return nil, errors.New("not a row of a known kind of trace; it needs hash_ids, body, messages, prompt, or input with output")
}

// decode reads a row and words its errors for people who have the file before them.
func decode(raw []byte, into any) error {
	err := json.Unmarshal(raw, into, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var wrong *json.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &wrong) && wrong.JSONPointer != "":
		return fmt.Errorf("%s: a JSON %s is not expected here, or out of range", strings.TrimPrefix(string(wrong.JSONPointer), "/"), kind(wrong.JSONKind))
	case errors.As(err, &wrong):
		return fmt.Errorf("a JSON %s, not an object", kind(wrong.JSONKind))
	}
	return fmt.Errorf("not valid JSON: %w", err)
}

// kind is the word for a kind of JSON value.
func kind(k jsontext.Kind) string {
	switch k {
	case '{':
		return "object"
	case '[':
		return "array"
	}
	return k.String()
}

// blocksRow is a row of a trace without text.
type blocksRow struct {
	Timestamp    *float64       `json:"timestamp"`
	InputLength  int            `json:"input_length"`
	OutputLength int            `json:"output_length"`
	HashIDs      []uint64       `json:"hash_ids"`
	Session      jsontext.Value `json:"session"`
	SessionID    jsontext.Value `json:"session_id"`
}

// blockFormat is what the rows of a trace without text do not say themselves.
type blockFormat struct {
	unit        time.Duration // of timestamp
	blockTokens int
}

var (
	mooncake = blockFormat{time.Millisecond, 512}
	bailian  = blockFormat{time.Second, 16}
)

// with sets the block size, unless it is 0.
func (f blockFormat) with(blockTokens int) blockFormat {
	if blockTokens != 0 {
		f.blockTokens = blockTokens
	}
	return f
}

func (f blockFormat) parse(raw []byte, line int) (row, error) {
	var in blocksRow
	if err := decode(raw, &in); err != nil {
		return row{}, err
	}
	if in.InputLength < 1 || in.InputLength > maxTokens {
		return row{}, fmt.Errorf("input_length: %d is out of range; use 1 to %d tokens", in.InputLength, maxTokens)
	}
	if err := checkOutput(in.OutputLength); err != nil {
		return row{}, err
	}
	whole := in.InputLength / f.blockTokens
	switch rest := in.InputLength % f.blockTokens; {
	case len(in.HashIDs) == whole && rest > 0:
		// Only whole blocks have ids in this trace. What follows them is nobody else's.
		in.HashIDs = append(in.HashIDs, ownID(line))
	case len(in.HashIDs) != (in.InputLength+f.blockTokens-1)/f.blockTokens:
		return row{}, misfit(in.InputLength, len(in.HashIDs), f.blockTokens)
	}
	return row{
		request: Request{
			Group: firstText(in.Session, in.SessionID), Path: completionPath,
			Blocks: in.HashIDs, BlockTokens: f.blockTokens,
			PromptTokens: in.InputLength, OutputTokens: max(1, in.OutputLength),
		},
		timestamp: in.Timestamp, unit: f.unit,
	}, nil
}

func checkOutput(tokens int) error {
	if tokens < 0 || tokens > maxTokens {
		return fmt.Errorf("output_length: %d is out of range; use 0 to %d tokens", tokens, maxTokens)
	}
	return nil
}

// ownID is an id that no other line has, and hardly a block of the trace.
func ownID(line int) uint64 { return mix(math.MaxUint64 - uint64(line)) }

// misfit names the block size that the row would fit, if a power of two does.
func misfit(tokens, ids, blockTokens int) error {
	for size := minBlockTokens; size <= maxBlockTokens && ids > 0; size *= 2 {
		if whole := tokens / size; whole == ids || (tokens+size-1)/size == ids {
			return fmt.Errorf("hash_ids: %d ids for %d tokens are not blocks of %d; they could be blocks of %d", ids, tokens, blockTokens, size)
		}
	}
	return fmt.Errorf("hash_ids: %d ids for %d tokens are not blocks of %d", ids, tokens, blockTokens)
}

// firstText gives the first of some values that is there, a string without its quotes.
func firstText(values ...jsontext.Value) string {
	for _, v := range values {
		if len(v) == 0 || v.Kind() == 'n' {
			continue
		}
		var s string
		if v.Kind() == '"' && decode(v, &s) == nil {
			return s
		}
		return string(v)
	}
	return ""
}

// recordedRow is a request body and what was noted beside it.
type recordedRow struct {
	Timestamp    *float64       `json:"timestamp"`
	Path         string         `json:"path"`
	Body         jsontext.Value `json:"body"`
	OutputLength int            `json:"output_length"`
	Group        jsontext.Value `json:"group"`
	Session      jsontext.Value `json:"session"`
	SessionID    jsontext.Value `json:"session_id"`
}

func parseRecorded(raw []byte, line int) (row, error) {
	var in recordedRow
	if err := decode(raw, &in); err != nil {
		return row{}, err
	}
	if err := checkOutput(in.OutputLength); err != nil {
		return row{}, err
	}
	if in.Path != "" && in.Path[0] != '/' {
		return row{}, errors.New("path: does not begin with /; write one such as /v1/chat/completions")
	}
	if len(in.Body) == 0 {
		return row{}, errors.New("body: is missing")
	}
	r, err := parseBody(in.Body, line)
	if err != nil {
		return row{}, fmt.Errorf("body: %w", err)
	}
	r.timestamp, r.unit = in.Timestamp, time.Millisecond
	r.request.Group = firstText(in.Group, in.Session, in.SessionID)
	if in.Path != "" {
		r.request.Path = in.Path
		r.request.PromptTokens = textTokens(r.request.Body, shapeOf(in.Path))
	}
	if in.OutputLength > 0 {
		r.request.OutputTokens = in.OutputLength
	}
	return r, nil
}

// bodyMembers are the members of a body that tell its API and how long the answer may be.
type bodyMembers struct {
	MaxTokens           *int           `json:"max_tokens"`
	MaxCompletionTokens *int           `json:"max_completion_tokens"`
	MaxOutputTokens     *int           `json:"max_output_tokens"`
	Messages            jsontext.Value `json:"messages"`
	Prompt              jsontext.Value `json:"prompt"`
	Input               jsontext.Value `json:"input"`
	System              jsontext.Value `json:"system"`
	StopSequences       jsontext.Value `json:"stop_sequences"`
	Dimensions          jsontext.Value `json:"dimensions"`
	EncodingFormat      jsontext.Value `json:"encoding_format"`
}

func parseBody(raw []byte, _ int) (row, error) {
	var in bodyMembers
	if err := decode(raw, &in); err != nil {
		return row{}, err
	}
	path := in.path()
	if path == "" {
		return row{}, errors.New("not a request; it needs messages, prompt or input")
	}
	r := Request{Path: path, Body: bytes.Clone(raw), PromptTokens: textTokens(raw, shapeOf(path))}
	for _, limit := range []*int{in.MaxCompletionTokens, in.MaxTokens, in.MaxOutputTokens} {
		if limit != nil && r.OutputTokens == 0 {
			r.OutputTokens = max(0, *limit)
		}
	}
	return row{request: r, unit: time.Millisecond}, nil
}

// path guesses the API: only Anthropic's messages have system or stop_sequences, only embeddings dimensions or a format.
func (in *bodyMembers) path() string {
	switch {
	case in.Messages != nil && (in.System != nil || in.StopSequences != nil):
		return "/v1/messages"
	case in.Messages != nil:
		return chatPath
	case in.Prompt != nil:
		return completionPath
	case in.Input != nil && (in.Dimensions != nil || in.EncodingFormat != nil):
		return "/v1/embeddings"
	case in.Input != nil:
		return "/v1/responses"
	}
	return ""
}

func shapeOf(path string) prompt.Shape {
	path, _, _ = strings.Cut(path, "?")
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return prompt.ShapeChat
	case strings.HasSuffix(path, "/completions"):
		return prompt.ShapeCompletion
	case strings.HasSuffix(path, "/responses"):
		return prompt.ShapeResponses
	case strings.HasSuffix(path, "/messages"):
		return prompt.ShapeAnthropic
	}
	return prompt.ShapeNone
}

// textTokens is the length of a body's text, or of all of it where nobody knows which part is text, at four characters a token.
func textTokens(body []byte, shape prompt.Shape) int {
	characters := len(body)
	if shape != prompt.ShapeNone {
		b, _ := prompt.Scan(body, shape) // of what is not JSON, no character is text
		_, characters, _ = b.TextKey(math.MaxInt, "")
	}
	return max(1, (characters+tokenBytes-1)/tokenBytes)
}

// textRow is a row of an agent trace: prompt and answer as plain text.
type textRow struct {
	Timestamp *float64       `json:"timestamp"`
	Input     string         `json:"input"`
	Output    string         `json:"output"`
	SessionID jsontext.Value `json:"session_id"`
}

func parseText(raw []byte, _ int) (row, error) {
	var in textRow
	if err := decode(raw, &in); err != nil {
		return row{}, err
	}
	if in.Input == "" {
		in.Input = "\n" // such rows are recorded, but engines refuse a prompt without text
	}
	outputTokens := max(1, tokensOf(in.Output))
	return row{
		request: Request{
			Group: firstText(in.SessionID), Path: completionPath, Body: completionBody(in.Input, outputTokens),
			PromptTokens: tokensOf(in.Input), OutputTokens: outputTokens,
		},
		timestamp: in.Timestamp, unit: time.Microsecond,
	}, nil
}

// tokensOf is the length of a text at four characters a token.
func tokensOf(text string) int { return (utf8.RuneCountInString(text) + tokenBytes - 1) / tokenBytes }
