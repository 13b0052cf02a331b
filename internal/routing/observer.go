package routing

import "time"

// Observer is a Strategy that learns from the requests it has placed.
type Observer interface {
	Strategy
	// Began notes that the request goes to c, which Rank has just put first. It is called in the same hold of the fleet's lock as
	// that Rank, so that the next decision sees this one.
	Began(q *Query, c *Candidate) Flight
}

// Flight is one request on one replica. FirstToken comes at most once, Ended exactly once and last.
type Flight interface {
	// FirstToken notes when the first generated token came.
	FirstToken(at time.Time)
	// Ended notes how it ended. The query's chain is not read any more after it.
	Ended(o Outcome)
}

// Outcome is how a request on a replica ended, and what its engine reported.
type Outcome struct {
	At time.Time
	// Answered says that the engine gave a whole answer with a status of success.
	Answered bool
	// Streamed says that the answer came token by token, so that FirstToken tells when its prefill was over.
	Streamed bool
	// PromptTokens and OutputTokens are as the engine counts; 0 = not reported.
	PromptTokens, OutputTokens int
	// CachedTokens are those of the prompt that the engine found in its cache; they hold only if CachedKnown.
	CachedTokens int
	CachedKnown  bool
}

// mostTokens is more than any engine takes or gives.
const mostTokens = 1 << 24

// plausible is the outcome without figures that no engine can mean: one such answer would outweigh all that others have taught.
func (o Outcome) plausible() Outcome {
	if o.PromptTokens < 0 || o.PromptTokens > mostTokens {
		o.PromptTokens = 0
	}
	if o.OutputTokens < 0 || o.OutputTokens > mostTokens {
		o.OutputTokens = 0
	}
	o.CachedKnown = o.CachedKnown && o.CachedTokens >= 0 && o.CachedTokens <= o.PromptTokens
	return o
}

// Learner is a Strategy that can say what it has learned.
type Learner interface {
	Learned() Learned
}

// Learned is what KV_AWARE has learned of an endpoint's engines. Times are in milliseconds; a unit of work is the prefill of one
// token without context.
type Learned struct {
	// Latency tells what the first token takes.
	Latency Latency `json:"latency"`
	// StepPerRequest and StepPerToken are what a request in flight, and a token of its prompt, add to one step of generation.
	StepPerRequest float64 `json:"step_ms_per_request"`
	StepPerToken   float64 `json:"step_ms_per_token"`
	// OutputTokens is the mean length of an answer.
	OutputTokens float64 `json:"output_tokens"`
	// BytesPerToken is the length of a token in the canonical prompt.
	BytesPerToken float64 `json:"bytes_per_token"`
	// IndexBytes is the memory that the beliefs take, IndexBlocks how many blocks they are, counted once for each replica.
	IndexBytes  int     `json:"index_bytes"`
	IndexBlocks int     `json:"index_blocks"`
	Caches      []Cache `json:"caches"`
}

// Latency is a learned model of the time to the first token: base + prefill*units + queue*units queued + request*requests in flight.
type Latency struct {
	Base    float64 `json:"base_ms"`
	Prefill float64 `json:"prefill_ms_per_unit"`
	Queue   float64 `json:"queue_ms_per_unit"`
	Request float64 `json:"request_ms"`
}

// Cache is what a replica's cache is believed to be, in tokens.
type Cache struct {
	Replica  string  `json:"replica"`
	Capacity float64 `json:"capacity_tokens"`
	Held     float64 `json:"held_tokens"`
}
