package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/emulator"
)

// runBench runs `warmpath bench` with those arguments.
func runBench(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return runCommand(t.Context(), "bench", args)
}

// engine answers every request with one token, from a cache that holds most of the prompt. It refuses every refuse-th; 0 = none.
func engine(t *testing.T, refuse int64) *httptest.Server {
	t.Helper()
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if i := n.Add(1); refuse > 0 && i%refuse == 0 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Warmpath-Replica", "r1")
		fmt.Fprint(w, `data: {"choices":[{"delta":{"content":"a"}}]}`+"\n\n"+
			`data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":80}}}`+"\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(server.Close)
	return server
}

// shortLoad is over within a fraction of a second.
var shortLoad = []string{"--workload", "rag:requests=40,documents=4,rate=1000"}

func TestBenchPrintsATable(t *testing.T) {
	url := engine(t, 10).URL
	out, errs, err := runBench(t, append(shortLoad, "--target", "mine="+url, "--ttft-objective", "5s", "--warmup", "10", "--concurrency", "1")...)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"TTFT ms P50", "mine         30 ", "80.0 %", "mine: of 30 requests 0 failed and 3 were refused (http_429 3).", "mine          5000 ms   90.0 %"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if errs != "" || strings.ContainsAny(out, "\r\x1b") {
		t.Errorf("progress where there is no terminal: %q", errs)
	}
}

func TestBenchComparesTargets(t *testing.T) {
	a, b := engine(t, 0), engine(t, 0)
	path := filepath.Join(t.TempDir(), "bench.html")
	out, _, err := runBench(t, append(shortLoad, "--target", a.URL, "--target", b.URL, "--compare", "--json", "--report", path, "--concurrency", "4")...)
	if err != nil {
		t.Fatal(err)
	}
	var got bench.Report
	if err := json.Unmarshal([]byte(out), &got, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	if len(got.Runs) != 2 || got.Runs[1].Target != b.URL || got.Runs[1].Requests != 40 || *got.Runs[1].Ratios.HitRate != 1 {
		t.Errorf("runs: %+v", got.Runs)
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"closed loop, 4 requests open", "Ratio to the first run", "The runs were played in turn", "<svg"} {
		if !bytes.Contains(page, []byte(want)) {
			t.Errorf("no %q in the report", want)
		}
	}
}

func TestBenchEmptiesCachesBeforeEachRun(t *testing.T) {
	var resets atomic.Int64
	cache := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { resets.Add(1) }))
	defer cache.Close()
	url := engine(t, 0).URL
	if _, _, err := runBench(t, append(shortLoad, "--target", url, "--target", url, "--reset", cache.URL)...); err != nil || resets.Load() != 2 {
		t.Errorf("error %v, %d resets; want none, 2", err, resets.Load())
	}
}

func TestBenchFailsIfNothingIsAnswered(t *testing.T) {
	server := engine(t, 0)
	server.Close()
	out, _, err := runBench(t, append(shortLoad, "--target", server.URL)...)
	want := "bench: " + server.URL + " answered none of 40 requests; check that it is up, and send one by hand"
	var usage usageError
	if err == nil || err.Error() != want || errors.As(err, &usage) {
		t.Errorf("got %v, want %s and exit code 1", err, want)
	}
	if !strings.Contains(out, "connect 40") {
		t.Errorf("no table:\n%s", out)
	}
}

