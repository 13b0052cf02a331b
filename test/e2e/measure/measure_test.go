//go:build e2e

// Package measure simulates recorded and published workloads and prints what routing gains beside published figures.
package measure

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/emulator"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/simulate"
	"github.com/warmpath/warmpath/internal/workload"
)

// dataVariable names the folder that holds recorded traces, which are not part of the repository, in data/traces; without it, that is
// the folder "shared" beside the repository.
const dataVariable = "WARMPATH_E2E_DATA"

// conversation is the trace of that name of the Mooncake project (kvcache-ai/Mooncake, FAST25-release/traces/conversation_trace.jsonl):
// one hour of 12,031 chats, at times rounded to 3 s.
const (
	conversation     = "mooncake_conversation.jsonl.gz"
	conversationStep = 3 * time.Second
)

// shareGPT is 300 conversations of ShareGPT, by blocks of 16 tokens of Llama 3.1's tokenizer.
const shareGPT = "sharegpt300_llama31_blk16.jsonl.gz"

// sageMakerEighth is an eighth of the prefixes and requests of SageMaker's shape, for caches of an eighth.
const sageMakerEighth = "sagemaker:prefixes=50,requests=1800"

func openConversation(t *testing.T) workload.Workload {
	t.Helper()
	return workload.Spread(openTrace(t, conversation, workload.TraceOptions{}), conversationStep, 1)
}

// openTrace opens one of the recorded traces.
func openTrace(t *testing.T, name string, o workload.TraceOptions) workload.Workload {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	folder := cmp.Or(os.Getenv(dataVariable), filepath.Join(filepath.Dir(root), "shared"))
	trace, err := workload.OpenTrace(filepath.Join(folder, "data", "traces", name), o)
	if err != nil {
		t.Fatalf("%v\nset %s to the folder that holds data/traces/%s", err, dataVariable, name)
	}
	return trace
}

// fleet is eight 70B engines with 2,000,000 tokens of cache each.
func fleet(s simulate.Strategy) simulate.Options {
	return simulate.Options{Replicas: 8, CacheTokens: 2_000_000, Cost: emulator.Cost70B, Strategy: s, Seed: 1}
}

func run(t *testing.T, w workload.Workload, o simulate.Options) *bench.Run {
	t.Helper()
	result, err := simulate.Run(t.Context(), w, o)
	if err != nil {
		t.Fatal(err)
	}
	if result.Failed+result.Refused > 0 || result.HitRate == nil {
		t.Fatalf("%s: %d failed, %d refused", result.Label(), result.Failed, result.Refused)
	}
	return result
}

// bound is the share of blocks, 0 to 1, that one cache without limits would have held already.
func bound(t *testing.T, w workload.Workload) float64 {
	t.Helper()
	seen := map[uint64]bool{}
	hits, blocks := 0, 0
	for r := range w.Requests() {
		for _, id := range r.Blocks {
			if seen[id] {
				hits++
			}
			seen[id] = true
			blocks++
		}
	}
	if w.Err() != nil || blocks == 0 {
		t.Fatalf("%d blocks, %v", blocks, w.Err())
	}
	return float64(hits) / float64(blocks)
}

func prefixAware(length, threshold int) simulate.Strategy {
	return simulate.Strategy{Name: routing.NamePrefixAware, Options: routing.Options{PrefixLength: length, ConcurrencyThreshold: threshold}}
}

// table prints runs as rows.
func table(w io.Writer, runs []*bench.Run) {
	rows := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(rows, "hit rate\toverflow\timbalance\tTTFT P50\tP90\tP99\tE2E P50\trequests/s\t  strategy")
	for _, r := range runs {
		fmt.Fprintf(rows, "%.3f\t%.3f\t%.2f\t%.0f\t%.0f\t%.0f\t%.0f\t%.2f\t  %s\n",
			*r.HitRate, r.OverflowShare, r.Imbalance(), r.TTFT.P50, r.TTFT.P90, r.TTFT.P99, r.E2E.P50, r.RequestsPerSecond, r.Label())
	}
	rows.Flush()
}
