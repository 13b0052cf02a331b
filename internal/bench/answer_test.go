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
	f.Add(": ping\n\ndata: {\"usage\":{\"prompt_tokens_details\":null}}\n")
	f.Add("data: {\"choices\":[{\"delta\":{\"tool_calls\":[[]]}}]}\n\ndata: [DONE]")
	f.Fuzz(func(t *testing.T, stream string) {
		var whole, cut answer
		a := whole.readStream(strings.NewReader(stream))
		b := cut.readStream(iotest.OneByteReader(strings.NewReader(stream)))
		if a != b || len(whole.gaps) != len(cut.gaps) || whole.first.IsZero() != cut.first.IsZero() || (whole.usage == nil) != (cut.usage == nil) {
			t.Errorf("in one read: %q, %d gaps; byte by byte: %q, %d gaps", a, len(whole.gaps), b, len(cut.gaps))
		}
		if a == "" && !strings.Contains(stream, "[DONE]") {
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
