package engine

import "github.com/warmpath/warmpath/internal/fleet"

// tensorRTLLM is trtllm-serve, the OpenAI server of TensorRT-LLM. TensorRT-LLM behind Triton answers on
// /v2/health/ready instead, which the configuration can name.
type tensorRTLLM struct{}

var _ Metered = tensorRTLLM{}

func (tensorRTLLM) Name() string       { return "tensorrtllm" }
func (tensorRTLLM) HealthPath() string { return "/health" }

// MetricsPath is there with return_perf_metrics: true. /metrics is something else, JSON of the iterations since it was last
// asked for.
func (tensorRTLLM) MetricsPath() string { return "/prometheus/metrics" }

func (tensorRTLLM) ReadSignals(text []byte) (fleet.Signals, error) { return trtllmPage.read(text) }

// trtllmPage knows the names of trtllm-serve and, second, those of TensorRT-LLM behind Triton, which has no prefix counters.
var trtllmPage = layout{
	running: []metric{named("trtllm_num_requests_running"), {"nv_trt_llm_request_metrics", "request_type", "scheduled"}},
	waiting: []metric{named("trtllm_num_requests_waiting"), {"nv_trt_llm_request_metrics", "request_type", "waiting"}},
	usage:   []metric{named("trtllm_kv_cache_utilization"), tritonBlocks("fraction")},
	tokens: func(p page) (cache, block float64) {
		block = max(p.largest(named("trtllm_kv_cache_tokens_per_block")), p.largest(tritonBlocks("tokens_per")))
		return p.sum(named("trtllm_kv_cache_max_blocks"), tritonBlocks("max")).Value * block, block
	},
	prefix: func(p page) (queries, hits fleet.Reading) {
		block := p.largest(named("trtllm_kv_cache_tokens_per_block"))
		reused, missed := p.sum(named("trtllm_kv_cache_reused_blocks_total")), p.sum(named("trtllm_kv_cache_missed_blocks_total"))
		if block == 0 || block > mostBlock || !reused.Known || !missed.Known {
			return fleet.Reading{}, fleet.Reading{}
		}
		return fleet.Read((reused.Value + missed.Value) * block), fleet.Read(reused.Value * block)
	},
}

// mostBlock is more tokens than a block of any cache holds.
const mostBlock = 1e6

func tritonBlocks(kind string) metric {
	return metric{"nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type", kind}
}
