package proxy

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// watched is what an observer has found out.
type watched struct {
	Chunks                 int64
	Token, Usage, Failed   bool
	Prompt, Cached, Output int64
}

// watch shows an answer to an observer, in reads of the given sizes, the last of which is used again and again; none = in one.
func watch(events bool, answer string, reads ...int) watched {
	o := observer{now: time.Now, events: events}
	for rest := []byte(answer); len(rest) > 0; {
		n := len(rest)
		if len(reads) > 0 {
			n = min(max(reads[0], 1), n)
		}
		if len(reads) > 1 {
			reads = reads[1:]
		}
		o.see(rest[:n:n])
		rest = rest[n:]
	}
	o.finish()
	cached, _ := o.usage.cached()
	return watched{o.chunks, !o.firstToken.IsZero(), o.hasUsage, o.failed, o.usage.prompt(false), cached, o.usage.output()}
}

var streams = map[string]struct {
	events bool
	answer string
	want   watched
}{
	"chat, vLLM": {true,
		`data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null}` + "\n\n" +
			`data: {"id":"c","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null,"token_ids":null}]}` + "\n\n" +
			`data: {"id":"c","choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"length"}]}` + "\n\n" +
			`data: {"id":"c","choices":[],"usage":{"prompt_tokens":13,"total_tokens":15,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":8}}}` + "\n\ndata: [DONE]\n\n",
		watched{2, true, true, false, 13, 8, 2}},
	"chat, llama.cpp": {true,
		`data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"object":"chat.completion.chunk"}` + "\n\n" +
			`data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":"c"}}]}` + "\n\n" +
			`data: {"choices":[{"finish_reason":"length","index":0,"delta":{}}]}` + "\n\n" +
			`data: {"choices":[],"usage":{"completion_tokens":8,"prompt_tokens":37,"total_tokens":45,"prompt_tokens_details":{"cached_tokens":36}},"timings":{"cache_n":36}}` + "\n\ndata: [DONE]\n\n",
		watched{2, true, true, false, 37, 36, 8}},
	"chat, thoughts and tools": {true,
		`data: {"choices":[{"delta":{"reasoning_content":"hm"}}]}` + "\n\n" + `data: {"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}` + "\n\n",
		watched{2, true, false, false, 0, 0, 0}},
	"usage in every chunk": {true,
		`data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":5,"completion_tokens":1}}` + "\n\n" +
			`data: {"choices":[{"delta":{"content":"b"}}],"usage":{"prompt_tokens":5,"completion_tokens":2}}` + "\n\n",
		watched{2, true, true, false, 5, 0, 2}},
	"completions, CRLF": {true,
		"data: {\"object\":\"text_completion\",\"choices\":[{\"text\":\"x\"}],\"usage\":null}\r\n\r\ndata: {\"choices\":[{\"text\":\"y\"}]}\r\n\r\ndata: [DONE]\r\n\r\n",
		watched{2, true, false, false, 0, 0, 0}},
	"responses": {true,
		"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"error\":null,\"usage\":null}}\n\n" +
			"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"c\"}\n\n" +
			"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"error\":null,\"usage\":{\"input_tokens\":37,\"output_tokens\":4,\"input_tokens_details\":{\"cached_tokens\":36}}}}\n\n",
		watched{1, true, true, false, 37, 36, 4}},
	"responses that failed": {true,
		"data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\"}}}\n\n", watched{0, false, false, true, 0, 0, 0}},
	"messages, llama.cpp": {true, // the input is told at the start, the output at the end
		"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[],\"usage\":{\"cache_read_input_tokens\":60,\"input_tokens\":1,\"output_tokens\":0}}}\n\n" +
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"b\"}}\n\n" +
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"max_tokens\"},\"usage\":{\"output_tokens\":4}}\n\n" +
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		watched{2, true, true, false, 1, 60, 4}},
	"messages that failed": {true, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n", watched{0, false, false, true, 0, 0, 0}},
	"vLLM's engine dies": {true,
		"data: {\"choices\":[{\"text\":\"x\"}]}\n\ndata: {\"error\": {\"message\": \"EngineCore encountered an issue.\", \"type\": \"InternalServerError\", \"code\": 500}}\n\ndata: [DONE]\n\n",
		watched{1, true, false, true, 0, 0, 0}},
	"the word error":        {true, "data: {\"choices\":[{\"text\":\"x\"}]}\n\ndata: {\"choices\":[{\"text\":\"an \\\"error\\\"\"}]}\n\n", watched{2, true, false, false, 0, 0, 0}},
	"comments and no space": {true, ": ping\n\ndata:{\"choices\":[{\"text\":\"x\"}]}\n\nid: 7\nretry: 5\n\n", watched{1, true, false, false, 0, 0, 0}},
	"an event too long to read": {true,
		"data: {\"choices\":[{\"text\":\"" + strings.Repeat("x", maxLine) + "\"}],\"usage\":{\"prompt_tokens\":3}}\n\n", watched{1, true, true, false, 3, 0, 0}},
	"the longest that is read": {true,
		"data: {\"choices\":[{\"text\":\"" + strings.Repeat("x", maxLine-100) + "\"}]}\n\ndata: {}\n", watched{2, true, false, false, 0, 0, 0}},
	"JSON": {false, chatAnswer, watched{0, false, true, false, 7, 4, 1}},
	"JSON with a long answer": {false,
		`{"choices":[{"text":"` + strings.Repeat(`\"usage\":{}`, 9000) + `"}],"usage" : {"prompt_tokens":9,"completion_tokens":2},"x":"usage"}`, watched{0, false, false, false, 0, 0, 0}},
	"JSON whose usage is far from its end": {false, `{"usage":{"prompt_tokens":9},"token_ids":[` + strings.Repeat("1,", tailLen) + `1]}`, watched{}},
}

func TestObserver(t *testing.T) {
	for name, c := range streams {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, watch(c.events, c.answer)); diff != "" {
				t.Errorf("in one read (-want +got):\n%s", diff)
			}
			for _, reads := range [][]int{{1}, {7}, {1000}, {bufferSize}, {100, 1, 2000, 3}} {
				if diff := cmp.Diff(c.want, watch(c.events, c.answer, reads...)); diff != "" {
					t.Errorf("in reads of %v (-want +got):\n%s", reads, diff)
				}
			}
		})
	}
}

