package realengine

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDocumentsAreRepeatableAndShareWhatTheySay(t *testing.T) {
	d := documents{preamble: 100, count: 3, length: 200, own: 20, warmUp: 1, counted: 5, perSec: 2, fromSeed: 1}
	w := d.workload()
	if diff := cmp.Diff(w, d.workload(), cmp.AllowUnexported(workload{}, call{})); diff != "" {
		t.Errorf("second workload differs:\n%s", diff)
	}
	preambles, texts, prompts, counted := map[string]bool{}, map[string]bool{}, map[string]bool{}, 0
	for _, c := range w.calls {
		preambles[c.prompt[:d.preamble]] = true
		texts[c.prompt[:d.preamble+d.length]] = true
		prompts[c.prompt] = true
		if c.counted {
			counted++
		}
		if len(c.prompt) != d.preamble+d.length+d.own {
			t.Errorf("prompt of %d bytes, want %d", len(c.prompt), d.preamble+d.length+d.own)
		}
	}
	if len(preambles) != 1 || len(texts) != d.count || len(prompts) != len(w.calls) || counted != d.counted*d.count {
		t.Errorf("got %d preambles, %d documents, %d prompts, %d counted", len(preambles), len(texts), len(prompts), counted)
	}
	if mean := w.calls[len(w.calls)-1].at / time.Duration(len(w.calls)); mean < 250*time.Millisecond || mean > time.Second {
		t.Errorf("mean time between arrivals: got %v, want about 500ms", mean)
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

func TestCommonest(t *testing.T) {
	w := workload{calls: []call{{prompt: "abc"}, {prompt: "abd"}, {prompt: "ab"}, {prompt: "xyz"}}}
	for length, want := range map[int]float64{2: 0.75, 3: 0.25} {
		if got := w.commonest(length); got != want {
			t.Errorf("first %d: got %v, want %v", length, got, want)
		}
	}
}

const (
	eventEmpty = `data: {"choices":[{"delta":{"role":"assistant","content":null}}]}` + "\n\n"
	eventText  = `data: {"choices":[{"delta":{"content":"a"}}]}` + "\n\n"
	eventUsage = `data: {"choices":[],"usage":{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":7}}}` + "\n\n"
	eventDone  = "data: [DONE]\n\n"
)

func TestSend(t *testing.T) {
	tests := []struct {
		name, stream string
		status       int
		replica      string
		fault        string
	}{
		{"whole", eventEmpty + eventText + eventText + eventUsage + eventDone, 200, "127.0.0.1:2", ""},
		{"cut off", eventText + eventUsage, 200, "127.0.0.1:2", "without [DONE]"},
		{"no text", eventEmpty + eventUsage + eventDone, 200, "127.0.0.1:2", "no text"},
		{"no usage", eventText + eventDone, 200, "127.0.0.1:2", "no usage"},
		{"error event", eventText + `data: {"error":{"code":500}}` + "\n\n" + eventDone, 200, "127.0.0.1:2", `"code":500`},
		{"not JSON", "data: {\n\n", 200, "127.0.0.1:2", "stream event"},
		{"refused", "no replica", 503, "127.0.0.1:2", "status 503: no replica"},
		{"nameless replica", eventText + eventUsage + eventDone, 200, "", replicaHeader},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if test.replica != "" {
					w.Header().Set(replicaHeader, test.replica)
				}
				w.WriteHeader(test.status)
				io.WriteString(w, test.stream)
			}))
			defer server.Close()
			got := newClient(server.URL, []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}).send(t.Context(), "prompt")
			if test.fault != "" {
				if got.err == nil || !strings.Contains(got.err.Error(), test.fault) {
					t.Errorf("got %v, want an error with %q", got.err, test.fault)
				}
				return
			}
			if got.err != nil || got.prompt != 10 || got.cached != 7 || got.ttft <= 0 || got.replica != 1 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestInTurnKeepsEveryClientBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int32
		began := time.Now()
		inTurn(3, 7, func(int) {
			sent.Add(1)
			<-time.After(time.Second)
		})
		if took := time.Since(began); sent.Load() != 7 || took != 3*time.Second {
			t.Errorf("sent %d in %v, want 7 in 3s", sent.Load(), took)
		}
	})
}

func TestAtTimesWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := []call{{at: time.Second}, {at: 2 * time.Second}, {at: 5 * time.Second}}
		began := time.Now()
		sent := make([]time.Duration, len(calls))
		atTimes(calls, func(i int) {
			sent[i] = time.Since(began)
			<-time.After(time.Minute)
		})
		if diff := cmp.Diff([]time.Duration{time.Second, 2 * time.Second, 5 * time.Second}, sent); diff != "" {
			t.Errorf("send times (-want +got):\n%s", diff)
		}
	})
}

func TestMeasure(t *testing.T) {
	got := measure("run", []answer{
		{replica: 0, prompt: 100, cached: 100, ttft: time.Hour},
		{replica: 0, prompt: 100, cached: 50, ttft: 10 * time.Millisecond, counted: true},
		{replica: 1, prompt: 100, cached: 0, ttft: 30 * time.Millisecond, counted: true},
		{replica: -1, err: errors.New("broken"), counted: true},
		{err: errors.New("broken too")},
	}, 2)
	want := figures{run: "run", requests: 3, failed: 2, hitRate: 0.25, p50: 10 * time.Millisecond, p90: 30 * time.Millisecond, replicas: []int{1, 1}}
	if diff := cmp.Diff(want.line(), got.line()); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	if len(got.errors) != 2 || !strings.Contains(table([]figures{got}), "25.0 %") {
		t.Errorf("got errors %v and table\n%s", got.errors, table([]figures{got}))
	}
}

// line is every figure but the errors.
func (f figures) line() string {
	f.errors = nil
	return fmt.Sprintf("%+v", f)
}

func TestPercentileIsTheNearestRank(t *testing.T) {
	values := []int{50, 10, 40, 20, 30}
	for share, want := range map[float64]int{0: 10, 0.2: 10, 0.5: 30, 0.9: 50, 1: 50} {
		if got := percentile(values, share); got != want {
			t.Errorf("share %v: got %d, want %d", share, got, want)
		}
	}
	if got := percentile([]int(nil), 0.5); got != 0 {
		t.Errorf("of nothing: got %d, want 0", got)
	}
}

func TestConfiguration(t *testing.T) {
	replicas := []string{"http://127.0.0.1:1", "http://127.0.0.1:2"}
	random := routing{strategy: "RANDOM"}.configuration("127.0.0.1:3", "127.0.0.1:4", replicas)
	prefix := routing{strategy: "PREFIX_AWARE", prefixLength: 2048, threshold: 8}.configuration("127.0.0.1:3", "127.0.0.1:4", replicas)
	if !strings.Contains(random, "routing: {strategy: RANDOM}") {
		t.Errorf("RANDOM has knobs:\n%s", random)
	}
	for _, want := range []string{
		"static: [http://127.0.0.1:1, http://127.0.0.1:2]",
		"routing: {strategy: PREFIX_AWARE, prefix_length: 2048, concurrency_threshold: 8}",
	} {
		if !strings.Contains(prefix, want) {
			t.Errorf("no %q in\n%s", want, prefix)
		}
	}
}
