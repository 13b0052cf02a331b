package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/bench"
)

// smallFleet is a workload of a few seconds, and a fleet that can serve it.
var smallFleet = []string{"--workload", "rag:requests=60,documents=6,document=500,output=5", "--replicas", "3", "--cache-tokens", "4000"}

func runSimulate(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	return runCommand(ctx, "simulate", args)
}

func TestSimulatePrintsARunForEachStrategy(t *testing.T) {
	page := filepath.Join(t.TempDir(), "report.html")
	stdout, stderr, err := runSimulate(t.Context(), append(smallFleet, "--report", page)...)
	if err != nil || stderr != "" {
		t.Fatalf("error %v, standard error %q", err, stderr)
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, label := range []string{"RANDOM", "LEAST_OUTSTANDING_REQUESTS", "PREFIX_AWARE 4096/16", "KV_AWARE"} {
		if !strings.Contains(stdout, label) || !strings.Contains(string(html), label) {
			t.Errorf("%s is missing in the table or the report:\n%s", label, stdout)
		}
	}
}

func TestSimulateRepeatsItself(t *testing.T) {
	args := slices.Concat(smallFleet, []string{"--json", "--routers", "2", "--join", "at=1s", "--fail", "replica=1,at=2s,for=1s", "--slow", "replica=4,factor=3,at=3s",
		"--strategy", "RANDOM,PREFIX_AWARE:prefix_length=1024,concurrency_threshold=4", "--strategy", "LEAST_OUTSTANDING_REQUESTS"})
	first, _, err := runSimulate(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := runSimulate(t.Context(), args...)
	if err != nil || first != again {
		t.Errorf("a second run gave error %v and\n%s", err, cmp.Diff(first, again))
	}
	var got bench.Report
	if err := json.Unmarshal([]byte(first), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Runs) != 3 || got.Runs[1].Knobs.ConcurrencyThreshold != 4 || got.Runs[0].Requests != 60 || len(got.Runs[0].PerReplica) != 4 {
		t.Errorf("got %s", first)
	}
}

func TestSimulateUsage(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"nothing", nil, "--replicas N"},
		{"no cache", []string{"--replicas", "2"}, "--cache-tokens N"},
		{"no workload", smallFleet[2:], "no requests to play"},
		{"preset", append(smallFleet, "--preset", "7b"), "use 70b, 8b or slots"},
		{"preset's constant", append(smallFleet, "--preset", "8b:q=1"), "write t0, p, d, k, a or m"},
		{"engine", append(smallFleet, "--engine", "llama"), "use one of vllm, "},
		{"slots of whole prompts", append(smallFleet, "--engine", "llamacpp", "--preset", "slots"), "use another"},
		{"processors", append(smallFleet, "--processors", "-1"), "processors: -1"},
		{"warm-up", append(smallFleet, "--warmup", "some"), "write a number of requests"},
		{"nothing but warm-up", append(smallFleet, "--warmup", "60"), "no requests left to count"},
		{"strategy", append(smallFleet, "--strategy", "RANDOMM"), "did you mean RANDOM?"},
		{"settings", append(smallFleet, "--strategy", "PREFIX_AWARE"), "needs prefix_length"},
		{"incident", append(smallFleet, "--fail", "replica=4,at=1s"), "no replica 4"},
		{"incident's option", append(smallFleet, "--slow", "factr=4"), "did you mean factor?"},
		{"routers", append(smallFleet, "--routers", "-1"), "routers: -1"},
		{"budget", append(smallFleet, "--budget", "-1"), "budget: -1"},
		{"report", append(smallFleet, "--report", "/no/such/folder/x.html"), "report: "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := runSimulate(t.Context(), test.args...)
			var usage usageError
			if !errors.As(err, &usage) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line of wrong usage with %q", err, test.want)
			}
		})
	}
}

func TestSimulateInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := runSimulate(ctx, smallFleet...); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got %v, want that it was interrupted", err)
	}
}
