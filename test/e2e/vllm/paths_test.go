//go:build e2evllm

package vllm

import (
	stdcmp "cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// exchange is a request, and what the engine's answer has.
type exchange struct {
	name, path, body string
	engine           string // the path there; "" = the same
	status           int    // 0 = 200
	want             string // is in the answer
}

// passage is longer than the blocks of a cache, so that a part of it is cached when it is sent again.
var passage = strings.Repeat("the quick brown fox jumps over the lazy dog ", 8)

func exchanges() []exchange {
	chat := fields{"messages": []fields{{"role": "user", "content": passage}}, "max_tokens": 8, "temperature": 0, "ignore_eos": true}
	text := fields{"prompt": passage, "max_tokens": 8, "temperature": 0, "ignore_eos": true}
	claude := fields{"messages": []fields{{"role": "user", "content": passage}}, "max_tokens": 8, "temperature": 0}
	answers := fields{"input": passage, "max_output_tokens": 8, "temperature": 0}
	usage := fields{"stream": true, "stream_options": fields{"include_usage": true}}
	const chatPath, textPath, claudePath, answersPath = "/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"
	const cached, done = `"cached_tokens":256`, "data: [DONE]"
	return []exchange{
		{name: "chat", path: chatPath, body: request(chat), want: cached},
		{name: "chat, two answers", path: chatPath, body: request(chat, fields{"n": 2, "temperature": 1, "seed": 1}), want: `"index":1`},
		{name: "chat, streamed", path: chatPath, body: request(chat, stream), want: done},
		{name: "chat, streamed with usage", path: chatPath, body: request(chat, usage), want: cached},
		{name: "completion", path: textPath, body: request(text), want: cached},
		{name: "completion of token ids", path: textPath, body: request(text, fields{"prompt": []int{72, 101, 108, 108, 111}}), want: `"prompt_tokens":5`},
		{name: "completions of a list", path: textPath, body: request(text, fields{"prompt": []string{"one", "two"}}), want: `"index":1`},
		{name: "completion, streamed", path: textPath, body: request(text, stream), want: done},
		{name: "completion, streamed with usage", path: textPath, body: request(text, usage), want: cached},
		{name: "response", path: answersPath, body: request(answers), want: cached},
		{name: "response, streamed", path: answersPath, body: request(answers, stream), want: "response.completed"},
		{name: "message", path: claudePath, body: request(claude), want: `"cache_read_input_tokens":256`},
		{name: "message, streamed", path: claudePath, body: request(claude, stream), want: "message_stop"},
		{name: "tokens of a message", path: claudePath + "/count_tokens", body: request(claude), want: `"input_tokens"`},
		{name: "tokens of a prompt", path: "/tokenize", body: request(fields{"prompt": "Hello"}), want: "[72,101,108,108,111]"},
		{name: "tokens of a chat", path: "/tokenize", body: request(fields{"messages": chat["messages"]}), want: `"count":`},
		{name: "text of tokens", path: "/detokenize", body: request(fields{"tokens": []int{72, 105}}), want: `"Hi"`},
		{name: "invocation of a chat", path: "/invocations", body: request(chat), want: cached},
		{name: "invocation of a completion, streamed", path: "/invocations", body: request(text, stream), want: done},
		{name: "invocation by SageMaker's path", path: "/endpoints/aware/invocations", engine: "/invocations", body: request(chat), want: cached},
		{name: "a path by the endpoint's name", path: balanced + textPath, engine: textPath, body: request(text), want: cached},
		{name: "a prompt that is too long", path: textPath, body: completion(strings.Repeat("x", 9000), 8), status: 400, want: "maximum context length"},
		{name: "no messages", path: chatPath, body: request(fields{"max_tokens": 8}), status: 400, want: "messages"},
		{name: "no embeddings of this model", path: "/v1/embeddings", body: request(fields{"input": "x"}), status: 404, want: "Not Found"},
		{name: "no scores of this model", path: "/score", body: request(fields{"text_1": "x", "text_2": "y"}), status: 404, want: "Not Found"},
		{name: "no ranks of this model", path: "/v1/rerank", body: request(fields{"query": "x", "documents": []string{"y"}}), status: 404, want: "Not Found"},
		{name: "no such path", path: "/v1/nothing", body: request(), status: 404, want: "Not Found"},
	}
}

// volatile is what differs between two answers to one request: ids and times.
var volatile = regexp.MustCompile(`"((?:[a-z]+_)*id|created|[a-z]+_at)":\s*(?:"[^"]*"|[0-9.]+)`)

// paths compares what comes by way of Warmpath with what the same engine says itself: status, kind and all bytes but ids and times.
func (r *rig) paths(t *testing.T) {
	for _, x := range exchanges() {
		t.Run(x.name, func(t *testing.T) {
			if x.engine == "" {
				x.engine = x.path
			}
			for _, e := range r.engines() {
				post(t, e.url()+x.engine, x.body) // both have it in their caches from here on
			}
			var diff string
			for range 5 { // an engine that is behind with a stream puts several tokens into one event
				by := post(t, r.url+x.path, x.body)
				direct := post(t, r.by(t, by).url()+x.engine, x.body)
				if want := stdcmp.Or(x.status, http.StatusOK); direct.status != want || !strings.Contains(direct.body, x.want) {
					t.Fatalf("the engine itself answered %d, want %d with %q: %.600s", direct.status, want, x.want, direct.body)
				}
				if diff = cmp.Diff(direct.settled(), by.settled()); diff == "" {
					return
				}
			}
			t.Errorf("differs (-engine +Warmpath):\n%s", diff)
		})
	}
}

// by is the engine that has answered.
func (r *rig) by(t *testing.T, a answer) *engine {
	t.Helper()
	for _, e := range r.engines() {
		if a.replica() == e.address() {
			return e
		}
	}
	t.Fatalf("no engine answered, but %q: %d %s %v", a.replica(), a.status, a.body, a.err)
	return nil
}

// settled is what must be the same whoever is asked.
func (a answer) settled() []any {
	return []any{a.status, a.header.Get("Content-Type"), a.err, volatile.ReplaceAllString(a.body, `"$1":"*"`)}
}

// models is what Warmpath lists itself: what the engines list.
func (r *rig) models(t *testing.T) {
	ids := func(url string) (ids []string) {
		var list struct{ Data []struct{ ID string } }
		a := get(t, url+"/v1/models")
		if err := json.Unmarshal([]byte(a.body), &list); err != nil || a.status != http.StatusOK {
			t.Fatalf("%s: %d %v: %s", url, a.status, err, a.body)
		}
		for _, m := range list.Data {
			ids = append(ids, m.ID)
		}
		return ids
	}
	want := ids(r.first.url())
	for _, url := range []string{r.url, r.url + balanced} {
		if diff := cmp.Diff(want, ids(url)); diff != "" || len(want) == 0 {
			t.Errorf("%s (-engine +Warmpath):\n%s", url, diff)
		}
	}
}
