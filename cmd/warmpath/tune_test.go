package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/tune"
)

func runTune(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	return runCommand(ctx, "tune", args)
}

func TestTunePrintsTheSameAsTableAndJSON(t *testing.T) {
	page := filepath.Join(t.TempDir(), "tune.html")
	table, stderr, err := runTune(t.Context(), slices.Concat(smallFleet, []string{"--report", page})...)
	if err != nil || stderr != "" {
		t.Fatalf("error %v, standard error %q", err, stderr)
	}
	text, _, err := runTune(t.Context(), slices.Concat(smallFleet, []string{"--json"})...)
	var got tune.Result
	if err := errors.Join(err, json.Unmarshal([]byte(text), &got)); err != nil {
		t.Fatal(err)
	}
	html, err := os.ReadFile(page)
	if err != nil || !bytes.Contains(html, []byte("<svg")) {
		t.Errorf("report: error %v, and no plot in it", err)
	}
	for _, want := range []string{got.Verdict, got.Recommendation.YAML, "ceiling: " + got.Ceiling.Name, "bound: " + got.Infinite.Name} {
		if want == "" || !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
	if got.Requests != 60 || len(got.Grid) == 0 {
		t.Errorf("got %d requests and %d cells", got.Requests, len(got.Grid))
	}
}

func TestTuneSaysWhatToMend(t *testing.T) {
	tests := []struct {
		name, want string
		args       []string
	}{
		{"no fleet", "--replicas N", []string{"--workload", "rag"}},
		{"no cache", "--cache-tokens N", []string{"--workload", "rag", "--replicas", "2"}},
		{"no workload", "--recording FILE", []string{"--replicas", "2", "--cache-tokens", "9"}},
		{"two workloads", "name one of them", []string{"--replicas", "2", "--cache-tokens", "9", "--workload", "rag", "--recording", "x"}},
		{"no recording", "recording: open", []string{"--replicas", "2", "--cache-tokens", "9", "--recording", filepath.Join(t.TempDir(), "none")}},
		{"preset", "70b, 8b or slots", slices.Concat(smallFleet, []string{"--preset", "9b"})},
		{"flag", "did you mean --replicas?", []string{"--replica", "2"}},
	}
	for _, test := range tests {
		_, _, err := runTune(t.Context(), test.args...)
		var usage usageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want a usage error with %q", test.name, err, test.want)
		}
	}
}

func TestTuneCanBeInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := runTune(ctx, smallFleet...); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got %v, want that it was interrupted", err)
	}
}
