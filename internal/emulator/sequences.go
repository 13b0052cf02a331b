package emulator

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/zeebo/xxh3"
)

// generators are the APIs that make the engine compute, by path: how their bodies are read, and how they word an error.
var generators = map[string]struct {
	parse func(jsontext.Value) (job, error)
	fail  errorWriter
}{
	"/v1/chat/completions": {parseChat, openAIError},
	"/v1/completions":      {parseCompletion, openAIError},
	"/v1/embeddings":       {parseEmbedding, openAIError},
	"/v1/responses":        {parseResponse, openAIError},
	"/v1/messages":         {parseMessages, messagesError},
	invocationsPath:        {parseInvocation, openAIError},
}

// Requests returns what a Server would submit to its core for a POST of body to path: one Request for each answer, with
// blocks of blockSize tokens. A simulation in virtual time thus computes what a server in real time would.
//
// The error says that the path has no generation API, or that an engine would refuse the body.
func Requests(path string, body []byte, blockSize int) ([]*Request, error) {
	api, ok := generators[path]
	if !ok {
		return nil, fmt.Errorf("path %q: is no generation API", path)
	}
	j, err := api.parse(jsontext.Value(bytes.TrimSpace(body)))
	if err != nil {
		return nil, err
	}
	var requests []*Request
	for _, p := range j.prompts {
		if p.tokens() == 0 {
			return nil, errEmptyPrompt()
		}
		for choice := range max(1, j.choices) {
			r := j.request(p, j.textSeed(p, choice), blockSize)
			requests = append(requests, &r)
		}
	}
	return requests, nil
}

// textSeed is the seed of one answer's text.
func (j *job) textSeed(p prompt, choice int) uint64 { return xxh3.HashSeed(p, uint64(choice)) }

// request is the core's view of one answer to p. Models, adapters and salts share no blocks.
func (j *job) request(p prompt, seed uint64, blockSize int) Request {
	text := make([]byte, 0, len(p)+j.output*tokenBytes)
	text = appendAnswer(append(text, p...), seed, j.output)
	root := xxh3.HashString(fmt.Sprintf("%d:%s%s", len(j.model), j.model, j.salt))
	return Request{Chain: chain(root, text, blockSize), PromptTokens: p.tokens(), OutputTokens: j.output}
}

func errEmptyPrompt() error {
	return badRequest("prompt", "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)")
}
