//go:build e2eloadtools

package loadtools

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/test/e2e/lab"
	"github.com/warmpath/warmpath/test/e2e/lab/tinymodel"
)

const (
	// A prompt is a shared beginning and a part of its own. With the model's tokenizer a token is a byte.
	documents, documentTokens, ownTokens, outputTokens = 8, 2400, 600, 16
	// requestsPerSecond keeps the engines half busy on two cores that have nothing else to do.
	requestsPerSecond, seconds = 2, 36
	count                      = requestsPerSecond * seconds
	// concurrency is of the tool that knows no rates.
	concurrency = 2
)

// tool is a load tool and a workload that it generates.
type tool struct {
	name string
	pypi lab.Package
	// run sends requests to an OpenAI-style URL and returns what the tool says of them.
	run func(t *testing.T, programs, url string) figures
	// closed is how many requests the tool keeps open, if it knows no times. Those that are open when it has enough it breaks off and
	// does not count.
	closed int
}

var aiperf = lab.Package{Name: "aiperf", Release: "0.13.0"}

var tools = []tool{
	{"aiperf, prefix pool", aiperf, aiperfPool, 0},
	{"aiperf, Mooncake trace", aiperf, aiperfTrace, 0},
	{"inference-perf, shared_prefix", lab.Package{Name: "inference-perf", Release: "0.7.0", Python: "3.12"}, inferencePerf, 0},
	{"genai-bench, prefix", lab.Package{Name: "genai-bench", Release: "0.0.5"}, genaiBench, concurrency},
}

func aiperfPool(t *testing.T, programs, url string) figures {
	return runAIPerf(t, programs, url, "--num-prefix-prompts", fmt.Sprint(documents), "--prefix-prompt-length", fmt.Sprint(documentTokens),
		"--isl", fmt.Sprint(ownTokens), "--osl", fmt.Sprint(outputTokens), "--request-rate", fmt.Sprint(requestsPerSecond),
		"--num-dataset-entries", fmt.Sprint(count), "--request-count", fmt.Sprint(count))
}

// aiperfTrace plays conversations that grow by a block a turn, in the format of Mooncake's traces.
func aiperfTrace(t *testing.T, programs, url string) figures {
	const block, turns = 512, count / documents
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	file, err := os.Create(path)
	if err != nil {
		t.Fatalf("trace: %v", err)
	}
	defer file.Close()
	for i := range documents * turns {
		conversation, turn := i%documents, i/documents
		blocks := make([]int, turn+2)
		for b := range blocks {
			blocks[b] = conversation*(turns+2) + b
		}
		row := map[string]any{"timestamp": i * 1000 / requestsPerSecond, "input_length": len(blocks) * block, "output_length": outputTokens, "hash_ids": blocks}
		if err := json.NewEncoder(file).Encode(row); err != nil {
			t.Fatalf("trace: %v", err)
		}
	}
	return runAIPerf(t, programs, url, "--input-file", path, "--custom-dataset-type", "mooncake_trace", "--fixed-schedule", "--isl-block-size", fmt.Sprint(block))
}

func runAIPerf(t *testing.T, programs, url string, workload ...string) figures {
	t.Helper()
	folder := t.TempDir()
	name, home := hubTokenizer(t)
	run(t, folder, []string{"HF_HOME=" + home, "HF_HUB_OFFLINE=1"}, filepath.Join(programs, "aiperf"), append([]string{"profile",
		"--model", lab.ModelName, "--url", url, "--endpoint-type", "chat", "--streaming", "--tokenizer", name,
		"--use-server-token-count", "--extra-inputs", `{"temperature":0,"ignore_eos":true}`, "--random-seed", "1",
		"--artifact-dir", folder, "--ui", "none", "--no-gpu-telemetry", "--no-server-metrics"}, workload...)...)
	var report struct {
		Requests metric `json:"request_count"`
		Errors   metric `json:"error_request_count"`
		TTFT     metric `json:"time_to_first_token"`
		Cached   metric `json:"overall_usage_prompt_cache_read_pct"`
	}
	read(t, filepath.Join(folder, "profile_export_aiperf.json"), &report)
	return figures{requests: int(report.Requests.Avg), failed: int(report.Errors.Avg), ttft: report.TTFT.P50, cached: report.Cached.Avg / 100}
}

// metric is how aiperf writes a figure.
type metric struct{ Avg, P50 float64 }

