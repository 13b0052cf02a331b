package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/workload"
)

// openWorkload parses flags as a command would.
func openWorkload(t *testing.T, args ...string) (workload.Workload, error) {
	t.Helper()
	var f workloadFlags
	c := &cobra.Command{Use: "play"}
	f.register(c)
	if err := c.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return f.open()
}

func writeTrace(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	rows := strings.Repeat(`{"timestamp": 1000, "input_length": 40, "output_length": 5, "hash_ids": [1, 2, 3]}`+"\n", 3)
	if err := os.WriteFile(path, []byte(rows), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWorkloadFlags(t *testing.T) {
	trace := writeTrace(t)
	tests := []struct {
		args []string
		want int // requests
	}{
		{[]string{"--workload", "rag:requests=5,documents=2"}, 5},
		{[]string{"--workload", "rag:requests=5", "--limit", "3"}, 3},
		{[]string{"--trace", trace, "--block-tokens", "16"}, 3},
		{[]string{"--trace", trace, "--block-tokens", "16", "--limit", "2", "--rate", "10"}, 2},
		{[]string{"--trace", trace, "--block-tokens", "16", "--limit", "2", "--spread", "3s"}, 2},
	}
	for _, test := range tests {
		w, err := openWorkload(t, test.args...)
		if err != nil {
			t.Errorf("%v: %v", test.args, err)
			continue
		}
		if got := len(slices.Collect(w.Requests())); got != test.want || w.Err() != nil {
			t.Errorf("%v: got %d requests and %v, want %d", test.args, got, w.Err(), test.want)
		}
	}
}

func TestWorkloadFlagsSayWhatToMend(t *testing.T) {
	trace := writeTrace(t)
	tests := []struct {
		args []string
		want string
	}{
		{nil, "no requests to play"},
		{[]string{"--workload", "rga"}, "did you mean rag?"},
		{[]string{"--workload", "rag", "--trace", trace}, "name one of them"},
		{[]string{"--workload", "rag", "--rate", "3"}, "--workload rag:rate=3"},
		{[]string{"--workload", "rag", "--limit", "-1"}, "limit: -1 is out of range"},
		{[]string{"--trace", trace}, "they could be blocks of 16"},
		{[]string{"--trace", trace + ".none"}, "no such file"},
	}
	for _, test := range tests {
		_, err := openWorkload(t, test.args...)
		var usage usageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v, want a usage error with %q", test.args, err, test.want)
		}
	}
}
