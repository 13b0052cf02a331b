package engine

import "github.com/warmpath/warmpath/internal/fleet"

// sglang is the server of SGLang. It answers 503 while it starts and while it shuts down. Unless it runs with
// SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION=false, its health path generates one token behind the requests that run, so
// under a long prefill the answer takes as long as that prefill's next step and the probe needs a timeout to match.
type sglang struct{}

var _ Metered = sglang{}

func (sglang) Name() string        { return "sglang" }
func (sglang) HealthPath() string  { return "/health" }
func (sglang) MetricsPath() string { return "/metrics" } // there with --enable-metrics

// NullUsage is true: some versions do.
func (sglang) NullUsage() bool { return true }

func (sglang) ReadSignals(text []byte) (fleet.Signals, error) { return sglangPage.read(text) }

var sglangPage = layout{
	running: []metric{named("sglang_num_running_reqs")},
	waiting: []metric{named("sglang_num_queue_reqs")},
	usage:   []metric{named("sglang_token_usage")},
	tokens:  sglangTokens,
	prefix: func(p page) (queries, hits fleet.Reading) {
		return p.sum(named("sglang_prompt_tokens_total")), p.sum(named("sglang_cached_tokens_total"))
	},
}

// sglangTokens takes the size in tokens where there is one. Versions before 0.5.16 describe pages by the labels of an info
// series, later ones by gauges. A hierarchical cache holds in the host's memory what it holds on the GPU and more.
func sglangTokens(p page) (cache, block float64) {
	pages := p.sum(named("sglang_num_pages")).Value
	block = p.largest(named("sglang_page_size"))
	for _, rank := range p.samples(named("sglang_cache_config_info")) {
		pages, block = pages+rank.number("num_pages"), max(block, rank.number("page_size"))
	}
	cache = p.sum(named("sglang_max_total_num_tokens")).Value
	if cache == 0 {
		cache = pages * block
	}
	return max(cache, p.sum(named("sglang_hicache_host_total_tokens")).Value), block
}
