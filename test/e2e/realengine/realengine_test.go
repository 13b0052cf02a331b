//go:build e2ereal

// Package realengine runs the real Warmpath in front of real llama.cpp servers and measures what their caches gain.
package realengine

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/report"
	"github.com/warmpath/warmpath/test/e2e/lab"
)

var (
	seedList     = flag.String("seeds", "1", "what the workloads are drawn from, each in a run of its own, separated by commas")
	workloadList = flag.String("workloads", "documents,preamble,sessions,cold", "what is played, separated by commas; also: agents")
	outFolder    = flag.String("out", "bin/e2e-real", "where tables, reports and traces go, below the repository unless absolute")
)

const (
	// contextTokens has room for the longest prompt.
	contextTokens = 8192
	// strategies are one run each, of the same requests. PREFIX_AWARE has a window of 1 KB and a threshold that is only reached where
	// all prompts begin alike.
	strategies = "RANDOM,LEAST_OUTSTANDING_REQUESTS,PREFIX_AWARE:prefix_length=1024,concurrency_threshold=16,KV_AWARE"
	// coldTTFT is what a document takes that is in no cache, beside another one, on two cores that have nothing else to do.
	coldTTFT = 900 * time.Millisecond
	// slowest is the least share of the workloads' rate: a run must end.
	slowest = 0.4
)

// workloads are drawn from a seed.
//
// Documents: all fit into the fleet's caches, a third of them into one. A token is a byte, so the window of PREFIX_AWARE
// lies within the document; with the preamble before it, it does not reach it.
//
// Preamble: every prompt in a cache has a copy of it. The fleet's caches hold all documents, if each is on one replica and no
// replica is left out.
//
// Sessions: the first message fills the window, so that PREFIX_AWARE keeps each session on one replica. In the end they are
// three times what one cache holds.
//
// Agents: real prompts of an agent benchmark in their order. Many begin alike, and have one key and one replica.
var workloads = map[string]func(t *testing.T, seed uint64) played{
	"documents": func(_ *testing.T, seed uint64) played { return plain.workload(seed) },
	"preamble": func(_ *testing.T, seed uint64) played {
		d := plain
		d.name, d.preamble = "preamble", 1200
		return d.workload(seed)
	},
	"sessions": func(_ *testing.T, seed uint64) played {
		return sessions{count: 12, turns: 6, opening: 1100, answer: 100, next: 500, perSec: 4}.workload(seed)
	},
	"cold": func(_ *testing.T, seed uint64) played {
		d := plain
		d.name, d.warmUp, d.counted, d.perSec = "cold", 0, 2, 1.5
		return d.workload(seed)
	},
	"agents": func(t *testing.T, _ uint64) played { return agents(t, recordingPath(lab.Repository(t)), 80, 7000, 4) },
}

var plain = documents{name: "documents", count: 12, length: 3000, own: 60, warmUp: 2, counted: 4, perSec: 2}

// TestRealEngines compares strategies, each on engines whose caches start cold.
func TestRealEngines(t *testing.T) {
	out := folder(t)
	f := startFleet(t, replicas)
	f.findSpeed(t, out)
	var all strings.Builder
	for _, seedText := range strings.Split(*seedList, ",") {
		seed, err := strconv.ParseUint(seedText, 10, 64)
		if err != nil {
			t.Fatalf("-seeds: %v", err)
		}
		for _, name := range strings.Split(*workloadList, ",") {
			draw := workloads[name]
			if draw == nil {
				t.Fatalf("-workloads: %q is none of them", name)
			}
			run := fmt.Sprintf("%s-seed%d", name, seed)
			t.Run(run, func(t *testing.T) {
				fmt.Fprintf(&all, "\n=== %s\n%s", run, f.play(t, draw(t, seed), filepath.Join(out, run)))
			})
		}
	}
	if err := os.WriteFile(filepath.Join(out, "table.txt"), []byte(all.String()), 0o644); err != nil {
		t.Error(err)
	}
	t.Logf("%d llama.cpp servers, %d slots and %d MiB of cache each, at %.2f of the workloads' speed%s\ntables, reports, figures and traces are in %s",
		replicas, lab.Slots, lab.CacheMiB, f.speed, all.String(), out)
}

// folder is where the run leaves what it found.
func folder(t *testing.T) string {
	t.Helper()
	path := *outFolder
	if !filepath.IsAbs(path) {
		path = filepath.Join(lab.Repository(t), path)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// play writes a workload's trace, plays it and holds KV_AWARE to its targets. All files begin with the path. It returns the tables.
func (f *fleet) play(t *testing.T, w played, path string) string {
	t.Helper()
	arguments := []string{"--strategy", strategies, "--compare", "--report", path + ".html", "--warmup", strconv.Itoa(w.warmUp)}
	if w.clients > 0 {
		arguments = append(arguments, "--concurrency", strconv.Itoa(w.clients))
	} else {
		arguments = append(arguments, "--speed", fmt.Sprint(f.speed))
	}
	writeTrace(t, w, path+".jsonl")
	result, printed := f.bench(t, path+".jsonl", arguments...)
	if err := os.WriteFile(path+".json", printed, 0o644); err != nil {
		t.Fatal(err)
	}
	table, faults := judge(w.name, result.Runs)
	for _, fault := range faults {
		t.Error(fault)
	}
	page := report.Of(w.name, result.Runs)
	if len(table.Rows) > 0 {
		page.Tables = append(page.Tables, table)
	}
	var text strings.Builder
	if err := page.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// findSpeed finds how much of the workloads' rate this machine bears: at that it is half busy with what it could not find in caches.
// On one that has other things to do, queues would tell more of these than of strategies.
func (f *fleet) findSpeed(t *testing.T, out string) {
	t.Helper()
	path := filepath.Join(out, "speed.jsonl")
	writeTrace(t, plain.workload(0), path)
	result, _ := f.bench(t, path, "--strategy", "LEAST_OUTSTANDING_REQUESTS", "--limit", "6", "--concurrency", "2")
	run := &result.Runs[0]
	if run.Failed+run.Refused > 0 {
		t.Fatalf("documents that are in no cache: %v", run.Errors)
	}
	f.speed = min(1, max(slowest, float64(coldTTFT.Milliseconds())/run.TTFT.P50))
}
