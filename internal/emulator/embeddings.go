package emulator

import (
	"fmt"
	"math"

	"github.com/go-json-experiment/json/jsontext"
)

// defaultDimensions is the length of an embedding when the client does not choose.
const (
	defaultDimensions = 8
	maxDimensions     = 4096
)

func parseEmbedding(body jsontext.Value) (job, error) {
	var in struct {
		Model      string         `json:"model"`
		Input      jsontext.Value `json:"input"`
		Dimensions int            `json:"dimensions"`
		CacheSalt  string         `json:"cache_salt"`
	}
	if err := unmarshal(body, &in); err != nil {
		return job{}, err
	}
	if len(in.Input) == 0 {
		return job{}, missing("input")
	}
	if in.Dimensions < 0 || in.Dimensions > maxDimensions {
		return job{}, badRequest("dimensions", fmt.Sprintf("dimensions must be between 1 and %d.", maxDimensions))
	}
	list, err := prompts(in.Input)
	if err != nil {
		return job{}, invalid("body.input", err.Error())
	}
	return job{
		model: in.Model, salt: in.CacheSalt, prompts: list, choices: 1, idPrefix: "embd-",
		answerer: func(g *generation) answerer { return &embeddingAnswer{g, orDefault(in.Dimensions, defaultDimensions)} },
	}, nil
}

type embeddingAnswer struct {
	g          *generation
	dimensions int
}

// An embedding has no tokens and no stream.
func (a *embeddingAnswer) token(*events, *sequence, string) {}
func (a *embeddingAnswer) end(*events)                      {}

func (a *embeddingAnswer) whole() any {
	type embedding struct {
		Index     int       `json:"index"`
		Object    string    `json:"object"`
		Embedding []float64 `json:"embedding"`
	}
	data := make([]embedding, len(a.g.sequences))
	for i, q := range a.g.sequences {
		data[i] = embedding{i, "embedding", vector(q.seed, a.dimensions)}
	}
	return struct {
		ID      string       `json:"id"`
		Object  string       `json:"object"`
		Created int64        `json:"created"`
		Model   string       `json:"model"`
		Data    []embedding  `json:"data"`
		Usage   *openAIUsage `json:"usage"`
	}{a.g.id, "list", a.g.created.Unix(), a.g.model, data, a.g.openAIUsage()}
}

// vector returns n numbers of unit length that depend on the seed alone.
func vector(seed uint64, n int) []float64 {
	v := make([]float64, n)
	sum := 0.0
	for i := range v {
		v[i] = float64(mix(seed+uint64(i))>>11)/(1<<52) - 1
		sum += v[i] * v[i]
	}
	for i := range v {
		v[i] /= math.Sqrt(sum)
	}
	return v
}
