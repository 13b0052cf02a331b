package bench

// usage is the usage object of the three APIs: prompt_tokens of chat and completions, input_tokens of messages and responses.
type usage struct {
	PromptTokens     int           `json:"prompt_tokens"`
	CompletionTokens int           `json:"completion_tokens"`
	PromptDetails    *cachedTokens `json:"prompt_tokens_details"`

	InputTokens   int           `json:"input_tokens"`
	OutputTokens  int           `json:"output_tokens"`
	InputDetails  *cachedTokens `json:"input_tokens_details"`        // responses
	CacheRead     *int          `json:"cache_read_input_tokens"`     // messages
	CacheCreation *int          `json:"cache_creation_input_tokens"` // messages
}

type cachedTokens struct {
	Cached *int `json:"cached_tokens"`
}

// take adds what a later report knows: messages tell the input at a stream's start and the output at its end.
func (u *usage) take(later *usage) {
	*u = usage{
		PromptTokens: later.PromptTokens, CompletionTokens: later.CompletionTokens,
		PromptDetails: known(later.PromptDetails, u.PromptDetails), InputDetails: known(later.InputDetails, u.InputDetails),
		InputTokens: max(later.InputTokens, u.InputTokens), OutputTokens: max(later.OutputTokens, u.OutputTokens),
		CacheRead: known(later.CacheRead, u.CacheRead), CacheCreation: known(later.CacheCreation, u.CacheCreation),
	}
}

func known[T any](later, earlier *T) *T {
	if later != nil {
		return later
	}
	return earlier
}

// output is the number of tokens generated.
func (u *usage) output() int { return max(u.CompletionTokens, u.OutputTokens) }

// prompt is the whole prompt's length in tokens.
func (u *usage) prompt() int {
	if u.cacheApart() {
		return u.InputTokens + value(u.CacheRead) + value(u.CacheCreation)
	}
	return max(u.PromptTokens, u.InputTokens)
}

// cacheApart says that input_tokens leaves out what the cache had, as Anthropic and llama.cpp count. vLLM counts it in. llama.cpp is
// known by the count of created tokens that it never gives, Anthropic by parts that are more than the whole would be; where they
// are not more, it is taken for vLLM.
func (u *usage) cacheApart() bool {
	return u.CacheRead != nil && (u.CacheCreation == nil || value(u.CacheRead)+value(u.CacheCreation) > u.InputTokens)
}

// cached reports false if the engine says nothing of its cache.
func (u *usage) cached() (tokens int, reported bool) {
	for _, d := range []*cachedTokens{u.PromptDetails, u.InputDetails} {
		if d != nil && d.Cached != nil {
			return *d.Cached, true
		}
	}
	return value(u.CacheRead), u.CacheRead != nil
}

func value(n *int) int {
	if n == nil {
		return 0
	}
	return *n
}
