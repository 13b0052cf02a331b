package clients

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// outcome is what came of a call, as its client says.
type outcome struct {
	Answer any `json:"answer,omitempty"`
	Error  any `json:"error,omitempty"`
}

// volatile are the fields whose values differ between two answers to one request: ids, times, and what an engine's cache held. That
// they are there, or not, must be the same.
var volatile = map[string]bool{
	"id": true, "created": true, "request_id": true, "_request_id": true, "tool_call_id": true,
	"timings":       true,
	"cached_tokens": true, "cache_read_input_tokens": true, "cache_read": true,
}

// settled is a value without what is volatile. Bodies that a client did not read are read here.
func settled(value any) any {
	switch v := value.(type) {
	case []any:
		all := make([]any, len(v))
		for i, element := range v {
			all[i] = settled(element)
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(v))
		for name, field := range v {
			all[name] = settledField(name, field, v)
		}
		return all
	}
	return value
}

func settledField(name string, field any, of map[string]any) any {
	text, isText := field.(string)
	cached, hasCached := of["cache_read_input_tokens"].(float64)
	tokens, isNumber := field.(float64)
	switch {
	case field == nil:
		return nil
	case volatile[name]:
		return "*"
	case name == "input_tokens" && hasCached && isNumber:
		return tokens + cached // llama.cpp counts the cached ones apart on this API
	case name == "body" && isText:
		return settled(read(text))
	}
	return settled(field)
}

// read takes a body for JSON, or for a stream of events: a list of their lines, with the JSON in them read.
func read(body string) any {
	var value any
	if json.Unmarshal([]byte(body), &value) == nil {
		return value
	}
	var lines []any
	for line := range strings.SplitSeq(body, "\n") {
		data, isData := strings.CutPrefix(line, "data: ")
		var event any
		if isData && json.Unmarshal([]byte(data), &event) == nil {
			lines = append(lines, event)
			continue
		}
		lines = append(lines, line)
	}
	return lines
}

// judge says what is wrong with an outcome by way of Warmpath, beside the engine's own. Both being wrong is wrong too.
func (c call) judge(direct, by outcome) error {
	text, err := json.Marshal(direct)
	if err != nil {
		return err
	}
	if c.fails != (direct.Error != nil) || !containsAny(string(text), c.want) {
		return fmt.Errorf("the engine itself did not answer with %q: %.600s", c.want, text)
	}
	want, got := outcome{settled(direct.Answer), settled(direct.Error)}, outcome{settled(by.Answer), settled(by.Error)}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("differs (-engine +Warmpath):\n%s", diff)
	}
	return nil
}

// containsAny says that text has one of the alternatives, which are separated by |.
func containsAny(text, alternatives string) bool {
	for alternative := range strings.SplitSeq(alternatives, "|") {
		if strings.Contains(text, alternative) {
			return true
		}
	}
	return false
}

func TestJudge(t *testing.T) {
	answer := func(text string) outcome { return outcome{Answer: decoded(t, text)} }
	refusal := func(text string) outcome { return outcome{Error: decoded(t, text)} }
	tests := []struct {
		name       string
		call       call
		direct, by outcome
		fault      string
	}{
		{"ids, times and cache", call{want: "hello"},
			answer(`{"id": "a", "created": 1, "text": "hello", "usage": {"prompt_tokens": 9, "details": {"cached_tokens": 0}}, "timings": {"ms": 3}}`),
			answer(`{"id": "b", "created": 2, "text": "hello", "usage": {"prompt_tokens": 9, "details": {"cached_tokens": 8}}, "timings": {"ms": 4}}`), ""},
		{"other text", call{want: "hello"}, answer(`{"text": "hello"}`), answer(`{"text": "hallo"}`), "hallo"},
		{"no id", call{want: "hello"}, answer(`{"text": "hello", "id": "a"}`), answer(`{"text": "hello"}`), `"id"`},
		{"id that is null", call{want: "hello"}, answer(`{"text": "hello", "id": "a"}`), answer(`{"text": "hello", "id": null}`), `"id"`},
		{"one event more", call{want: "a"}, answer(`["a"]`), answer(`["a", "b"]`), `"b"`},
		{"cached tokens counted apart", call{want: "input"},
			answer(`{"input_tokens": 9, "cache_read_input_tokens": 0}`), answer(`{"input_tokens": 1, "cache_read_input_tokens": 8}`), ""},
		{"one cached token lost", call{want: "input"},
			answer(`{"input_tokens": 9, "cache_read_input_tokens": 0}`), answer(`{"input_tokens": 1, "cache_read_input_tokens": 7}`), "9"},
		{"bodies", call{want: "x"}, answer(`{"body": "{\"id\": 1, \"text\": \"x\"}"}`), answer(`{"body": "{\"text\":\"x\",\"id\":2}"}`), ""},
		{"streams", call{want: "x"},
			answer(`{"body": "data: {\"id\": 1, \"text\": \"x\"}\n\ndata: [DONE]\n\n"}`), answer(`{"body": "data: {\"id\": 2, \"text\": \"x\"}\n\ndata: [DONE]\n\n"}`), ""},
		{"a stream without its end", call{want: "x"},
			answer(`{"body": "data: {\"text\": \"x\"}\n\ndata: [DONE]\n\n"}`), answer(`{"body": "data: {\"text\": \"x\"}\n\n"}`), "DONE"},
		{"an error on both sides", call{want: "x"}, refusal(`{"text": "x"}`), refusal(`{"text": "x"}`), "did not answer"},
		{"the wrong error on both sides", call{want: "too long", fails: true}, refusal(`{"text": "x"}`), refusal(`{"text": "x"}`), "did not answer"},
		{"the right error", call{want: "too long|x", fails: true}, refusal(`{"text": "x"}`), refusal(`{"text": "x"}`), ""},
		{"an answer for an error", call{want: "x", fails: true}, refusal(`{"text": "x"}`), answer(`{"text": "x"}`), "differs"},
	}
	for _, test := range tests {
		err := test.call.judge(test.direct, test.by)
		if (err == nil) != (test.fault == "") || err != nil && !strings.Contains(err.Error(), test.fault) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.fault)
		}
	}
}

func decoded(t *testing.T, text string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}
