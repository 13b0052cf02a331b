package workload

import (
	"math"
	"math/rand/v2"
	"sort"
	"time"
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
	streamPreamble
	streamPopularity
	streamBlock
	streamArrivalsTrace
	streamArrivalsHot
	streamHot
	streamHotDraw
	streamOwn
	streamArrivalsAgents
	streamInstructions
	streamTools
	streamTask
	streamStep
	streamResult
	streamSpread
	streamOthers
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
func prose(r *rand.Rand, tokens int) string { return proseOf(r, tokens*tokenBytes) }

// proseOf returns text of exactly that many bytes.
func proseOf(r *rand.Rand, size int) string {
	text := make([]byte, 0, size+16)
	for len(text) < size {
		text = append(text, words[r.IntN(len(words))]...)
		text = append(text, ' ')
	}
	return string(text[:size])
}

// maxShelf bounds the texts that a shelf keeps, in bytes.
const maxShelf = 64 << 20

// shelf keeps the texts that many requests quote, if there is room for all of them; else each is made anew each time.
type shelf struct {
	seed, stream uint64
	tokens       int
	kept         []string
}

func newShelf(seed, stream uint64, texts, tokens int) *shelf {
	s := &shelf{seed: seed, stream: stream, tokens: tokens}
	if texts*tokens*tokenBytes <= maxShelf {
		s.kept = make([]string, texts)
	}
	return s
}

func (s *shelf) text(item int) string {
	if s.kept == nil {
		return prose(random(s.seed, s.stream, item), s.tokens)
	}
	if s.kept[item] == "" {
		s.kept[item] = prose(random(s.seed, s.stream, item), s.tokens)
	}
	return s.kept[item]
}

// zipf draws from 0 to n-1, item i with a probability in proportion to 1/(i+1)^s. The standard library's needs an s above 1.
func zipf(r *rand.Rand, n int, s float64) func() int {
	sums := make([]float64, n)
	total := 0.0
	for i := range sums {
		total += math.Pow(float64(i+1), -s)
		sums[i] = total
	}
	return func() int {
		return min(sort.SearchFloat64s(sums, r.Float64()*total), n-1)
	}
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

// chat is a streamed request that asks for its usage, without which nobody learns of cached tokens.
func (s Shape) chat(messages []message) chat {
	return chat{s.Model, messages, s.AnswerTokens, true, streamOptions{IncludeUsage: true}}
}

func (s Shape) body(messages []message) []byte { return marshal(s.chat(messages)) }