// FuzzObserver holds that how an answer is split into reads says nothing, and that an observer changes nothing of it.
func FuzzObserver(f *testing.F) {
	for _, c := range streams {
		if len(c.answer) < 2<<10 {
			f.Add(c.answer, c.events, 7, 100, 0)
		}
	}
	f.Add("data: {\n", true, 1, 1, 0)
	f.Add("\n\r\n\r", true, 2, 1, 0)
	f.Add(`"usage":{"usage":{"prompt_tokens":-1e9}`, false, 3, 1, 0)
	f.Add("data: \x00\"usage\":{\"prompt_tokens\":3}\x00}\n\ndata: {}\n", true, 1000, 5000, maxLine)
	f.Fuzz(func(t *testing.T, answer string, events bool, first, second, filler int) {
		// A filler in the place of NUL makes events long without long inputs.
		answer = strings.Replace(answer, "\x00", strings.Repeat("x", max(0, filler%(2*maxLine))), 2)
		before := strings.Clone(answer)
		whole := watch(events, answer)
		if diff := cmp.Diff(whole, watch(events, answer, first, second)); diff != "" {
			t.Errorf("in reads of %d and %d (-whole +split):\n%s", first, second, diff)
		}
		if answer != before || whole.Prompt < 0 || whole.Cached < 0 || whole.Output < 0 {
			t.Errorf("%+v", whole)
		}
	})
}
