package demo

import (
	"iter"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/emulator"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/workload"
)

// Model is the name of the model that the emulated engines serve.
const Model = "demo-70b"

// Strategy is a strategy and its settings.
type Strategy struct {
	Name string
	bench.Knobs
}

// Scenario is everything a demo depends on.
type Scenario struct {
	Listen, AdminListen string // where Warmpath is wanted, HOST:PORT

	Replicas   int           // emulated engines
	Cost       emulator.Cost // of each
	CacheShare float64       // of the working set that fits in one engine's cache, 0 to 1
	TimeScale  float64       // how many times faster than Cost says everything runs
	Strategies []Strategy    // one run for each, in this order

	Seed      uint64 // of Warmpath's random choices
	Documents workload.RAG
	Chats     workload.MultiTurn
}

// Default is what `warmpath demo` plays. 240 documents and conversations of about 4,000 tokens: enough for a hash to spread them
// evenly over four replicas (one of them gets 1.5 times the mean in 2 of 100,000 placements: 90 or more of 240 at 1/4 each), and a
// working set of which one cache holds 36 % and the four together hold it all. The load keeps the fleet busy, and does not yet
// overload it, when four prompts of five are computed anew.
func Default() Scenario {
	shape := workload.Shape{Seed: 1, Rate: 5.6, Model: Model, AnswerTokens: 24}
	return Scenario{
		Listen: "127.0.0.1:8080", AdminListen: "127.0.0.1:8081",
		Replicas: 4, Cost: emulator.Cost70B, CacheShare: 0.36, TimeScale: 10,
		Strategies: []Strategy{
			{Name: routing.NameRandom},
			{Name: routing.NameLeastOutstanding},
			{Name: routing.NamePrefixAware, Knobs: bench.Knobs{PrefixLength: 4096, ConcurrencyThreshold: 16}},
			{Name: routing.NameKVAware},
		},
		Seed: 1,
		Documents: workload.RAG{
			Shape: shape, Documents: 120, DocumentTokens: 4000, Questions: 5, QuestionTokens: 40,
		},
		Chats: workload.MultiTurn{
			Shape: shape, Conversations: 120, OpeningTokens: 3600, Turns: 5, QuestionTokens: 120,
		},
	}
}

// Len is the number of requests of one run.
func (s *Scenario) Len() int { return s.Documents.Len() + s.Chats.Len() }

// WorkingSet is the length in tokens of all distinct text of the workload.
func (s *Scenario) WorkingSet() int { return s.Documents.Tokens() + s.Chats.Tokens() }

// CacheTokens is the size of one engine's cache, in tokens.
func (s *Scenario) CacheTokens() int { return int(s.CacheShare * float64(s.WorkingSet())) }

// Requests gives the requests of one run in order of time, document questions and conversations mixed.
func (s *Scenario) Requests() iter.Seq[workload.Request] {
	return workload.Merge(s.Documents.Requests(), s.Chats.Requests())
}

// blockSize is vLLM's default, in tokens.
const blockSize = 16

func (s *Scenario) engine() emulator.Options {
	return emulator.Options{
		Models:    []string{Model},
		TimeScale: s.TimeScale,
		Config:    emulator.Config{Cost: s.Cost, BlockSize: blockSize, Blocks: s.CacheTokens() / blockSize},
	}
}
