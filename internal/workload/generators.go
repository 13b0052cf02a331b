package workload

import (
	"iter"
	"slices"
)

// The bounds keep every stream of random numbers below 2^32 items.
const (
	maxRequests = 1e9
	maxCount    = 1e6
	maxLength   = 1e6 // tokens
)

func count(name, meaning string, number float64) Option {
	return Option{Name: name, Meaning: meaning, Default: number, Min: 1, Max: maxCount}
}

func length(name, meaning string, tokens float64) Option {
	return Option{Name: name, Meaning: meaning + ", in tokens", Default: tokens, Min: 1, Max: maxLength}
}

// with adds the options that all generators have.
func with(requests, rate, output float64, own ...Option) []Option {
	return append(own,
		Option{Name: "requests", Meaning: "how many there are", Default: requests, Min: 1, Max: maxRequests},
		Option{Name: "rate", Meaning: "mean requests a second, a Poisson process; 0 = all at once", Default: rate, Max: maxCount, Fraction: true},
		length("output", "length of an answer", output))
}

var (
	preamble   = length("preamble", "instructions that all prompts open with", 300)
	popularity = Option{Name: "zipf", Meaning: "exponent s: the i-th is asked about in proportion to 1/i^s; 0 = all equally", Max: 5, Fraction: true}
)

// Generators lists what Parse knows. The caller must not change the options.
func Generators() []Generator { return slices.Clone(generators) }

var generators = []Generator{
	{
		Name:    "rag",
		Meaning: "questions about shared documents, as retrieval-augmented generation asks them",
		Options: with(2048, 8, 128,
			count("documents", "how many there are", 64), length("document", "length of one", 4000), length("question", "length of a question", 40),
			preamble, popularity),
		build: func(s settings, shape Shape) iter.Seq[Request] {
			return RAG{
				Shape: shape, PreambleTokens: s.int("preamble"), Documents: s.int("documents"), DocumentTokens: s.int("document"),
				Questions: s.rounds(s.int("documents")), QuestionTokens: s.int("question"), Zipf: s["zipf"],
			}.Requests()
		},
	},
	{
		Name:    "multi-turn",
		Meaning: "conversations that grow by an answer and a question a turn",
		Options: with(1536, 8, 200,
			count("conversations", "held side by side; ended ones are replaced", 64), length("opening", "length of a first message", 1000),
			count("turns", "requests of a conversation", 6), length("question", "length of a later message", 100)),
		build: func(s settings, shape Shape) iter.Seq[Request] {
			return MultiTurn{
				Shape: shape, Conversations: s.int("conversations"), Waves: s.rounds(s.int("conversations") * s.int("turns")),
				OpeningTokens: s.int("opening"), Turns: s.int("turns"), QuestionTokens: s.int("question"),
			}.Requests()
		},
	},
	{
		Name:    "hot",
		Meaning: "one prefix that much of the traffic shares, the rest sharing nothing or a few others",
		Options: with(2048, 8, 128,
			Option{Name: "share", Meaning: "of the requests with the hot prefix", Default: 0.5, Max: 1, Fraction: true},
			Option{Name: "others", Meaning: "prefixes that the other requests have, drawn equally; 0 = they share nothing", Max: maxCount},
			length("prefix", "length of the hot prefix", 4000), length("question", "length of what follows", 200)),
		build: func(s settings, shape Shape) iter.Seq[Request] {
			return Hot{
				Shape: shape, Count: s.int("requests"), HotShare: s["share"], Others: s.int("others"),
				PrefixTokens: s.int("prefix"), OwnTokens: s.int("question"),
			}.Requests()
		},
	},
	{
		Name:    "agents",
		Meaning: "sessions of a few kinds of agent, with tools and a long system prompt, that grow by a step and its result a turn",
		Options: with(2560, 8, 100,
			count("kinds", "of agents, each with its own tools and system prompt", 4), count("tools", "of a kind", 16),
			length("tool", "length of a tool's description", 100), length("system", "length of a system prompt", 2000),
			count("sessions", "held side by side; ended ones are replaced", 64), count("turns", "requests of a session", 10),
			length("task", "length of a task", 300), length("result", "length of a tool's result", 500)),
		build: func(s settings, shape Shape) iter.Seq[Request] {
			return Agents{
				Shape: shape, Kinds: s.int("kinds"), Tools: s.int("tools"), ToolTokens: s.int("tool"), SystemTokens: s.int("system"),
				Sessions: s.int("sessions"), Waves: s.rounds(s.int("sessions") * s.int("turns")), Turns: s.int("turns"),
				TaskTokens: s.int("task"), ResultTokens: s.int("result"),
			}.Requests()
		},
	},
	{
		Name:    "prefix-repetition",
		Meaning: "groups of prompts with a common prefix; 64 groups of 16 by default, as in SGLang's benchmark of generated shared prefixes",
		Options: with(1024, 16, 256,
			count("groups", "how many there are", 64), length("prefix", "length of a group's prefix", 2048),
			length("question", "length of what follows", 128)),
		build: func(s settings, shape Shape) iter.Seq[Request] {
			return RAG{
				Shape: shape, Documents: s.int("groups"), DocumentTokens: s.int("prefix"),
				Questions: s.rounds(s.int("groups")), QuestionTokens: s.int("question"),
			}.Requests()
		},
	},
	{
		Name:    "sagemaker",
		Meaning: "the shape of Amazon's benchmark of prefix-aware routing: one hour of prompts with long shared prefixes, for 7 replicas",
		Options: with(14400, 4, 200,
			count("prefixes", "how many there are", 400), length("prefix", "length of one, after the preamble", 7700),
			length("question", "length of what follows", 1500), preamble, popularity),
		build: func(s settings, shape Shape) iter.Seq[Request] {
			return RAG{
				Shape: shape, PreambleTokens: s.int("preamble"), Documents: s.int("prefixes"), DocumentTokens: s.int("prefix"),
				Questions: s.rounds(s.int("prefixes")), QuestionTokens: s.int("question"), Zipf: s["zipf"],
			}.Requests()
		},
	},
	{
		Name:    "unrelated",
		Meaning: "prompts that share nothing: the control, where no routing by prefix can gain",
		Options: with(2048, 8, 200, length("prompt", "length of one", 1000)),
		build: func(s settings, shape Shape) iter.Seq[Request] {
			return Hot{Shape: shape, Count: s.int("requests"), OwnTokens: s.int("prompt")}.Requests()
		},
	},
}
