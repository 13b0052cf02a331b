package aws

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// openAI is OpenAI's client of an endpoint.
func (r *router) openAI(endpoint, key string) openai.Client {
	return openai.NewClient(option.WithBaseURL(r.Data+"/endpoints/"+endpoint+"/openai/v1"), option.WithAPIKey(key), option.WithMaxRetries(0))
}

func question(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: model, MaxTokens: openai.Int(8), Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Why is the sky blue?")},
	}
}

func (g goClients) testOpenAI(t *testing.T) {
	c := g.open.openAI("go-llm", "unused")
	for _, model := range []string{"emulated-go", "go-alias"} {
		answer, err := c.Chat.Completions.New(t.Context(), question(model))
		if err != nil {
			t.Fatal(err)
		}
		if len(answer.Choices) != 1 || answer.Choices[0].Message.Content == "" || answer.Usage.CompletionTokens != 8 {
			t.Errorf("%s answers %s", model, answer.RawJSON())
		}
	}
	params := question("emulated-go")
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := c.Chat.Completions.NewStreaming(t.Context(), params)
	var all openai.ChatCompletionAccumulator
	for stream.Next() {
		all.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil || len(all.Choices) != 1 || all.Choices[0].Message.Content == "" || all.Usage.CompletionTokens != 8 {
		t.Errorf("streamed %+v and %v", all, err)
	}
	completion, err := c.Completions.New(t.Context(), openai.CompletionNewParams{
		Model: "emulated-go", MaxTokens: openai.Int(3), Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("Once")}})
	if err != nil || len(completion.Choices) != 1 {
		t.Errorf("completion: %v and %v", completion, err)
	}
	embedding, err := c.Embeddings.New(t.Context(), openai.EmbeddingNewParams{Model: "emulated-go", Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("x")}})
	if err != nil || len(embedding.Data) != 1 || len(embedding.Data[0].Embedding) == 0 {
		t.Errorf("embedding: %v and %v", embedding, err)
	}
	models, err := c.Models.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range models.Data {
		ids = append(ids, m.ID)
	}
	if got := strings.Join(ids, " "); got != "emulated-go go-alias" {
		t.Errorf("the endpoint's models are %s", got)
	}
}

// wantOpenAIError checks an error that OpenAI's SDK has raised.
func wantOpenAIError(t *testing.T, err error, status int, code string) {
	t.Helper()
	var api *openai.Error
	if !errors.As(err, &api) || api.StatusCode != status || code != "" && api.Code != code {
		t.Errorf("got %v, want %d %s", err, status, code)
	}
}

func (g goClients) testOpenAIErrors(t *testing.T) {
	ask := func(endpoint string, params openai.ChatCompletionNewParams) error {
		c := g.open.openAI(endpoint, "unused")
		_, err := c.Chat.Completions.New(t.Context(), params)
		return err
	}
	wantOpenAIError(t, ask("missing", question("m")), http.StatusBadRequest, "validation_error")
	wantOpenAIError(t, ask("empty", question("m")), http.StatusServiceUnavailable, "no_replica")
	wantOpenAIError(t, ask("down", question("m")), http.StatusBadGateway, "upstream_unreachable")
	wantOpenAIError(t, ask("go-llm", question("none")), http.StatusNotFound, "")
	empty := question("emulated-go")
	empty.Messages = []openai.ChatCompletionMessageParamUnion{}
	wantOpenAIError(t, ask("go-llm", empty), http.StatusBadRequest, "")

	c := g.open.openAI("go-llm", "unused")
	for _, fault := range []string{"error-event", "reset-mid-stream"} {
		setFault(t, g.engines["go"], fault+",after=3,count=1")
		stream := c.Chat.Completions.NewStreaming(t.Context(), question("emulated-go"))
		chunks := 0
		for stream.Next() {
			chunks++
		}
		if stream.Err() == nil || chunks < 3 {
			t.Errorf("%s: got %d chunks and %v, want an error after three", fault, chunks, stream.Err())
		}
	}
}

func (g goClients) testOpenAIAuth(t *testing.T) {
	ask := func(key string) error {
		c := g.closed.openAI("go-llm", key)
		_, err := c.Chat.Completions.New(t.Context(), question("emulated-go"))
		return err
	}
	for _, key := range []string{apiKey, bearerToken(t, time.Now(), leadSecret)} {
		if err := ask(key); err != nil {
			t.Errorf("%.20s…: %v", key, err)
		}
	}
	wantOpenAIError(t, ask("another"), http.StatusUnauthorized, "credentials_unknown")
	wantOpenAIError(t, ask(bearerToken(t, time.Now(), guestSecret)), http.StatusUnauthorized, "signature_invalid")
	wantOpenAIError(t, ask(bearerToken(t, time.Now().Add(-13*time.Hour), leadSecret)), http.StatusUnauthorized, "signature_expired")
}
