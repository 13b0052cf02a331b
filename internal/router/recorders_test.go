package router_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/internal/workload"
)

// recorded is a configuration that records its only endpoint into a file.
func recorded(file, more string, engines ...*engine) string {
	return strings.Replace(onePool(static(engines...), "PREFIX_AWARE"), "variants:",
		fmt.Sprintf("record: {file: %s, max_size: 64KiB%s}, variants:", file, more), 1)
}

// lines waits until a recording has n requests and gives its whole text.
func lines(t *testing.T, path string, n int) (text []byte) {
	t.Helper()
	eventually(t, fmt.Sprintf("%s has %d requests", filepath.Base(path), n), func() bool {
		text, _ = os.ReadFile(path)
		return bytes.Count(text, []byte("\n")) == n+1 // and the header
	})
	return text
}

func TestRecordingHoldsNoText(t *testing.T) {
	file := filepath.Join(t.TempDir(), "recording.jsonl")
	s := start(t, recorded(file, "", newEngine(t)))
	body := `{"model":"MODEL-MARKER","prompt_cache_key":"HINT-MARKER","user":"USER-MARKER","messages":[{"role":"system","content":"` +
		strings.Repeat("PROMPT-MARKER ", 100) + `"},{"role":"user","content":[{"type":"text","text":"PART-MARKER"},{"type":"image_url","image_url":{"url":"URL-MARKER"}}]}]}`
	_, answer, _ := s.post(t, body)
	text := lines(t, file, 1)
	if bytes.Contains(text, []byte("MARKER")) || len(answer) > 20 && bytes.Contains(text, []byte(answer[:20])) {
		t.Errorf("the recording holds text:\n%s", text)
	}
	if !bytes.Contains(text, []byte(`"characters":1412,`)) || !bytes.Contains(text, []byte(fmt.Sprintf(`"bytes_in":%d,`, len(body)))) {
		t.Errorf("want the 1,412 characters of the prompt and its size in:\n%s", text)
	}
}

func TestManyClientsAreRecorded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "recording.jsonl")
	s := start(t, recorded(file, "", newEngine(t), newEngine(t)))
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() { s.mustPost(t, 20) })
	}
	clients.Wait()
	lines(t, file, 80)
	if got := s.sum(t, "warmpath_recording_dropped_total"); got != 0 {
		t.Errorf("%g requests dropped, want 0", got)
	}
}

// What a router records, the tuner takes for the same traffic.
func TestRecordingsArePlayed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "recording.jsonl")
	s := start(t, recorded(file, "", newEngine(t)))
	shared := strings.Repeat("s", 600)
	for _, question := range []string{"one", "two", "three"} {
		s.post(t, `{"model":"m","messages":[{"role":"system","content":"`+shared+`"},{"role":"user","content":"`+question+`"}]}`)
	}
	lines(t, file, 3)
	w, err := workload.OpenRecording(file)
	if err != nil {
		t.Fatal(err)
	}
	requests := slices.Collect(w.Requests())
	for i, r := range requests {
		first := requests[0].Blocks
		if len(r.Blocks) != 3 || !slices.Equal(r.Blocks[:2], first[:2]) || i > 0 && r.Blocks[2] == first[2] || r.PromptTokens < 151 {
			t.Errorf("request %d: %d tokens in blocks %x, want two of three shared with %x", i, r.PromptTokens, r.Blocks, first)
		}
	}
}

func TestReloadOfRecordings(t *testing.T) {
	dir := t.TempDir()
	file, e := filepath.Join(dir, "recording.jsonl"), newEngine(t)
	s := start(t, recorded(file, "", e))
	s.mustPost(t, 1)
	lines(t, file, 1)

	s.reload(t, recorded(file, "", e)+"# the same\n")
	s.mustPost(t, 1)
	lines(t, file, 2)

	s.write(t, recorded(filepath.Join(dir, "none", "x"), "", e))
	if err := s.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "endpoint e: recording: ") {
		t.Errorf("a file that cannot be made: got %v, want an error about the recording", err)
	}
	s.mustPost(t, 1)
	lines(t, file, 3)

	s.reload(t, recorded(file, ", keep: 1", e))
	s.mustPost(t, 1)
	lines(t, file, 1)
	lines(t, file+".1", 3)

	s.reload(t, onePool(static(e), "RANDOM"))
	s.mustPost(t, 1)
	lines(t, file, 1)
}
