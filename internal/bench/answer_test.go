package bench

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestWhatCountsAsContent(t *testing.T) {
	tests := []struct {
		name, part string
		want       bool
	}{
		{"role only", `{"choices":[{"delta":{"role":"assistant","content":""}}]}`, false},
		{"role with null", `{"choices":[{"delta":{"role":"assistant","content":null,"tool_calls":[ ]}}]}`, false},
		{"usage", `{"choices":[],"usage":{"prompt_tokens":1}}`, false},
		{"finish", `{"choices":[{"delta":{},"finish_reason":"stop"}]}`, false},
		{"chat", `{"choices":[{"delta":{"content":" "}}]}`, true},
		{"second choice", `{"choices":[{"delta":{}},{"delta":{"content":"a"}}]}`, true},
		{"completion", `{"choices":[{"text":"a"}]}`, true},
		{"thought", `{"choices":[{"delta":{"reasoning_content":"a"}}]}`, true},
		{"thought, newer name", `{"choices":[{"delta":{"reasoning":"a"}}]}`, true},
		{"call", `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]}}]}`, true},
		{"whole", `{"choices":[{"message":{"content":"a"}}]}`, true},
		{"messages: start", `{"type":"message_start","message":{"content":[],"usage":{"input_tokens":26}}}`, false},
		{"messages: block", `{"type":"content_block_start","content_block":{"type":"text","text":""}}`, false},
		{"messages: text", `{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}`, true},
		{"messages: end", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":8}}`, false},
		{"messages: whole", `{"type":"message","content":[{"type":"text","text":"a"}]}`, true},
		{"responses: start", `{"type":"response.created","response":{"output":[],"usage":null}}`, false},
		{"responses: text", `{"type":"response.output_text.delta","delta":"a"}`, true},
		{"responses: empty text", `{"type":"response.output_text.delta","delta":""}`, false},
		{"responses: whole text again", `{"type":"response.output_text.done","text":"a"}`, false},
		{"responses: whole", `{"object":"response","error":null,"output":[{"type":"message"}]}`, true},
		{"llama.cpp", `{"content":"a","stop":false}`, true},
		{"embeddings", `{"object":"list","data":[{"embedding":[1]}]}`, false},
		{"duplicate names", `{"choices":[{"delta":{"content":"","content":"a"}}]}`, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var a answer
			if failure := a.take([]byte(test.part)); failure != "" {
				t.Fatalf("failure: %s", failure)
			}
			if got := !a.first.IsZero(); got != test.want {
				t.Errorf("content: got %v, want %v", got, test.want)
			}
		})
	}
}

func TestLongLines(t *testing.T) {
	chunk := func(n int) string {
		return `data: {"choices":[{"delta":{"content":"` + strings.Repeat("a", n) + `"}}]}` + "\n\n" + doneChunk
	}
	var a answer
	if failure := a.readStream(strings.NewReader(chunk(1 << 20))); failure != "" || a.first.IsZero() {
		t.Errorf("1 MiB: failure %q, first content at %v", failure, a.first)
	}
	if failure := new(answer).readStream(strings.NewReader(chunk(maxLine))); failure != failedUnreadable {
		t.Errorf("over the limit: got %q, want %q", failure, failedUnreadable)
	}
}

// However a stream is cut into reads, it says the same.
func FuzzStream(f *testing.F) {
	f.Add(roleChunk + wordChunk + wordChunk + usageChunk + doneChunk)
	f.Add(strings.ReplaceAll(wordChunk+doneChunk, "\n", "\r\n"))
	f.Add(`data: {"error":{"code":500}}` + "\n\n" + doneChunk)
	f.Add("data:{}\n\ndata:[DONE]\n\n")
	f.Add("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
	f.Add("data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":1}}}\n\n")
	f.Add(": ping\n\ndata: {\"usage\":{\"prompt_tokens_details\":null}}\n")
	f.Add("data: {\"choices\":[{\"delta\":{\"tool_calls\":[[]]}}]}\n\ndata: [DONE]")
	f.Fuzz(func(t *testing.T, stream string) {
		var whole, cut answer
		a := whole.readStream(strings.NewReader(stream))
		b := cut.readStream(iotest.OneByteReader(strings.NewReader(stream)))
		if a != b || len(whole.gaps) != len(cut.gaps) || whole.first.IsZero() != cut.first.IsZero() || (whole.usage == nil) != (cut.usage == nil) {
			t.Errorf("in one read: %q, %d gaps; byte by byte: %q, %d gaps", a, len(whole.gaps), b, len(cut.gaps))
		}
		if a == "" && !whole.done {
			t.Error("taken for whole without its end")
		}
	})
}

