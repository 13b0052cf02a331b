package clients

import (
	"maps"
	"math/rand/v2"
	"strings"

	"github.com/warmpath/warmpath/test/e2e/lab"
)

// contextTokens is what each of an engine's slots has room for.
const contextTokens = 16384

// call is one thing that every client does.
type call struct {
	name    string
	request map[string]any // as for OpenAI's chat completions
	want    string         // is in the answer of every client, or in its error
	fails   bool           // the engine refuses it
}

// calls are made by every client, in this order.
func calls() []call {
	tools := map[string]any{"tools": []any{weather()}, "tool_choice": "required", "max_tokens": 96}
	stream := map[string]any{"stream": true}
	return []call{
		{name: "plain", request: chat(question), want: `length|max_tokens`},
		{name: "streaming", request: chat(question, stream), want: `length|max_tokens`},
		{name: "tools", request: chat(question, tools), want: `london`},
		{name: "tools streamed", request: chat(question, tools, stream, map[string]any{"stream_options": map[string]any{"include_usage": true}}), want: `weather`},
		{name: "long prompt", request: chat(prose(6000)), want: `length|max_tokens`},
		{name: "error", request: chat(prose(100_000)), want: `exceeds the available context size`, fails: true},
	}
}

// endless is a stream that takes an engine far longer than a client needs to leave it.
func endless() call {
	return call{name: "cancellation", request: chat(question, map[string]any{"stream": true, "max_tokens": endlessTokens})}
}

const (
	question      = "What is the weather like?"
	endlessTokens = contextTokens - 1000
)

// chat is a request that always has the same answer, with what the changes say.
func chat(prompt string, changes ...map[string]any) map[string]any {
	request := map[string]any{
		"model":       lab.ModelName,
		"messages":    []any{map[string]any{"role": "user", "content": prompt}},
		"max_tokens":  24,
		"temperature": 0,
		"seed":        1,
	}
	for _, change := range changes {
		maps.Copy(request, change)
	}
	return request
}

// weather is a tool whose arguments come to an end even if random weights write them.
func weather() map[string]any {
	return map[string]any{"type": "function", "function": map[string]any{
		"name":        "weather",
		"description": "tells the weather",
		"parameters": map[string]any{
			"type":       "object",
			"properties": map[string]any{"city": map[string]any{"type": "string", "enum": []any{"london"}}},
			"required":   []any{"city"},
		},
	}}
}

// anthropic is a request as for Anthropic's messages. Their client knows no temperature and no seed any more.
func anthropic(request map[string]any) map[string]any {
	r := maps.Clone(request)
	r["extra_body"] = map[string]any{"temperature": r["temperature"], "seed": r["seed"]}
	for _, name := range []string{"temperature", "seed", "stream_options"} {
		delete(r, name)
	}
	if r["tools"] == nil {
		return r
	}
	function := weather()["function"].(map[string]any)
	r["tools"] = []any{map[string]any{"name": function["name"], "description": function["description"], "input_schema": function["parameters"]}}
	r["tool_choice"] = map[string]any{"type": "any"}
	return r
}

// prose is lower-case words, length bytes of them, the same ones each time.
func prose(length int) string {
	random := rand.New(rand.NewPCG(uint64(length), 0))
	var text strings.Builder
	for range length {
		text.WriteByte("abcdefghijklmnopqrstuvwxyz    "[random.IntN(30)])
	}
	return text.String()
}
