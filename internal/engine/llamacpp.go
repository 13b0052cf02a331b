package engine

import "github.com/warmpath/warmpath/internal/fleet"

// llamaCPP is llama-server of llama.cpp. Its port opens at once and its health path answers 503 while the model loads; that
// path stays fast (under 2 ms) while prompts are computed.
type llamaCPP struct{}

var (
	_ Metered      = llamaCPP{}
	_ PromptKeeper = llamaCPP{}
	_ ApartCounter = llamaCPP{}
)

func (llamaCPP) Name() string       { return "llamacpp" }
func (llamaCPP) HealthPath() string { return "/health" }

// WholePrompts is true: a slot holds one sequence, and so does an entry of the cache in the host's memory.
func (llamaCPP) WholePrompts() bool { return true }

func (llamaCPP) CachedApart() bool { return true }

// MetricsPath is there with --metrics. It is answered between two batches, which can be seconds apart (0.02-0.22 s with -b 512,
// 2.5 s with -b 2048).
func (llamaCPP) MetricsPath() string { return "/metrics" }

func (llamaCPP) ReadSignals(text []byte) (fleet.Signals, error) { return llamaCPPPage.read(text) }

// llamaCPPPage has no size of the cache, which depends on the host's memory given to it. The gauge of its use is on the pages of
// older versions only, the counter of cached tokens on those of newer ones.
var llamaCPPPage = layout{
	running: []metric{named("llamacpp_requests_processing")},
	waiting: []metric{named("llamacpp_requests_deferred")},
	usage:   []metric{named("llamacpp_kv_cache_usage_ratio")},
	prefix: func(p page) (queries, hits fleet.Reading) {
		evaluated, cached := p.sum(named("llamacpp_prompt_tokens_total")), p.sum(named("llamacpp_prompt_tokens_cached_total"))
		if !evaluated.Known || !cached.Known {
			return fleet.Reading{}, fleet.Reading{}
		}
		return fleet.Read(evaluated.Value + cached.Value), cached
	},
}
