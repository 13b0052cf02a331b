package engine

import (
	"bytes"
	"encoding/json"

	"github.com/warmpath/warmpath/internal/fleet"
)

// vllm is the OpenAI server of vLLM. Its port opens only when the model is loaded, so a replica that starts refuses
// connections rather than answer 503. A server that is asleep or paused still answers its health path with 200; that it sleeps
// stands on its metrics page, that it is paused has a path of its own.
type vllm struct{}

var (
	_ Metered  = vllm{}
	_ Pausable = vllm{}
	_ Mortal   = vllm{}
)

func (vllm) Name() string        { return "vllm" }
func (vllm) HealthPath() string  { return "/health" }
func (vllm) MetricsPath() string { return "/metrics" }

func (vllm) ReadSignals(text []byte) (fleet.Signals, error) { return vllmPage.read(text) }

// GivesUp knows what becomes of requests when the engine core has crashed, when SIGTERM comes, and when the engine is paused: an
// EngineDeadError, with status 500 or as a stream's first event, or an end that no client has asked for. Which one SIGTERM brings is
// chance. No text of a model looks like either: its quotes are escaped.
func (vllm) GivesUp(beginning []byte) bool {
	said, _, dead := bytes.Cut(beginning[:min(len(beginning), longestNotice)], []byte("EngineCore encountered an issue"))
	return dead && (bytes.Contains(said, []byte(`"error":{`)) || bytes.Contains(said, []byte(`"error": {`))) ||
		bytes.Contains(beginning, []byte(`"finish_reason":"abort"`))
}

// longestNotice is how far into an answer an EngineDeadError reaches at most, in bytes.
const longestNotice = 512

// PausedPath is there if the path that pauses the engine is, with VLLM_SERVER_DEV_MODE=1.
func (vllm) PausedPath() string { return "/is_paused" }

func (vllm) ReadPaused(answer []byte) bool {
	var says struct {
		Paused bool `json:"is_paused"`
	}
	return json.Unmarshal(answer, &says) == nil && says.Paused
}

// vllmPage knows the names of vLLM's V1 engine and, second, those from before the cache's lost their gpu_ (0.8 and 0.9). The
// external_prefix_cache counters, of caches beyond the GPU, are another thing and are not read.
var vllmPage = layout{
	running: []metric{named("vllm_num_requests_running")},
	waiting: []metric{named("vllm_num_requests_waiting")},
	usage:   []metric{named("vllm_kv_cache_usage_perc"), named("vllm_gpu_cache_usage_perc")},
	tokens:  vllmTokens,
	prefix: func(p page) (queries, hits fleet.Reading) {
		return p.sum(named("vllm_prefix_cache_queries_total"), named("vllm_gpu_prefix_cache_queries_total")),
			p.sum(named("vllm_prefix_cache_hits_total"), named("vllm_gpu_prefix_cache_hits_total"))
	},
	asleep: func(p page) bool {
		for _, rank := range p.samples(metric{"vllm_engine_sleep_state", "sleep_state", "awake"}) {
			if rank.value == 0 {
				return true
			}
		}
		return false
	},
}

// vllmTokens adds up the caches of the data-parallel ranks, each described by the labels of an info series. Older versions do
// not give the size in tokens, which for models with several kinds of attention is less than blocks times block size.
func vllmTokens(p page) (cache, block float64) {
	for _, rank := range p.samples(named("vllm_cache_config_info")) {
		size, blockSize := rank.number("kv_cache_size_tokens"), rank.number("block_size")
		if size == 0 {
			size = rank.number("num_gpu_blocks") * blockSize
		}
		if size == 0 {
			return 0, blockSize
		}
		cache, block = cache+size, max(block, blockSize)
	}
	return cache, block
}
