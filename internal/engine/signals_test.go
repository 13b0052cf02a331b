package engine

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/fleet"
)

func fixture(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func metered(t testing.TB, name string) Metered {
	t.Helper()
	e, _ := Lookup(name)
	m, ok := e.(Metered)
	if !ok {
		t.Fatalf("engine %s has no metrics page", name)
	}
	return m
}

func TestSignals(t *testing.T) {
	tests := []struct {
		name, engine, page string
		want               fleet.Signals
	}{
		{"vLLM 0.32, idle after traffic", "vllm", fixture(t, "vllm.txt"), fleet.Signals{
			Running: fleet.Read(0), Waiting: fleet.Read(0), CacheUsage: fleet.Read(0), CacheTokens: 131072, BlockTokens: 128,
			QueryTokens: fleet.Read(99192), HitTokens: fleet.Read(28288),
		}},
		{"vLLM before the cache's names changed", "vllm", `
			vllm:num_requests_running{model_name="m"} 3.0
			vllm:num_requests_waiting{model_name="m"} 1.0
			vllm:gpu_cache_usage_perc{model_name="m"} 0.25
			vllm:gpu_prefix_cache_queries_total{model_name="m"} 1000.0
			vllm:gpu_prefix_cache_hits_total{model_name="m"} 400.0
			vllm:cache_config_info{block_size="16",num_gpu_blocks="150",num_cpu_blocks="None"} 1.0`, fleet.Signals{
			Running: fleet.Read(3), Waiting: fleet.Read(1), CacheUsage: fleet.Read(0.25), CacheTokens: 2400, BlockTokens: 16,
			QueryTokens: fleet.Read(1000), HitTokens: fleet.Read(400),
		}},
		{"of old and new names the new count", "vllm", `
			vllm:kv_cache_usage_perc 0.5
			vllm:gpu_cache_usage_perc 0.9`, fleet.Signals{CacheUsage: fleet.Read(0.5)}},
		{"data-parallel ranks are added, their shares averaged", "vllm", `
			vllm:num_requests_running{engine="0"} 3
			vllm:num_requests_running{engine="1"} 4
			vllm:kv_cache_usage_perc{engine="0"} 0.2
			vllm:kv_cache_usage_perc{engine="1"} 0.4
			vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="100",kv_cache_size_tokens="1500"} 1
			vllm:cache_config_info{engine="1",block_size="16",num_gpu_blocks="100",kv_cache_size_tokens="1500"} 1`, fleet.Signals{
			Running: fleet.Read(7), CacheUsage: fleet.Read(0.30000000000000004), CacheTokens: 3000, BlockTokens: 16,
		}},
		{"a rank without a cache size leaves the whole unknown", "vllm", `
			vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="100"} 1
			vllm:cache_config_info{engine="1",block_size="16",num_gpu_blocks="None"} 1`, fleet.Signals{BlockTokens: 16}},
		{"one rank asleep", "vllm", `
			vllm:num_requests_running 0
			vllm:engine_sleep_state{engine="0",sleep_state="awake"} 1
			vllm:engine_sleep_state{engine="1",sleep_state="awake"} 0
			vllm:engine_sleep_state{engine="1",sleep_state="weights_offloaded"} 1`, fleet.Signals{Running: fleet.Read(0), Asleep: true}},
		{"colons replaced by a collector", "vllm", "vllm_num_requests_running 2\nvllm:num_requests_running 2\n", fleet.Signals{Running: fleet.Read(2)}},
		{"SGLang before 0.5.16", "sglang", `
			sglang:num_running_reqs{model_name="m",tp_rank="0"} 5
			sglang:num_running_reqs{model_name="m",tp_rank="1"} 5
			sglang:num_queue_reqs{model_name="m",tp_rank="0"} 2
			sglang:token_usage{model_name="m",tp_rank="0"} 0.28
			sglang:prompt_tokens_total{model_name="m"} 8.128902e+06
			sglang:cached_tokens_total{model_name="m",cache_source="device"} 400000
			sglang:cached_tokens_total{model_name="m",cache_source="host"} 1000
			sglang:cache_config_info{page_size="16",num_pages="1000",tp_rank="0"} 1`, fleet.Signals{
			Running: fleet.Read(5), Waiting: fleet.Read(2), CacheUsage: fleet.Read(0.28), CacheTokens: 16000, BlockTokens: 16,
			QueryTokens: fleet.Read(8128902), HitTokens: fleet.Read(401000),
		}},
		{"SGLang with underscores, gauges and a hierarchical cache", "sglang", `
			sglang_num_running_reqs{dp_rank="0"} 1
			sglang_num_running_reqs{dp_rank="1"} 2
			sglang_page_size{pid="1"} 1
			sglang_num_pages{pid="1"} 200000
			sglang_max_total_num_tokens{pid="1"} 200000
			sglang_hicache_host_total_tokens{pid="1"} 400000`, fleet.Signals{Running: fleet.Read(3), CacheTokens: 400000, BlockTokens: 1}},
		{"SGLang with gauges of pages alone", "sglang", "sglang:page_size 64\nsglang:num_pages 100\n", fleet.Signals{CacheTokens: 6400, BlockTokens: 64}},
		{"trtllm-serve", "tensorrtllm", `
			trtllm_num_requests_running{model_name="m"} 4.0
			trtllm_num_requests_waiting{model_name="m"} 6.0
			trtllm_kv_cache_utilization{model_name="m"} 0.5
			trtllm_kv_cache_max_blocks{model_name="m"} 19960.0
			trtllm_kv_cache_tokens_per_block{model_name="m"} 32.0
			trtllm_kv_cache_reused_blocks_total{model_name="m"} 30.0
			trtllm_kv_cache_missed_blocks_total{model_name="m"} 10.0`, fleet.Signals{
			Running: fleet.Read(4), Waiting: fleet.Read(6), CacheUsage: fleet.Read(0.5), CacheTokens: 638720, BlockTokens: 32,
			QueryTokens: fleet.Read(1280), HitTokens: fleet.Read(960),
		}},
		{"TensorRT-LLM behind Triton", "tensorrtllm", `
			nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 2
			nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 1
			nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512
			nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.25
			nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="tensorrt_llm",version="1"} 64
			nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm",version="1"} 100`, fleet.Signals{
			Running: fleet.Read(1), Waiting: fleet.Read(2), CacheUsage: fleet.Read(0.25), CacheTokens: 6400, BlockTokens: 64,
		}},
		{"llama.cpp without a counter of hits", "llamacpp", fixture(t, "llamacpp.txt"), fleet.Signals{Running: fleet.Read(0), Waiting: fleet.Read(0)}},
		{"llama.cpp with one: evaluated and cached are the whole", "llamacpp", `
			llamacpp:requests_processing 1
			llamacpp:prompt_tokens_total 300
			llamacpp:prompt_tokens_cached_total 700`, fleet.Signals{
			Running: fleet.Read(1), QueryTokens: fleet.Read(1000), HitTokens: fleet.Read(700),
		}},
		{"llama.cpp of old", "llamacpp", "llamacpp:kv_cache_usage_ratio 0.75\n", fleet.Signals{CacheUsage: fleet.Read(0.75)}},
		{"llm-d's simulator of vLLM", "generic", fixture(t, "llm-d-sim.txt"), fleet.Signals{
			Running: fleet.Read(0), Waiting: fleet.Read(0), CacheUsage: fleet.Read(0), CacheTokens: 2400, BlockTokens: 16,
			QueryTokens: fleet.Read(5000), HitTokens: fleet.Read(2880),
		}},
		{"another server with vLLM's names", "generic", "vllm:num_requests_waiting 9\n", fleet.Signals{Waiting: fleet.Read(9)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := metered(t, tt.engine).ReadSignals([]byte(strings.ReplaceAll(tt.page, "\t", "")))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPageWithoutSignals holds that no page of nonsense reads as a load of zero.
func TestPageWithoutSignals(t *testing.T) {
	const running = "vllm:num_requests_running"
	pages := map[string]string{
		"empty":              "",
		"HTML":               "<html><body>404</body></html>",
		"JSON":               `[{"iter": 1, "numActiveRequests": 0}]`,
		"other names":        "process_cpu_seconds_total 1\n",
		"comments":           "# HELP " + running + " x\n# TYPE " + running + " gauge\n",
		"not a number":       running + " NaN\n",
		"infinite":           running + " +Inf\n",
		"negative":           running + " -1\n",
		"huge":               running + " 1e300\n",
		"a rank is broken":   running + "{engine=\"0\"} 1\n" + running + "{engine=\"1\"} NaN\n",
		"cut off":            running + "{engine=\"0",
		"no value":           running + "\n",
		"text for a value":   running + " many\n",
		"a share above 1":    "vllm:kv_cache_usage_perc 57.2\n",
		"awake and no more":  `vllm:engine_sleep_state{sleep_state="awake"} 1`,
		"an unknown size":    `vllm:cache_config_info{block_size="None",num_gpu_blocks="-4"} 1`,
		"a size beyond size": `vllm:cache_config_info{kv_cache_size_tokens="1e300"} 1`,
	}
	for name, text := range pages {
		for _, kind := range Names() {
			if got, err := metered(t, kind).ReadSignals([]byte(text)); !errors.Is(err, ErrNoSignals) || got != (fleet.Signals{}) {
				t.Errorf("%s, %s: got %+v, %v; want no signals", kind, name, got, err)
			}
		}
	}
}

// TestBrokenLineCostsNoOtherFigure holds that a page is not given up for one line.
func TestBrokenLineCostsNoOtherFigure(t *testing.T) {
	got, err := metered(t, "vllm").ReadSignals([]byte("vllm:num_requests_running{ 1\nvllm:num_requests_waiting 2\n\x00\xff{{{\n"))
	if want := (fleet.Signals{Waiting: fleet.Read(2)}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func FuzzReadSignals(f *testing.F) {
	f.Add([]byte(fixture(f, "llamacpp.txt")))
	f.Add([]byte("vllm:num_requests_running{engine=\"0\"} 1 1700000000\nvllm:num_requests_running{engine=\"1\"} NaN\n"))
	f.Add([]byte("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"150\"} 1\nvllm_kv_cache_usage_perc 0.5\n"))
	f.Add([]byte("sglang:cache_config_info{page_size=\"64\",num_pages=\"9\",tp_rank=\"1\"} 1\nsglang:cached_tokens_total 5\n"))
	f.Add([]byte("trtllm_kv_cache_tokens_per_block 1e14\ntrtllm_kv_cache_reused_blocks_total 1e14\ntrtllm_kv_cache_missed_blocks_total 1\n"))
	f.Add([]byte("nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"max\"} 3\n"))
	f.Add([]byte("llamacpp:prompt_tokens_total 0x1p3\nllamacpp:prompt_tokens_cached_total 1_0\n{\"a\"} 1\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, kind := range Names() {
			s, err := metered(t, kind).ReadSignals(text)
			if (err != nil) != (s == (fleet.Signals{})) {
				t.Errorf("%s: %+v, %v; want an error exactly if nothing is known", kind, s, err)
			}
			for figure, r := range map[string]fleet.Reading{"running": s.Running, "waiting": s.Waiting, "usage": s.CacheUsage, "queries": s.QueryTokens, "hits": s.HitTokens} {
				if math.IsNaN(r.Value) || r.Value < 0 || r.Value > 1e27 || !r.Known && r.Value != 0 {
					t.Errorf("%s: %s is %+v", kind, figure, r)
				}
			}
			if s.CacheUsage.Value > 1 || s.CacheTokens < 0 || s.BlockTokens < 0 || s.At != (time.Time{}) {
				t.Errorf("%s: %+v", kind, s)
			}
		}
	})
}

func BenchmarkReadSignals(b *testing.B) {
	text := []byte(fixture(b, "vllm.txt"))
	m := metered(b, "vllm")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.ReadSignals(text); err != nil {
			b.Fatal(err)
		}
	}
}