func FuzzWhole(f *testing.F) {
	f.Add(`{"choices":[{"message":{"content":"hello"}}],"usage":{"prompt_tokens":10,"completion_tokens":5}}`)
	f.Add(`{"error":{"message":"no"}}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, body string) {
		var a answer
		failure := a.readWhole(strings.NewReader(body))
		if failure != "" && !a.first.IsZero() {
			t.Errorf("failure %q with content", failure)
		}
	})
}

func TestBrokenBody(t *testing.T) {
	if failure := new(answer).readWhole(io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF))); failure != failedBroken {
		t.Errorf("got %q, want %q", failure, failedBroken)
	}
}

func TestErrorsInsideAnAnswer(t *testing.T) {
	for _, part := range []string{
		`{"error":{"message":"out of memory"}}`, `{"object":"error","message":"out of memory","code":500}`,
		`{"type":"error","error":{"type":"overloaded_error"}}`, `{"type":"error","message":"out of memory"}`,
		`{"type":"response.failed","response":{"error":{"code":"server_error"}}}`,
	} {
		if got := new(answer).take([]byte(part)); got != failedErrorEvent {
			t.Errorf("%s: got %q, want %q", part, got, failedErrorEvent)
		}
	}
}

func TestUsageOfThreeAPIs(t *testing.T) {
	tests := []struct {
		name                   string
		parts                  []string
		prompt, cached, output int
		reported               bool
	}{
		{"none", nil, 0, 0, 0, false},
		{"chat", []string{`{"usage":{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":80}}}`}, 100, 80, 5, true},
		{"chat that grows", []string{`{"usage":{"prompt_tokens":100,"completion_tokens":1}}`, `{"usage":{"prompt_tokens":100,"completion_tokens":2}}`}, 100, 0, 2, false},
		{"details without the count", []string{`{"usage":{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{}}}`}, 100, 0, 5, false},
		{"responses", []string{
			`{"type":"response.created","response":{"usage":null}}`,
			`{"type":"response.completed","response":{"usage":{"input_tokens":100,"output_tokens":5,"input_tokens_details":{"cached_tokens":80}}}}`,
		}, 100, 80, 5, true},
		{"messages of vLLM", []string{
			`{"type":"message_start","message":{"usage":{"input_tokens":100,"output_tokens":0}}}`,
			`{"type":"message_delta","usage":{"input_tokens":100,"output_tokens":5,"cache_creation_input_tokens":16,"cache_read_input_tokens":80}}`,
		}, 100, 80, 5, true},
		{"messages of llama.cpp", []string{
			`{"type":"message_start","message":{"usage":{"cache_read_input_tokens":80,"input_tokens":20,"output_tokens":0}}}`,
			`{"type":"message_delta","usage":{"output_tokens":5}}`,
		}, 100, 80, 5, true},
		{"messages of Anthropic", []string{
			`{"type":"message","usage":{"input_tokens":4,"cache_creation_input_tokens":16,"cache_read_input_tokens":80,"output_tokens":5}}`,
		}, 100, 80, 5, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := answer{usage: &usage{}}
			for _, part := range test.parts {
				if failure := a.take([]byte(part)); failure != "" {
					t.Fatalf("%s: %s", part, failure)
				}
			}
			cached, reported := a.usage.cached()
			if a.usage.prompt() != test.prompt || cached != test.cached || a.usage.output() != test.output || reported != test.reported {
				t.Errorf("got %d, %d, %d, %v; want %d, %d, %d, %v", a.usage.prompt(), cached, a.usage.output(), reported,
					test.prompt, test.cached, test.output, test.reported)
			}
		})
	}
}