func TestBenchFailsAtABadRow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(path, []byte(`{"timestamp":0,"input_length":512,"output_length":1,"hash_ids":[1]}`+"\n{oops\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := runBench(t, "--target", engine(t, 0).URL, "--trace", path)
	if err == nil || !strings.Contains(err.Error(), "trace.jsonl:2") {
		t.Errorf("got %v, want the place of the bad row", err)
	}
}

func TestBenchUsage(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"no target", nil, "no target; name --target URL"},
		{"targets and replicas", []string{"--target", "http://127.0.0.1:1", "--replica", "http://127.0.0.1:2"}, "exclude each other"},
		{"a strategy for a target", []string{"--target", "http://127.0.0.1:1", "--strategy", "RANDOM"}, "name them with --replica URL"},
		{"an engine for a target", []string{"--target", "http://127.0.0.1:1", "--engine", "vllm"}, "name them with --replica URL"},
		{"engine", []string{"--replica", "http://127.0.0.1:1", "--engine", "vlm"}, `--engine: "vlm" is not a known engine; did you mean "vllm"?`},
		{"strategy", []string{"--replica", "http://127.0.0.1:1", "--strategy", "RANDON"}, "did you mean RANDOM?"},
		{"option", []string{"--replica", "http://127.0.0.1:1", "--strategy", "PREFIX_AWARE:prefix_len=1"}, "did you mean prefix_length?"},
		{"replica", []string{"--replica", "127.0.0.1:1"}, "--replica"},
		{"no URL", []string{"--target", "127.0.0.1:80"}, `target: "127.0.0.1:80" is not a URL`},
		{"warm-up", []string{"--target", "http://127.0.0.1:1", "--warmup", "much"}, `--warmup "much": write a number`},
		{"negative warm-up", []string{"--target", "http://127.0.0.1:1", "--warmup", "-1s"}, `--warmup "-1s": write a number`},
		{"nothing left", []string{"--target", "http://127.0.0.1:1", "--warmup", "40"}, "no requests left to count"},
		{"header", []string{"--target", "http://127.0.0.1:1", "--header", "x"}, `--header "x": write 'Name: value'`},
		{"speed", []string{"--target", "http://127.0.0.1:1", "--speed", "0"}, "--speed 0: must be above 0"},
		{"scale", []string{"--target", "http://127.0.0.1:1", "--time-scale", "-1"}, "--time-scale -1: must be above 0"},
		{"concurrency", []string{"--target", "http://127.0.0.1:1", "--concurrency", "-1"}, "--concurrency -1: must be 1 or more"},
		{"both loops", []string{"--target", "http://127.0.0.1:1", "--concurrency", "2", "--speed", "2"}, "exclude each other"},
		{"timeout", []string{"--target", "http://127.0.0.1:1", "--timeout", "-1s"}, "must not be negative"},
		{"report", []string{"--target", "http://127.0.0.1:1", "--report", filepath.Join(t.TempDir(), "no", "where.html")}, "report: open "},
		{"flag", []string{"--targets", "http://127.0.0.1:1"}, "did you mean --target?"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := runBench(t, append(shortLoad, test.args...)...)
			var usage usageError
			if err == nil || !strings.Contains(err.Error(), test.want) || !errors.As(err, &usage) {
				t.Errorf("got %v, want %q and exit code 2", err, test.want)
			}
		})
	}
}

func TestParseTargets(t *testing.T) {
	got, err := parseTargets([]string{"http://a", "b=http://b", "http://c/?x=y"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]target{{url: "http://a"}, {name: "b", url: "http://b"}, {url: "http://c/?x=y"}}, got, cmp.AllowUnexported(target{})); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
}

func TestParseWarmup(t *testing.T) {
	for text, want := range map[string]bench.Warmup{"0": {}, "100": {Requests: 100}, "1m30s": {Time: 90 * time.Second}} {
		if got, err := parseWarmup(text); err != nil || got != want {
			t.Errorf("%s: got %+v, error %v; want %+v", text, got, err, want)
		}
	}
}

// engines are emulated, a thousand times faster than real ones, with caches of so many tokens.
func engines(t *testing.T, n, cacheTokens int) (flags []string) {
	t.Helper()
	for range n {
		e, err := emulator.Listen("127.0.0.1:0", emulator.Options{
			TimeScale: 1000, Config: emulator.Config{Blocks: cacheTokens / 16},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Kill)
		flags = append(flags, "--replica", e.URL())
	}
	return flags
}

func TestBenchComparesStrategies(t *testing.T) {
	args := append(engines(t, 4, 100_000), "--workload", "rag:documents=24,requests=96,document=500,output=1", "--concurrency", "4", "--compare", "--json",
		"--strategy", "RANDOM", "--strategy", "PREFIX_AWARE:prefix_length=2048,concurrency_threshold=100,RANDOM")
	out, _, err := runBench(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	var got bench.Report
	if err := json.Unmarshal([]byte(out), &got, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	if len(got.Runs) != 3 {
		t.Fatalf("got %d runs, want 3", len(got.Runs))
	}
	for i, label := range []string{"RANDOM", "PREFIX_AWARE 2048/100", "RANDOM"} {
		r := &got.Runs[i]
		if r.Label() != label || r.Requests != 96 || r.Failed+r.Refused > 0 || len(r.PerReplica) != 4 || r.Ratios == nil {
			t.Errorf("run %d: %s, %d requests, %d failed, %d refused, %d replicas; want %s, 96 answered by 4, and ratios",
				i, r.Label(), r.Requests, r.Failed, r.Refused, len(r.PerReplica), label)
		}
	}
	random, aware, again := *got.Runs[0].HitRate, *got.Runs[1].HitRate, *got.Runs[2].HitRate
	if aware < 0.6 || random > aware-0.1 || again > aware-0.1 {
		t.Errorf("hit rates %v, %v and %v: want caches that are cold each time, and more hits with PREFIX_AWARE", random, aware, again)
	}
}

func TestBenchTellsOfCachesThatStayedFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bench.html")
	url := engine(t, 0).URL
	keeps := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.Contains(r.URL.Path, "cache") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		http.Redirect(w, r, url+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer keeps.Close()
	out, _, err := runBench(t, append(shortLoad, "--replica", url, "--replica", keeps.URL, "--strategy", "RANDOM", "--report", path)...)
	if want := "The caches of " + keeps.URL + " could not be emptied"; err != nil || !strings.Contains(out, want) {
		t.Errorf("got error %v and no %q in\n%s", err, want, out)
	}
}
