package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// roundTripper is a target without a network, for virtual time.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// every gives n requests, one each interval.
func every(interval time.Duration, n int) iter.Seq[workload.Request] {
	return func(yield func(workload.Request) bool) {
		for i := range n {
			if !yield(workload.Request{At: time.Duration(i) * interval, Path: "/v1/chat/completions", Body: []byte(`{}`)}) {
				return
			}
		}
	}
}

// script is a body that says its parts one after another, each after a pause.
type script struct {
	pauses []time.Duration
	parts  []string
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.parts) == 0 {
		return 0, io.EOF
	}
	<-time.After(s.pauses[0])
	n := copy(p, s.parts[0])
	s.pauses, s.parts = s.pauses[1:], s.parts[1:]
	return n, nil
}

const (
	roleChunk  = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	wordChunk  = `data: {"choices":[{"index":0,"delta":{"content":"word "}}]}` + "\n\n"
	usageChunk = `data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":80}}}` + "\n\n"
	doneChunk  = "data: [DONE]\n\n"
)

func streamed(body io.Reader) *http.Response {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}, Body: io.NopCloser(body)}
}

func play(t *testing.T, requests iter.Seq[workload.Request], o Options) *Run {
	t.Helper()
	if o.Target == "" {
		o.Target = "http://replica.example"
	}
	run, err := Play(t.Context(), requests, o)
	if err != nil {
		t.Fatalf("Play: %v", err)
	}
	return run
}

// near allows for the digits that results are rounded to.
func near(got, want float64) bool { return got >= want*0.99 && got <= want*1.01 }

func TestLatenciesOfAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := play(t, every(time.Second, 3), Options{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			const ms = time.Millisecond
			return streamed(&script{
				pauses: []time.Duration{100 * ms, 200 * ms, 40 * ms, 10 * ms, 5 * ms},
				parts:  []string{roleChunk, wordChunk, wordChunk, usageChunk, doneChunk},
			}), nil
		})})
		for name, c := range map[string]struct{ got, want float64 }{
			"TTFT, at the first content": {run.TTFT.P50, 300}, "E2E": {run.E2E.P99, 355}, "ITL": {run.ITL.P50, 40},
			"requests a second": {run.RequestsPerSecond, 3 / 2.355}, "tokens a second": {run.OutputTokensPerSecond, 6 / 2.355},
		} {
			if !near(c.got, c.want) {
				t.Errorf("%s: got %v, want %v", name, c.got, c.want)
			}
		}
		if run.HitRate == nil || *run.HitRate != 0.8 || run.Requests != 3 || run.Failed != 0 {
			t.Errorf("run: %+v", run)
		}
	})
}

// The load does not give way: a target that takes 10 s gets every request at its time.
func TestLoadDoesNotWaitForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var mu sync.Mutex
		var arrived []time.Duration
		run := play(t, every(time.Second, 5), Options{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			mu.Lock()
			arrived = append(arrived, time.Since(begin))
			mu.Unlock()
			<-time.After(10 * time.Second)
			return streamed(strings.NewReader(wordChunk + doneChunk)), nil
		})})
		want := []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second}
		if diff := cmp.Diff(want, arrived); diff != "" {
			t.Errorf("arrivals (-want +got):\n%s", diff)
		}
		if !near(run.TTFT.P99, 10000) || !near(run.RequestsPerSecond, 5.0/14) {
			t.Errorf("TTFT %v ms, %v requests a second; want 10000, %v", run.TTFT.P99, run.RequestsPerSecond, 5.0/14)
		}
	})
}

// A player that comes late, here because the generator takes 3 s, charges the delay to the answer.
func TestLatencyCountsFromTheIntendedStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := func(yield func(workload.Request) bool) {
			<-time.After(3 * time.Second)
			yield(workload.Request{At: time.Second})
		}
		run := play(t, late, Options{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			return streamed(strings.NewReader(wordChunk + doneChunk)), nil
		})})
		if !near(run.TTFT.P50, 2000) || !near(run.E2E.P50, 2000) {
			t.Errorf("TTFT %v ms, E2E %v ms; want 2000", run.TTFT.P50, run.E2E.P50)
		}
	})
}

func TestTimeScaleGivesTheWorkloadsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		run := play(t, every(time.Second, 11), Options{TimeScale: 10, Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			return streamed(&script{pauses: []time.Duration{20 * time.Millisecond}, parts: []string{wordChunk + doneChunk}}), nil
		})})
		if elapsed := time.Since(begin); elapsed != 1020*time.Millisecond {
			t.Errorf("played in %v, want 1.02s", elapsed)
		}
		if !near(run.TTFT.P50, 200) || !near(run.RequestsPerSecond, 11/10.2) || run.TimeScale != 10 {
			t.Errorf("TTFT %v ms, %v requests a second, scale %v; want 200, %v, 10", run.TTFT.P50, run.RequestsPerSecond, run.TimeScale, 11/10.2)
		}
	})
}

// hang is a body that says nothing until the request is given up.
type hang struct{ ctx context.Context }

func (h hang) Read([]byte) (int, error) { <-h.ctx.Done(); return 0, h.ctx.Err() }

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := play(t, every(0, 2), Options{Timeout: time.Minute, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			return streamed(hang{r.Context()}), nil
		})})
		if diff := cmp.Diff(map[string]int{"timeout": 2}, run.Errors); diff != "" || run.Failed != 2 {
			t.Errorf("failed %d, errors (-want +got):\n%s", run.Failed, diff)
		}
		if run.TTFT != (Quantiles{}) {
			t.Errorf("TTFT of failed requests: %+v, want none", run.TTFT)
		}
	})
}

func TestInterruptEndsOpenRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(90*time.Second, cancel)
		ended := atomic.Int64{}
		run, err := Play(ctx, every(time.Minute, 1000), Options{
			Target: "http://replica.example", Ended: func() { ended.Add(1) },
			Transport: roundTripper(func(r *http.Request) (*http.Response, error) { return streamed(hang{r.Context()}), nil }),
		})
		if run != nil || !errors.Is(err, context.Canceled) || ended.Load() != 2 {
			t.Errorf("got %v, error %v, %d requests ended; want no run, a cancelled context, 2", run, err, ended.Load())
		}
	})
}

func TestFailuresByKind(t *testing.T) {
	sse := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, body)
		}
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	tests := []struct {
		name            string
		handler         http.HandlerFunc
		kind            string
		failed, refused int
	}{
		{"whole", sse(roleChunk + wordChunk + usageChunk + doneChunk), "", 0, 0},
		{"whole, carriage returns", sse(strings.ReplaceAll(wordChunk+doneChunk, "\n", "\r\n")), "", 0, 0},
		{"whole, comments and other fields", sse(": ping\n\nevent: x\nid: 1\n" + wordChunk + doneChunk), "", 0, 0},
		{"no end", sse(roleChunk + wordChunk), "broken", 1, 0},
		{"empty", sse(""), "broken", 1, 0},
		{"cut off", func(w http.ResponseWriter, _ *http.Request) {
			sse(wordChunk)(w, nil)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "broken", 1, 0},
		{"error event", sse(wordChunk + `data: {"error":{"message":"out of memory","code":500}}` + "\n\n" + doneChunk), "error_event", 1, 0},
		{"not JSON", sse("data: {nonsense\n\n" + wordChunk + doneChunk), "unreadable", 1, 0},
		{"reset", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "connect", 1, 0},
		{"client error", status(404), "http_404", 1, 0},
		{"server error", status(500), "http_500", 1, 0},
		{"too many", status(429), "http_429", 0, 1},
		{"nobody there", status(503), "http_503", 0, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(test.handler)
			defer server.Close()
			run := play(t, every(0, 2), Options{Target: server.URL + "/"})
			want := map[string]int{}
			if test.kind != "" {
				want[test.kind] = 2
			}
			if diff := cmp.Diff(want, run.Errors); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if run.Requests != 2 || run.Failed != 2*test.failed || run.Refused != 2*test.refused {
				t.Errorf("got %d requests, %d failed, %d refused; want 2, %d, %d", run.Requests, run.Failed, run.Refused, 2*test.failed, 2*test.refused)
			}
		})
	}
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	run := play(t, every(0, 1), Options{Target: "http://" + l.Addr().String()})
	if run.Errors["connect"] != 1 || run.RequestsPerSecond != 0 {
		t.Errorf("run: %+v", run)
	}
}

func TestAnswersThatAreNotStreamed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if string(body) != `{}` || r.URL.Path != "/v1/chat/completions" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("request: %s %q %v", r.URL, body, r.Header)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"choices":[{"message":{"role":"assistant","content":"hello"}}],"usage":{"prompt_tokens":10,"completion_tokens":5}}`)
	}))
	defer server.Close()
	run := play(t, every(0, 4), Options{Target: server.URL})
	if run.Failed != 0 || run.TTFT.P50 <= 0 || run.TTFT.P50 > run.E2E.P50 || run.ITL != (Quantiles{}) {
		t.Errorf("run: %+v", run)
	}
	if run.HitRate != nil {
		t.Errorf("hit rate: got %v where the engine reports nothing, want nil", *run.HitRate)
	}
}

func TestReplicasAndDecisions(t *testing.T) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i := n.Add(1) - 1
		w.Header().Set("X-Warmpath-Replica", []string{"b", "a", "b", "b"}[i])
		w.Header().Set("X-Warmpath-Decision", []string{"affinity", "overflow", "affinity", "affinity"}[i])
		if i == 3 {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, wordChunk+usageChunk+doneChunk)
	}))
	defer server.Close()
	run := play(t, every(0, 4), Options{Target: server.URL})
	rate := 0.8
	if diff := cmp.Diff([]Replica{{"a", 1, &rate}, {"b", 3, &rate}}, run.PerReplica); diff != "" {
		t.Errorf("replicas (-want +got):\n%s", diff)
	}
	if run.OverflowShare != 0.25 || run.Imbalance() != 1.5 || run.Failed != 1 {
		t.Errorf("overflow %v, imbalance %v, failed %d; want 0.25, 1.5, 1", run.OverflowShare, run.Imbalance(), run.Failed)
	}
}

func TestOptionsOutOfRange(t *testing.T) {
	tests := []struct {
		name string
		o    Options
		want string
	}{
		{"no target", Options{}, `bench: target: "" is not a URL; write http://HOST:PORT`},
		{"no scheme", Options{Target: "127.0.0.1:80"}, `bench: target: "127.0.0.1:80" is not a URL; write http://HOST:PORT`},
		{"negative scale", Options{Target: "http://a", TimeScale: -1}, "bench: time scale: must be above 0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Play(t.Context(), slices.Values([]workload.Request(nil)), test.o)
			if err == nil || err.Error() != test.want {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestNothingToPlay(t *testing.T) {
	run := play(t, every(0, 0), Options{})
	if run.Requests != 0 || run.HitRate != nil || run.Imbalance() != 0 {
		t.Errorf("run: %+v", run)
	}
}
