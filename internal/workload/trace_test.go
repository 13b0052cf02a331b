package workload

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/prompt"
)

// file writes a trace and returns its path.
func file(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "t.jsonl")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func compressed(t *testing.T, content string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// readTrace gives all requests of a trace that must be good.
func readTrace(t *testing.T, content string, o TraceOptions) []Request {
	t.Helper()
	w, err := OpenTrace(file(t, content), o)
	if err != nil {
		t.Fatal(err)
	}
	requests := slices.Collect(w.Requests())
	if w.Err() != nil {
		t.Fatal(w.Err())
	}
	return requests
}

const mooncakeRows = `{"timestamp": 5000, "input_length": 1100, "output_length": 52, "hash_ids": [0, 1, 2]}

{"timestamp": 5000.5, "input_length": 1024, "output_length": 0, "hash_ids": [0, 7], "session_id": 12}
{"timestamp": 8000, "input_length": 1030, "output_length": 9, "hash_ids": [0, 7], "session": "s"}
`

func TestMooncakeRows(t *testing.T) {
	want := []Request{
		{Path: "/v1/completions", Blocks: []uint64{0, 1, 2}, BlockTokens: 512, PromptTokens: 1100, OutputTokens: 52},
		{At: 500 * time.Microsecond, Group: "12", Path: "/v1/completions", Blocks: []uint64{0, 7}, BlockTokens: 512, PromptTokens: 1024, OutputTokens: 1},
		{At: 3 * time.Second, Group: "s", Path: "/v1/completions", Blocks: []uint64{0, 7, ownID(4)}, BlockTokens: 512, PromptTokens: 1030, OutputTokens: 9},
	}
	for _, content := range []string{mooncakeRows, compressed(t, mooncakeRows), strings.TrimSpace(mooncakeRows), strings.ReplaceAll(mooncakeRows, "\n", "\r\n")} {
		if diff := cmp.Diff(want, readTrace(t, content, TraceOptions{})); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	}
}

func TestBailianRows(t *testing.T) {
	const rows = `{"chat_id": 159, "parent_chat_id": -1, "timestamp": 61.5, "input_length": 33, "output_length": 4, "type": "text", "turn": 1, "hash_ids": [9, 8, 7]}
{"chat_id": 160, "parent_chat_id": 159, "timestamp": 62.25, "input_length": 40, "output_length": 4, "type": "text", "turn": 2, "hash_ids": [9, 8, 6]}`
	want := []Request{
		{Path: "/v1/completions", Blocks: []uint64{9, 8, 7}, BlockTokens: 16, PromptTokens: 33, OutputTokens: 4},
		{At: 750 * time.Millisecond, Path: "/v1/completions", Blocks: []uint64{9, 8, 6}, BlockTokens: 16, PromptTokens: 40, OutputTokens: 4},
	}
	if diff := cmp.Diff(want, readTrace(t, rows, TraceOptions{})); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestBodyRows(t *testing.T) {
	tests := []struct {
		name, row string
		want      Request // without Body
		body      string  // "" = the row
	}{
		{"chat", `{"messages":[{"role":"user","content":"12345678"}],"max_tokens":7}`, Request{Path: "/v1/chat/completions", PromptTokens: 2, OutputTokens: 7}, ""},
		{"chat, new name", `{"messages":[{"role":"user","content":"123456789"}],"max_completion_tokens":8}`, Request{Path: "/v1/chat/completions", PromptTokens: 3, OutputTokens: 8}, ""},
		{"completion", `{"prompt":"äöüß"}`, Request{Path: "/v1/completions", PromptTokens: 1}, ""},
		{"token ids", `{"prompt":[1,2,3]}`, Request{Path: "/v1/completions", PromptTokens: 3}, ""},
		{"responses", `{"input":"12345678","max_output_tokens":3}`, Request{Path: "/v1/responses", PromptTokens: 2, OutputTokens: 3}, ""},
		{"embeddings", `{"input":"x","encoding_format":"float"}`, Request{Path: "/v1/embeddings", PromptTokens: 10}, ""},
		{"anthropic", `{"system":"1234","messages":[{"role":"user","content":"5678"}],"max_tokens":7}`, Request{Path: "/v1/messages", PromptTokens: 2, OutputTokens: 7}, ""},
		{"recorded", `{"timestamp":99,"group":4,"output_length":20,"body":{"prompt": "1234","max_tokens":50}}`,
			Request{Group: "4", Path: "/v1/completions", PromptTokens: 1, OutputTokens: 20}, `{"prompt": "1234","max_tokens":50}`},
		{"recorded with its path", `{"path":"/openai/v1/chat/completions?x=1","session_id":"s","body":{"messages":[{"content":"1234"}]}}`,
			Request{Group: "s", Path: "/openai/v1/chat/completions?x=1", PromptTokens: 1}, `{"messages":[{"content":"1234"}]}`},
		{"agent", `{"timestamp": 1760995376615875, "input": "123456789", "output": "12345", "session_id": "abc"}`,
			Request{Group: "abc", Path: "/v1/completions", PromptTokens: 3, OutputTokens: 2},
			`{"prompt":"123456789","max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`},
		{"agent without text", `{"timestamp": 1, "input": "", "output": ""}`, Request{Path: "/v1/completions", PromptTokens: 1, OutputTokens: 1},
			`{"prompt":"\n","max_tokens":1,"stream":true,"stream_options":{"include_usage":true}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.want.Body = []byte(test.body)
			if test.body == "" {
				test.want.Body = []byte(test.row)
			}
			if diff := cmp.Diff([]Request{test.want}, readTrace(t, test.row+"\n", TraceOptions{})); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTimesOfAgentRowsAreMicroseconds(t *testing.T) {
	requests := readTrace(t, `{"timestamp": 1760995376615875, "input": "a", "output": "b"}
{"timestamp": 1760995377615876, "input": "a", "output": "b"}`, TraceOptions{})
	if got, want := requests[1].At, time.Second+time.Microsecond; got != want {
		t.Errorf("second row: at %v, want %v", got, want)
	}
}

func TestRateReplacesTimes(t *testing.T) {
	for _, rows := range []string{strings.Repeat(`{"prompt":"x"}`+"\n", 2000), strings.Repeat(`{"timestamp":7,"body":{"prompt":"x"}}`+"\n", 2000)} {
		requests := readTrace(t, rows, TraceOptions{Rate: 100, Seed: 3})
		if last := requests[len(requests)-1].At; last < 18*time.Second || last > 22*time.Second {
			t.Errorf("2,000 requests at 100 a second: the last at %v", last)
		}
		if at := readTrace(t, rows, TraceOptions{})[1999].At; at != 0 {
			t.Errorf("without a rate the last is at %v, want 0s", at)
		}
	}
}

func TestBadTraces(t *testing.T) {
	const good = `{"timestamp": 5, "input_length": 20, "output_length": 1, "hash_ids": [0, 1]}` + "\n"
	recorded := `{"body":{"prompt":"x"}}` + "\n"
	tests := []struct {
		name, content, want string
	}{
		{"empty", "", "has no rows"},
		{"blank", "\n \n", "has no rows"},
		{"no JSON", good + "{", ":2: not valid JSON"},
		{"an array", "[]", ":1: a JSON array, not an object"},
		{"unknown", "{}", ":1: not a row of a known kind of trace; it needs hash_ids, body, messages, prompt, or input with output"},
		{"ids as text", `{"hash_ids": "x"}`, ":1: hash_ids: a JSON string is not expected here"},
		{"negative id", `{"hash_ids": [-1], "input_length": 3}`, ":1: hash_ids/0: a JSON number is not expected here, or out of range"},
		{"no length", good + `{"timestamp": 6, "hash_ids": []}`, ":2: input_length: 0 is out of range"},
		{"long output", `{"hash_ids": [], "input_length": 1, "output_length": 99999999}`, ":1: output_length: 99999999 is out of range"},
		{"block size", good + `{"timestamp": 6, "input_length": 100, "hash_ids": [1]}`, ":2: hash_ids: 1 ids for 100 tokens are not blocks of 16; they could be blocks of 64"},
		{"no block size", `{"input_length": 100, "hash_ids": []}`, ":1: hash_ids: 0 ids for 100 tokens are not blocks of 16"},
		{"backwards", good + "\n" + strings.ReplaceAll(good, "5,", "4,"), ":3: timestamp: 4 comes after 5; sort the rows by time"},
		{"time missing", good + strings.ReplaceAll(good, `"timestamp": 5, `, ""), ":2: timestamp: some rows have one and some do not"},
		{"late", good + strings.ReplaceAll(good, "5,", "1e300,"), ":2: timestamp: 1e+300 is more than 292 years"},
		{"body missing", recorded + "{}", ":2: body: is missing"},
		{"body of nothing", recorded + `{"body":{}}`, ":2: body: not a request; it needs messages, prompt or input"},
		{"path", `{"path":"x","body":{"prompt":"x"}}`, ":1: path: does not begin with /"},
		{"cut gzip", compressed(t, good)[:30], "unexpected EOF"},
		{"no gzip", "\x1f\x8bxxxxxxxxxxxxxxxx", "gzip"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := file(t, test.content)
			w, err := OpenTrace(path, TraceOptions{BlockTokens: 16})
			if err == nil {
				for range w.Requests() {
				}
				err = w.Err()
			}
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want an error with the path and %q", err, test.want)
			}
		})
	}
}

func TestRowsHaveABound(t *testing.T) {
	_, err := OpenTrace(file(t, `{"prompt":"`+strings.Repeat("x", maxRowBytes)+`"}`), TraceOptions{})
	if err == nil || !strings.HasSuffix(err.Error(), ":1: row: longer than 64 MiB") {
		t.Errorf("got %v", err)
	}
}

func TestTraceOptionsHaveRanges(t *testing.T) {
	path := file(t, mooncakeRows)
	for _, o := range []TraceOptions{{BlockTokens: 3}, {BlockTokens: -1}, {BlockTokens: 65537}, {Rate: -1}} {
		if _, err := OpenTrace(path, o); err == nil || !strings.Contains(err.Error(), "out of range") {
			t.Errorf("%+v: got %v", o, err)
		}
	}
	if _, err := OpenTrace(path+"x", TraceOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
}

// A trace is one row after another, whoever else reads it.
func TestTraceIsReadByManyAtOnce(t *testing.T) {
	var rows strings.Builder
	for i := range 500 {
		fmt.Fprintf(&rows, `{"timestamp":%d,"input_length":40,"output_length":2,"hash_ids":[%d,2,3]}`+"\n", i, i)
	}
	w, err := OpenTrace(file(t, rows.String()), TraceOptions{BlockTokens: 16})
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			n := 0
			for r := range w.Requests() {
				if r.Blocks[0] != uint64(n) {
					t.Errorf("row %d: first block %d", n, r.Blocks[0])
				}
				n++
			}
			if n != 500 {
				t.Errorf("read %d rows, want 500", n)
			}
		})
	}
	wait.Wait()
}

func TestRowsCostFewAllocations(t *testing.T) {
	row := `{"timestamp":1,"input_length":4096,"output_length":2,"hash_ids":[1,2,3,4,5,6,7,8]}` + "\n"
	measure := func(rows int) float64 {
		w, err := OpenTrace(file(t, strings.Repeat(row, rows)), TraceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return testing.AllocsPerRun(1, func() {
			for range w.Requests() {
			}
		}) / float64(rows)
	}
	if perRow := measure(2000); perRow > 12 {
		t.Errorf("%.1f allocations a row, want at most 12", perRow)
	}
}

func FuzzTrace(f *testing.F) {
	f.Add([]byte(mooncakeRows))
	f.Add([]byte(`{"body":{"messages":[{"role":"user","content":"x"}]},"timestamp":1,"path":"/v1/chat/completions"}`))
	f.Add([]byte("{\"prompt\":\"\xff\"}\n{\"prompt\":[1,[2]]}"))
	f.Add([]byte(`{"input":"a","output":"b","session_id":3,"timestamp":1e15}`))
	f.Add([]byte("\x1f\x8b\x08"))
	f.Add([]byte(`{"input":"\ud800","system":null,"dimensions":2}`))
	path := filepath.Join(f.TempDir(), "fuzz.jsonl")
	f.Fuzz(func(t *testing.T, content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := OpenTrace(path, TraceOptions{BlockTokens: 16})
		if err != nil {
			return
		}
		checkRequests(t, Limit(w, 50).Requests())
		for r := range Limit(w, 50).Requests() {
			if r.Body == nil {
				continue
			}
			named, err := prompt.Scan(withModel(r.Body, "m"), prompt.ShapeNone)
			if err != nil || named.Model == "" && !bytes.Contains(r.Body, []byte("model")) {
				t.Fatalf("%q with a model: %q, %v", r.Body, named.Raw, err)
			}
		}
	})
}

// checkRequests holds for the requests of every workload.
func checkRequests(t *testing.T, requests iter.Seq[Request]) {
	t.Helper()
	last := time.Duration(0)
	for r := range requests {
		if r.At < last || r.Path == "" || r.Path[0] != '/' || r.PromptTokens < 1 || r.OutputTokens < 0 {
			t.Fatalf("request: at %v after %v, path %q, %d and %d tokens", r.At, last, r.Path, r.PromptTokens, r.OutputTokens)
		}
		last = r.At
		if (r.Body == nil) == (r.Blocks == nil) {
			t.Fatalf("request: body of %d bytes and %d blocks; want one of them", len(r.Body), len(r.Blocks))
		}
		if r.Blocks != nil && len(r.Blocks) != (r.PromptTokens+r.BlockTokens-1)/r.BlockTokens {
			t.Fatalf("request: %d blocks of %d for %d tokens", len(r.Blocks), r.BlockTokens, r.PromptTokens)
		}
	}
}
