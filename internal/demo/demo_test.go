package demo

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/workload"
)

var update = flag.Bool("update", false, "write golden files anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small is the default scenario with short documents, engines so fast that their speed does not matter, and a threshold that is
// never reached: what it shows depends on no clock. 256 documents and conversations keep the spread that Default explains.
func small() Scenario {
	shape := workload.Shape{Seed: 1, Rate: 0.3, Model: Model, AnswerTokens: 1}
	s := Default()
	s.Listen, s.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	s.TimeScale = 1000
	s.Strategies = []Strategy{
		{Name: routing.NameRandom},
		{Name: routing.NamePrefixAware, Knobs: bench.Knobs{PrefixLength: 1024, ConcurrencyThreshold: 1024}},
	}
	s.Documents = workload.RAG{Shape: shape, Documents: 128, DocumentTokens: 280, Questions: 3, QuestionTokens: 8}
	s.Chats = workload.MultiTurn{Shape: shape, Conversations: 128, OpeningTokens: 264, Turns: 3, QuestionTokens: 14}
	return s
}

func start(t *testing.T, s Scenario) *Demo {
	t.Helper()
	d, err := Start(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// What the demo is there to show, on a working set larger than one cache and smaller than the fleet's together.
func TestPrefixAwareKeepsCachesWarm(t *testing.T) {
	s := small()
	if one, fleet := s.CacheTokens(), s.Replicas*s.CacheTokens(); s.WorkingSet() <= one || s.WorkingSet() >= fleet {
		t.Fatalf("working set of %d tokens, want it between one cache, %d, and all, %d", s.WorkingSet(), one, fleet)
	}
	d := start(t, s)
	var mu sync.Mutex
	ended := map[string]int{}
	report, err := d.Play(t.Context(), func(strategy string) {
		mu.Lock()
		defer mu.Unlock()
		ended[strategy]++
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{routing.NameRandom: s.Len(), routing.NamePrefixAware: s.Len()}, ended); diff != "" {
		t.Errorf("requests ended (-want +got):\n%s", diff)
	}
	for i, run := range report.Runs {
		if run.Requests != s.Len() || run.Failed+run.Refused > 0 || len(run.PerReplica) != s.Replicas || run.HitRate == nil {
			t.Fatalf("%s: %+v", s.Strategies[i].Name, run)
		}
		if run.Strategy != s.Strategies[i].Name || run.Knobs != s.Strategies[i].Knobs || run.Target != d.URL() {
			t.Errorf("run %d calls itself %s %+v on %s", i, run.Strategy, run.Knobs, run.Target)
		}
	}
	random, aware := report.Runs[0], report.Runs[1]
	if ratio := *aware.HitRate / *random.HitRate; ratio < 3 {
		t.Errorf("hit rate: RANDOM %.3f, PREFIX_AWARE %.3f, %.1f times; want at least 3", *random.HitRate, *aware.HitRate, ratio)
	}
	if got := aware.Imbalance(); got > 1.5 {
		t.Errorf("PREFIX_AWARE: the busiest replica got %.2f times the mean, want at most 1.5", got)
	}
	if aware.OverflowShare != 0 {
		t.Errorf("overflow: %.3f below the threshold", aware.OverflowShare)
	}
}

func TestServesWhileAndAfterPlaying(t *testing.T) {
	s := small()
	s.Documents.Documents, s.Chats.Conversations = 8, 8
	d := start(t, s)
	call := func() {
		t.Helper()
		resp, err := http.Post(d.URL()+"/v1/chat/completions", "application/json",
			strings.NewReader(`{"model": "`+Model+`", "messages": [{"role": "user", "content": "Hello"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Warmpath-Replica") == "" || !bytes.Contains(body, []byte(`"content"`)) {
			t.Errorf("answer: %s %v\n%s", resp.Status, resp.Header, body)
		}
	}
	call()
	if _, err := d.Play(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	call()
	resp, err := http.Get(d.AdminURL() + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("readyz: %s", resp.Status)
	}
	http.DefaultClient.CloseIdleConnections()

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Wait(ctx); err != nil {
		t.Errorf("Wait: %v", err)
	}
}

func TestTakesFreePortsIfItsOwnAreInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := small()
	s.Listen = taken.Addr().String()
	d := start(t, s)
	if diff := cmp.Diff([]string{s.Listen}, d.Moved()); diff != "" {
		t.Errorf("moved (-want +got):\n%s", diff)
	}
	if d.URL() == "http://"+s.Listen {
		t.Errorf("URL: %s is another's", d.URL())
	}
}

func TestInterrupted(t *testing.T) {
	d := start(t, small())
	ctx, cancel := context.WithCancel(t.Context())
	var once sync.Once
	report, err := d.Play(ctx, func(string) { once.Do(cancel) })
	if report != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, error %v; want no report and a cancelled context", report, err)
	}
}

func TestStartRefusesWhatCannotRun(t *testing.T) {
	s := small()
	s.CacheShare = -1
	if _, err := Start(s); err == nil || !strings.HasPrefix(err.Error(), "demo: ") {
		t.Errorf("negative cache: got %v", err)
	}
	s = small()
	s.Strategies = []Strategy{{Name: routing.NamePrefixAware}}
	if _, err := Start(s); err == nil || !strings.HasPrefix(err.Error(), "demo: ") {
		t.Errorf("PREFIX_AWARE without knobs: got %v", err)
	}
}

// The default must be playable and keep its promises on paper; TestPrefixAwareKeepsCachesWarm plays a smaller one.
func TestDefault(t *testing.T) {
	s := Default()
	if one, fleet := s.CacheTokens(), s.Replicas*s.CacheTokens(); s.WorkingSet() <= 2*one || s.WorkingSet() >= fleet {
		t.Errorf("working set of %d tokens, want it well above one cache, %d, and below all, %d", s.WorkingSet(), one, fleet)
	}
	n, last := 0, time.Duration(0)
	s.Documents.DocumentTokens, s.Chats.OpeningTokens = 1, 1 // times do not depend on texts
	for r := range s.Requests() {
		n, last = n+1, r.At
	}
	if n != s.Len() {
		t.Errorf("requests: got %d, want %d", n, s.Len())
	}
	if real := time.Duration(float64(last) / s.TimeScale * float64(len(s.Strategies))); real > 45*time.Second {
		t.Errorf("all runs take %v, want the table within a minute", real)
	}
	defaults := config.Default()
	if s.Listen != defaults.Data.Listen || s.AdminListen != defaults.Admin.Listen {
		t.Errorf("listens on %s and %s, serve on %s and %s", s.Listen, s.AdminListen, defaults.Data.Listen, defaults.Admin.Listen)
	}
}

func TestTable(t *testing.T) {
	rate := func(x float64) *float64 { return &x }
	report := &bench.Report{Runs: []bench.Run{
		{
			Strategy: routing.NameRandom, Requests: 100, Failed: 1, Refused: 2, Errors: map[string]int{"broken": 1, "http_503": 2}, HitRate: rate(0.2),
			TTFT: bench.Quantiles{P50: 972.86, P90: 3041.27, P99: 4234.74}, RequestsPerSecond: 11.83, TimeScale: 9,
			PerReplica: []bench.Replica{{Name: "a", Requests: 48}, {Name: "b", Requests: 52}},
		},
		{Strategy: routing.NameLeastOutstanding, Requests: 100, TimeScale: 9},
		{
			Strategy: routing.NamePrefixAware, Requests: 100, HitRate: rate(0.768), OverflowShare: 0.0535,
			TTFT: bench.Quantiles{P50: 58.82, P90: 1225.7, P99: 3253.2}, RequestsPerSecond: 12.07, TimeScale: 9,
			PerReplica: []bench.Replica{{Name: "a", Requests: 60}, {Name: "b", Requests: 40}},
		},
		{
			Strategy: routing.NameKVAware, Requests: 100, HitRate: rate(0.78), OverflowShare: 0.021,
			TTFT: bench.Quantiles{P50: 51.24, P90: 640.2, P99: 1210.7}, RequestsPerSecond: 12.11, TimeScale: 9,
			PerReplica: []bench.Replica{{Name: "a", Requests: 51}, {Name: "b", Requests: 49}},
		},
	}}
	tests := []struct {
		name   string
		report *bench.Report
	}{
		{"full", report},
		{"one", &bench.Report{Runs: report.Runs[1:2]}},
		{"empty", &bench.Report{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got bytes.Buffer
			WriteTable(&got, test.report)
			golden := "testdata/table-" + test.name + ".txt"
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("table (-want +got):\n%s", diff)
			}
		})
	}
}
