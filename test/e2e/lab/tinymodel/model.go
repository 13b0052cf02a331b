// Package tinymodel writes a language model of random weights whose every token is one byte, small enough for a test to run on one core.
package tinymodel

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
)

// Shape is the size of a model of the llama architecture.
type Shape struct {
	Width        int // of the embedding; a multiple of 32 and of Heads
	Layers       int
	Heads        int
	KeyHeads     int // heads of keys and values; divides Heads
	FeedForward  int // width of the feed-forward layers; a multiple of 32
	ContextLimit int // tokens
	Seed         uint64
}

// Small reads about 5,000 tokens a second on one core and keeps 1 KiB of keys and values for each token.
var Small = Shape{Width: 128, Layers: 4, Heads: 2, KeyHeads: 1, FeedForward: 384, ContextLimit: 32768, Seed: 7}

const (
	// tokens are the 256 bytes and three control tokens.
	tokens = 256 + 3
	// endOfText begins and ends a text.
	endOfText = 256
	// blockWeights is how many weights Q8_0 scales together.
	blockWeights = 32

	// chatTemplate writes a tool call as toolMark and its JSON. llama.cpp reads this off the template; when a tool call is required, its
	// grammar lets anything pass until the mark and then nothing but the call.
	chatTemplate = "{% if tools %}<|im_start|>system\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}<|im_end|>\n{% endif %}" +
		"{% for m in messages %}<|im_start|>{{m.role}}\n{% if m.content %}{{m.content}}{% endif %}" +
		"{% if m.tool_calls %}{% for c in m.tool_calls %}" + toolMark +
		"{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}" +
		"{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
	// toolMark is a letter that random weights say sooner or later. They would never say a whole word.
	toolMark = "n"
)

// Write writes the model as a GGUF file, version 3. The same shape gives the same bytes. It fails when the shape is
// impossible or w does.
func Write(w io.Writer, s Shape) error {
	if err := s.check(); err != nil {
		return err
	}
	return writeGGUF(w, s.metadata(), s.tensors())
}

func (s Shape) check() error {
	switch {
	case min(s.Width, s.Layers, s.Heads, s.KeyHeads, s.FeedForward, s.ContextLimit) < 1:
		return fmt.Errorf("model shape: %+v: every size must be at least 1", s)
	case s.Width%blockWeights != 0 || s.FeedForward%blockWeights != 0:
		return fmt.Errorf("model shape: %+v: widths must be multiples of %d", s, blockWeights)
	case s.Width%s.Heads != 0 || s.Heads%s.KeyHeads != 0:
		return fmt.Errorf("model shape: %+v: heads must divide the width, and key heads the heads", s)
	}
	return nil
}

func (s Shape) headWidth() int { return s.Width / s.Heads }

func (s Shape) metadata() []entry {
	types := make([]int32, tokens)
	for i := range types {
		types[i] = 1 // normal
		if i >= endOfText {
			types[i] = 3 // control
		}
	}
	return []entry{
		{"general.architecture", "llama"},
		{"general.name", "tiny-random"},
		{"general.file_type", uint32(7)}, // mostly Q8_0
		{"llama.context_length", uint32(s.ContextLimit)},
		{"llama.embedding_length", uint32(s.Width)},
		{"llama.block_count", uint32(s.Layers)},
		{"llama.feed_forward_length", uint32(s.FeedForward)},
		{"llama.attention.head_count", uint32(s.Heads)},
		{"llama.attention.head_count_kv", uint32(s.KeyHeads)},
		{"llama.attention.layer_norm_rms_epsilon", float32(1e-5)},
		{"llama.rope.freq_base", float32(10000)},
		{"llama.rope.dimension_count", uint32(s.headWidth())},
		{"llama.vocab_size", uint32(tokens)},
		{"tokenizer.ggml.model", "gpt2"},
		{"tokenizer.ggml.pre", "gpt-2"},
		{"tokenizer.ggml.tokens", vocabulary()},
		{"tokenizer.ggml.token_type", types},
		{"tokenizer.ggml.merges", []string{"a b"}}, // may not be empty; "ab" is no token, so it never applies
		{"tokenizer.ggml.bos_token_id", uint32(endOfText)},
		{"tokenizer.ggml.eos_token_id", uint32(endOfText)},
		{"tokenizer.ggml.add_bos_token", false},
		{"tokenizer.chat_template", chatTemplate},
	}
}

// vocabulary is the byte-level alphabet of GPT-2, where every byte has a printable rune, and the control tokens.
func vocabulary() []string {
	var words []string
	stand := rune(256) // takes the place of the next byte that is not printable
	for b := rune(0); b < 256; b++ {
		printable := b > ' ' && b < 127 || b > 160 && b != 173
		if printable {
			words = append(words, string(b))
			continue
		}
		words = append(words, string(stand))
		stand++
	}
	return append(words, "<|endoftext|>", "<|im_start|>", "<|im_end|>")
}

func (s Shape) tensors() []tensor {
	random := rand.New(rand.NewPCG(s.Seed, 0))
	matrix := func(name string, outputs, inputs int) tensor {
		deviation := 1 / math.Sqrt(float64(inputs)) // keeps the variance of what passes through
		return tensor{name: name, rows: outputs, columns: inputs, row: func(_ int, weights []float32) {
			for i := range weights {
				weights[i] = float32(random.NormFloat64() * deviation)
			}
		}}
	}
	head := matrix("output.weight", tokens, s.Width)
	head.row = onlySpeakable(head.row)

	all := []tensor{matrix("token_embd.weight", tokens, s.Width)}
	for layer := range s.Layers {
		name := func(part string) string { return fmt.Sprintf("blk.%d.%s.weight", layer, part) }
		all = append(all,
			ones(name("attn_norm"), s.Width),
			matrix(name("attn_q"), s.Width, s.Width),
			matrix(name("attn_k"), s.KeyHeads*s.headWidth(), s.Width),
			matrix(name("attn_v"), s.KeyHeads*s.headWidth(), s.Width),
			matrix(name("attn_output"), s.Width, s.Width),
			ones(name("ffn_norm"), s.Width),
			matrix(name("ffn_gate"), s.FeedForward, s.Width),
			matrix(name("ffn_up"), s.FeedForward, s.Width),
			matrix(name("ffn_down"), s.Width, s.FeedForward),
		)
	}
	return append(all, ones("output_norm.weight", s.Width), head)
}

// onlySpeakable zeroes the weights of every token but a-z and space, so that greedy decoding gives valid UTF-8 and a
// server never withholds a piece of a stream to complete a character.
func onlySpeakable(row func(int, []float32)) func(int, []float32) {
	return func(token int, weights []float32) {
		row(token, weights)
		if token != ' ' && (token < 'a' || token > 'z') {
			clear(weights)
		}
	}
}

func ones(name string, width int) tensor {
	return tensor{name: name, columns: width, row: func(_ int, weights []float32) {
		for i := range weights {
			weights[i] = 1
		}
	}}
}
