package realengine

import (
	"bytes"
	"compress/gzip"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/workload"
)

func TestDocumentsAreRepeatableAndShareWhatTheySay(t *testing.T) {
	d := documents{preamble: 100, count: 3, length: 200, own: 20, warmUp: 1, counted: 5, perSec: 2}
	w := d.workload(1)
	if diff := cmp.Diff(w, d.workload(1), cmp.AllowUnexported(played{}, call{})); diff != "" {
		t.Errorf("second workload differs:\n%s", diff)
	}
	preambles, texts, prompts := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range w.calls {
		text := c.messages[0].Content
		preambles[text[:d.preamble]] = true
		texts[text[:d.preamble+d.length]] = true
		prompts[text] = true
		if len(text) != d.preamble+d.length+d.own {
			t.Errorf("prompt of %d bytes, want %d", len(text), d.preamble+d.length+d.own)
		}
	}
	if len(preambles) != 1 || len(texts) != d.count || len(prompts) != len(w.calls) || w.warmUp != d.count || len(w.calls) != 6*d.count {
		t.Errorf("got %d preambles, %d documents, %d prompts, %d calls, %d warm-up", len(preambles), len(texts), len(prompts), len(w.calls), w.warmUp)
	}
	if mean := w.calls[len(w.calls)-1].at / time.Duration(len(w.calls)); mean < 250*time.Millisecond || mean > time.Second {
		t.Errorf("mean time between arrivals: got %v, want about 500ms", mean)
	}
}

func TestSessionsGrow(t *testing.T) {
	s := sessions{count: 2, turns: 3, opening: 40, answer: 5, next: 10, perSec: 2}
	w := s.workload(1)
	if len(w.calls) != s.count*s.turns {
		t.Fatalf("got %d calls", len(w.calls))
	}
	for i, c := range w.calls {
		turn := i / s.count
		if len(c.messages) != 1+2*turn {
			t.Errorf("call %d: %d messages in turn %d", i, len(c.messages), turn)
		}
		if turn > 0 && !cmp.Equal(w.calls[i-s.count].messages, c.messages[:2*turn-1]) {
			t.Errorf("call %d does not continue the turn before", i)
		}
	}
}

func TestBenchReadsTheTrace(t *testing.T) {
	w := sessions{count: 1, turns: 2, opening: 40, answer: 5, next: 10, perSec: 2}.workload(1)
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	writeTrace(t, w, path)
	trace, err := workload.OpenTrace(path, workload.TraceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	requests := slices.Collect(trace.Requests())
	if len(requests) != 2 || trace.Err() != nil {
		t.Fatalf("got %d requests, error %v", len(requests), trace.Err())
	}
	last := requests[1]
	if want := w.calls[1].at - w.calls[0].at; (last.At-want).Abs() > time.Millisecond || last.Path != "/v1/chat/completions" {
		t.Errorf("got %s after %v, want a chat after %v", last.Path, last.At, want)
	}
	for _, want := range []string{`"role":"assistant"`, `"max_tokens":16`, `"temperature":0`, `"ignore_eos":true`, `"include_usage":true`} {
		if !bytes.Contains(last.Body, []byte(want)) {
			t.Errorf("no %s in %s", want, last.Body)
		}
	}
}

func TestReadPrompts(t *testing.T) {
	rows := "{\"input\":\"one\"}\n{\"input\":\"much too long\"}\n{\"input\":\"two\",\"output\":\"x\"}\n"
	tests := []struct {
		name, rows string
		count      int
		want       []string
		fault      string
	}{
		{"in order", rows, 2, []string{"one", "two"}, ""},
		{"stops at the count", rows + "not JSON", 2, []string{"one", "two"}, ""},
		{"too few", rows, 3, nil, "2 prompts"},
		{"not JSON", "nonsense", 1, nil, "invalid character"},
	}
	for _, test := range tests {
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		io.WriteString(z, test.rows)
		z.Close()
		got, err := readPrompts(&zipped, test.count, 5)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if (test.fault == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.fault) {
			t.Errorf("%s: got error %v, want %q", test.name, err, test.fault)
		}
	}
	if _, err := readPrompts(strings.NewReader("plain"), 1, 5); err == nil {
		t.Error("text that is not gzip: no error")
	}
}

// runsWith are RANDOM's and KV_AWARE's on documents, the latter as given.
func runsWith(hitRate, p50 float64, failed int) []bench.Run {
	return []bench.Run{
		{Strategy: "RANDOM", TTFT: bench.Quantiles{P50: 800, P90: 1000}, Requests: 48},
		{Strategy: "KV_AWARE", TTFT: bench.Quantiles{P50: p50, P90: 200}, Requests: 48, HitRate: &hitRate, Failed: failed},
	}
}

func TestJudge(t *testing.T) {
	tests := []struct {
		name   string
		runs   []bench.Run
		missed int // targets
		faults int
	}{
		{"all met", runsWith(0.85, 100, 0), 0, 0},
		{"missed as on a busy machine", runsWith(0.81, 140, 0), 2, 0},
		{"missed by more", runsWith(0.79, 160, 0), 2, 2},
		{"a failed request", runsWith(0.85, 100, 1), 0, 1},
	}
	for _, test := range tests {
		table, faults := judge("documents", test.runs)
		missed := 0
		for _, row := range table.Rows {
			if slices.Contains(row, "MISSED") {
				missed++
			}
		}
		if len(table.Rows) != 3 || missed != test.missed || len(faults) != test.faults {
			t.Errorf("%s: got %d missed, faults %q\n%v", test.name, missed, faults, table.Rows)
		}
	}
}