func inferencePerf(t *testing.T, programs, url string) figures {
	folder := t.TempDir()
	type object = map[string]any
	configuration, err := json.Marshal(object{ // which is YAML too
		"api":    object{"type": "completion", "streaming": true},
		"server": object{"type": "vllm", "model_name": lab.ModelName, "base_url": url, "ignore_eos": true},
		"data": object{"type": "shared_prefix", "shared_prefix": object{"num_groups": documents, "num_prompts_per_group": count / documents,
			"system_prompt_len": documentTokens, "question_len": ownTokens, "output_len": outputTokens, "seed": 1}},
		"load": object{"type": "poisson", "num_workers": 1, "base_seed": 1,
			"stages": []object{{"rate": requestsPerSecond, "duration": seconds}}},
		"tokenizer": object{"pretrained_model_name_or_path": tokenizer(t)},
		"storage":   object{"local_storage": object{"path": folder}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "config.yaml")
	if err := os.WriteFile(path, configuration, 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, folder, nil, filepath.Join(programs, "inference-perf"), "--config_file", path)
	var report struct {
		Successes struct {
			Count   int
			Latency struct {
				TTFT struct{ Median float64 } `json:"time_to_first_token"` // seconds
			}
			Prompt struct{ Cached, Uncached float64 } `json:"prompt_tokens"`
		}
		Failures struct{ Count int }
	}
	read(t, filepath.Join(folder, "summary_lifecycle_metrics.json"), &report)
	s := report.Successes
	return figures{requests: s.Count + report.Failures.Count, failed: report.Failures.Count, ttft: 1000 * s.Latency.TTFT.Median,
		cached: s.Prompt.Cached / (s.Prompt.Cached + s.Prompt.Uncached)}
}

// genaiBench knows one shared beginning, and only a closed loop.
func genaiBench(t *testing.T, programs, url string) figures {
	folder := t.TempDir()
	run(t, folder, nil, filepath.Join(programs, "genai-bench"), "benchmark", "--api-backend", "vllm", "--task", "text-to-text", "--api-base", url, "--api-key", "none", "--api-model-name", lab.ModelName, "--model", lab.ModelName, "--model-tokenizer", tokenizer(t),
		"--traffic-scenario", fmt.Sprintf("D(%d,%d)", documentTokens+ownTokens, outputTokens), "--prefix-len", fmt.Sprint(documentTokens),
		"--num-concurrency", fmt.Sprint(concurrency), "--max-requests-per-run", fmt.Sprint(count), "--max-time-per-run", "5",
		"--experiment-base-dir", folder, "--experiment-folder-name", "run", "--log-dir", folder)
	var report struct {
		Metrics struct {
			Completed int `json:"num_completed_requests"`
			Failed    int `json:"num_error_requests"`
			Stats     struct {
				TTFT struct{ P50 float64 } // seconds
			}
		} `json:"aggregated_metrics"`
	}
	files, _ := filepath.Glob(filepath.Join(folder, "run", "*concurrency*.json")) // the pattern is well formed
	if len(files) != 1 {
		t.Fatalf("genai-bench: wrote reports %v, want one", files)
	}
	read(t, files[0], &report)
	m := report.Metrics
	return figures{requests: m.Completed + m.Failed, failed: m.Failed, ttft: 1000 * m.Stats.TTFT.P50, cached: math.NaN()}
}

// tokenizer is a folder with one for the model: no tool is to look for it elsewhere.
func tokenizer(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	if err := tinymodel.WriteTokenizer(folder); err != nil {
		t.Fatal(err)
	}
	return folder
}

// hubTokenizer is the same as if it had been downloaded: aiperf refuses folders where it works offline, and reads traces offline always.
func hubTokenizer(t *testing.T) (name, home string) {
	t.Helper()
	const revision = "0000000000000000000000000000000000000000"
	home = t.TempDir()
	model := filepath.Join(home, "hub", "models--local--tiny")
	snapshot, refs := filepath.Join(model, "snapshots", revision), filepath.Join(model, "refs")
	if err := errors.Join(os.MkdirAll(snapshot, 0o755), os.MkdirAll(refs, 0o755), tinymodel.WriteTokenizer(snapshot),
		os.WriteFile(filepath.Join(refs, "main"), []byte(revision), 0o644)); err != nil {
		t.Fatal(err)
	}
	return "local/tiny", home
}

// run runs a tool to its end, which must be a good one.
func run(t *testing.T, folder string, environment []string, program string, arguments ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, arguments...)
	command.Dir = folder
	command.Env = append(append(os.Environ(), "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1"), environment...)
	log := lab.LogFile(t, filepath.Base(program))
	command.Stdout, command.Stderr = log, log
	if err := command.Run(); err != nil {
		t.Fatalf("%s %s: %v", program, strings.Join(arguments, " "), err)
	}
}

// read reads a tool's report.
func read(t *testing.T, path string, report any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, report)
	}
	if err != nil {
		t.Fatalf("report: %v", err)
	}
}
