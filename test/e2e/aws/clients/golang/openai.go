package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
)

// openAI is github.com/openai/openai-go.
type openAI struct{}

func (openAI) chat(o order) (openai.ChatCompletionService, openai.ChatCompletionNewParams, error) {
	c := openai.NewClient(option.WithBaseURL(o.URL+"/v1"), option.WithAPIKey("none"))
	var params openai.ChatCompletionNewParams
	err := json.Unmarshal(o.Request, &params)
	return c.Chat.Completions, params, err
}

func (c openAI) plain(ctx context.Context, o order) (any, error) {
	chat, params, err := c.chat(o)
	if err != nil {
		return nil, err
	}
	answer, err := chat.New(ctx, params)
	if err != nil {
		return nil, err
	}
	return json.RawMessage(answer.RawJSON()), nil
}

func (c openAI) stream(ctx context.Context, o order) (stream, error) {
	chat, params, err := c.chat(o)
	if err != nil {
		return nil, err
	}
	return &chunks{Stream: chat.NewStreaming(ctx, params)}, nil
}

func (openAI) failure(err error) any {
	var refusal *openai.Error
	if !errors.As(err, &refusal) {
		return map[string]any{"text": err.Error()}
	}
	return map[string]any{"status": refusal.StatusCode, "body": json.RawMessage(refusal.RawJSON()), "type": refusal.Type, "message": refusal.Message}
}

func (openAI) manage(context.Context, order) (any, error) {
	return nil, errors.New("OpenAI's API has no endpoints")
}

// chunks is a stream of the client, with what it has brought.
type chunks struct {
	*ssestream.Stream[openai.ChatCompletionChunk]
	all []json.RawMessage
}

func (c *chunks) next() bool {
	if !c.Next() {
		return false
	}
	c.all = append(c.all, json.RawMessage(c.Current().RawJSON()))
	return true
}

func (c *chunks) whole() (any, error) { return c.all, c.Err() }
