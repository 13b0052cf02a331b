package workload

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/warmpath/warmpath/internal/prompt"
	"github.com/warmpath/warmpath/internal/recording"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// record writes a recording of prompts that came one second after the other and ended the other way round.
func record(t *testing.T, prompts ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "recording.jsonl")
	begin := time.Unix(1e9, 0)
	r, err := recording.Open(recording.Options{
		Endpoint: "chat", Path: path, Sample: 1, MaxSize: 1 << 20,
		Now: func() time.Time { return begin.Add(time.Minute) }, Random: func() uint64 { return 0 },
		Dropped: func() { t.Error("a request was dropped") }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range slices.Backward(prompts) {
		rec := telemetry.Request{Start: begin.Add(time.Duration(i) * time.Second), BytesIn: int64(len(text)), HasUsage: true, OutputTokens: 9}
		r.Take(&rec, func(dst []byte) []byte { return prompt.AppendBytes(dst, []byte(text), recording.MaxCharacters, "") })
	}
	r.Close()
	return path
}

func TestRecordingsAreWorkloads(t *testing.T) {
	shared := strings.Repeat("s", 600)
	path := record(t, shared+"a", shared+strings.Repeat("b", 100_000), "c", "")
	w, err := OpenRecording(path)
	if err != nil {
		t.Fatal(err)
	}
	got := slices.Collect(w.Requests())
	want := []Request{
		{At: 0, PromptTokens: 151, OutputTokens: 9, BlockTokens: 64, Path: completionPath},
		{At: time.Second, PromptTokens: 25150, OutputTokens: 9, BlockTokens: 64, Path: completionPath},
		{At: 2 * time.Second, PromptTokens: 1, OutputTokens: 9, BlockTokens: 64, Path: completionPath},
		{At: 3 * time.Second, PromptTokens: 1, OutputTokens: 9, BlockTokens: 64, Path: completionPath},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Request{}, "Blocks")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	a, b := got[0].Blocks, got[1].Blocks
	if len(a) != 3 || len(b) != 393 || !slices.Equal(a[:2], b[:2]) || a[2] == b[2] {
		t.Errorf("%d and %d blocks; want 3 and 393, of which two are the same", len(a), len(b))
	}
	if n, ok := Len(w); n != 4 || !ok || w.Name() != path || w.Err() != nil {
		t.Errorf("got %d requests of %s, error %v", n, w.Name(), w.Err())
	}
	seen := map[uint64]bool{}
	for _, id := range slices.Concat(b[256:], got[2].Blocks, got[3].Blocks) {
		if seen[id] {
			t.Fatalf("block %x is there twice", id)
		}
		seen[id] = true
	}
}

func TestRecordingsThatCannotBeRead(t *testing.T) {
	const header = `{"warmpath_recording":1,"step":256}` + "\n"
	tests := []struct{ name, text, want string }{
		{"empty", header, "has no requests yet"},
		{"not one", "{}\n", "line 1"},
		{"bad row", header + "{}\n[]\n{}\n", "line 3"},
	}
	for _, test := range tests {
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenRecording(path); err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "recording: "+path) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
	if _, err := OpenRecording(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no error for a file that is not there")
	}
}

func FuzzRecording(f *testing.F) {
	f.Add([]byte(`{"warmpath_recording":1,"step":256}` + "\n" + `{"at_ms":1e300,"bytes_in":9223372036854775807,"output_tokens":9223372036854775807}`))
	f.Add([]byte(`{"warmpath_recording":1,"step":4}` + "\n" + `{"at_ms":-1e300,"characters":1,"chain":"AAAAAAAAAAA="}` + "\n{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		requests, err := readRecording(bytes.NewReader(data))
		if err != nil {
			return
		}
		last := time.Duration(0)
		for _, r := range requests {
			if r.At < last || r.PromptTokens < 1 || r.OutputTokens < 0 || len(r.Blocks)*r.BlockTokens < r.PromptTokens {
				t.Fatalf("%v: %d blocks of %d for %d tokens", r.At, len(r.Blocks), r.BlockTokens, r.PromptTokens)
			}
			last = r.At
		}
	})
}
