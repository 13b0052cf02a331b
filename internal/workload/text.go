package workload

import (
	"math/rand/v2"
	"time"

	"github.com/go-json-experiment/json"
)

// tokenBytes is the length of a token of English text, in bytes, as byte-pair tokenizers of about 100,000 entries average it.
const tokenBytes = 4

// The streams of random numbers that one seed gives rise to. Their order must not change, or all workloads do.
const (
	streamDocument uint64 = iota + 1
	streamQuestion
	streamOpening
	streamTurn
	streamAnswer
	streamOrder
	streamArrivalsRAG
	streamArrivalsMultiTurn
)

// random returns the generator of one stream and item of a seed.
func random(seed, stream uint64, item int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, stream<<32|uint64(item)))
}

// words make text that compresses and tokenizes about as prose does. None of them needs escaping in JSON.
var words = [...]string{
	"the", "of", "and", "a", "to", "in", "is", "that", "it", "was", "for", "on", "are", "with", "as", "be", "at", "one", "have",
	"this", "from", "by", "not", "but", "what", "all", "were", "when", "we", "there", "can", "an", "which", "their", "said", "if",
	"will", "each", "about", "how", "up", "out", "them", "then", "many", "some", "these", "would", "other", "into", "more", "two",
	"time", "could", "no", "than", "first", "been", "who", "now", "people", "made", "over", "water",
}

// prose returns text of exactly that many tokens' length.
func prose(r *rand.Rand, tokens int) string {
	size := tokens * tokenBytes
	text := make([]byte, 0, size+16)
	for len(text) < size {
		text = append(text, words[r.IntN(len(words))]...)
		text = append(text, ' ')
	}
	return string(text[:size])
}

// clock gives one time of arrival after another.
type clock func() time.Duration

// arrivals is a Poisson process of that many arrivals a second; without a rate all arrive at once.
func arrivals(r *rand.Rand, rate float64) clock {
	seconds := 0.0
	return func() time.Duration {
		if rate > 0 {
			seconds += r.ExpFloat64() / rate
		}
		return time.Duration(seconds * float64(time.Second))
	}
}

const chatPath = "/v1/chat/completions"

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type chat struct {
	Model     string        `json:"model,omitzero"`
	Messages  []message     `json:"messages"`
	MaxTokens int           `json:"max_tokens"`
	Stream    bool          `json:"stream"`
	Options   streamOptions `json:"stream_options"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// body is a streamed chat request that asks for its usage, without which nobody learns of cached tokens.
func (s Shape) body(messages []message) []byte {
	b, err := json.Marshal(chat{s.Model, messages, s.AnswerTokens, true, streamOptions{IncludeUsage: true}})
	if err != nil {
		panic("workload: " + err.Error()) // only a type that JSON cannot express
	}
	return b
}
