package bench

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// after answers each request with one word after that long.
func after(d time.Duration) roundTripper {
	return func(*http.Request) (*http.Response, error) {
		return streamed(&script{pauses: []time.Duration{d}, parts: []string{wordChunk + usageChunk + doneChunk}}), nil
	}
}

func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open, most atomic.Int64
		begin := time.Now()
		run := play(t, every(time.Hour, 10), Options{Concurrency: 3, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			most.Store(max(most.Load(), open.Add(1)))
			defer open.Add(-1)
			<-time.After(time.Second)
			return after(time.Second)(r)
		})})
		// Ten requests by three workers are four rounds of 2 s.
		if elapsed := time.Since(begin); elapsed != 8*time.Second || most.Load() != 3 {
			t.Errorf("took %v with up to %d open; want 8s, 3", elapsed, most.Load())
		}
		if !near(run.TTFT.P99, 2000) || !near(run.Seconds, 8) || run.Requests != 10 || run.SendDelay.P99 != 0 {
			t.Errorf("run: %+v", run)
		}
	})
}

func TestSpeedChangesTheLoadAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := play(t, every(time.Second, 11), Options{Speed: 10, TimeScale: 2, Transport: after(100 * time.Millisecond)})
		// Ten tenths of a second between the first and the last, in the engines' time, and 200 ms for the answer.
		if !near(run.Seconds, 1.2) || !near(run.TTFT.P50, 200) {
			t.Errorf("%v s, TTFT %v ms; want 1.2, 200", run.Seconds, run.TTFT.P50)
		}
	})
}

func TestWarmupIsNotCounted(t *testing.T) {
	for _, warmup := range []Warmup{{Requests: 4}, {Time: 3500 * time.Millisecond}, {Requests: 2, Time: 4 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			var n atomic.Int64
			run := play(t, every(time.Second, 10), Options{Warmup: warmup, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				switch n.Add(1) {
				case 1:
					return &http.Response{StatusCode: 503, Body: http.NoBody}, nil
				case 2:
					return &http.Response{StatusCode: 500, Body: http.NoBody}, nil
				}
				return after(time.Second / 2)(r)
			})})
			if diff := cmp.Diff(&WarmupResult{Requests: 4, Failed: 1, Refused: 1}, run.Warmup); diff != "" {
				t.Errorf("%+v: warm-up (-want +got):\n%s", warmup, diff)
			}
			if run.Requests != 6 || run.Failed+run.Refused != 0 || !near(run.Seconds, 5.5) || !near(run.RequestsPerSecond, 6/5.5) {
				t.Errorf("%+v: %+v", warmup, run)
			}
		})
	}
}

func TestGoodputCountsWhatWasNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		run := play(t, every(time.Second, 4), Options{TTFTObjective: 100 * time.Millisecond, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			switch n.Add(1) {
			case 1:
				return &http.Response{StatusCode: 429, Body: http.NoBody}, nil
			case 2:
				return after(101 * time.Millisecond)(r)
			}
			return after(100 * time.Millisecond)(r)
		})})
		if diff := cmp.Diff(&Goodput{Objective: 100, Share: 0.5, RequestsPerSecond: 0.65}, run.Goodput); diff != "" {
			t.Errorf("goodput (-want +got):\n%s", diff)
		}
		if run.PromptTokens != 300 || run.CachedTokens != 240 || run.OutputTokens != 6 {
			t.Errorf("tokens: %d, %d, %d; want 300, 240, 6", run.PromptTokens, run.CachedTokens, run.OutputTokens)
		}
	})
}

func TestHeadersAreSent(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer key" || r.Header.Get("Content-Type") != "application/json" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, wordChunk+doneChunk)
	}))
	defer server.Close()
	run := play(t, every(0, 2), Options{Target: server.URL, Header: http.Header{"Authorization": {"Bearer key"}}})
	if run.Failed != 0 {
		t.Errorf("errors: %v", run.Errors)
	}
}

func TestReset(t *testing.T) {
	var paths []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.Method+" "+r.URL.Path)
		if r.URL.Path == "/no" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	if err := Reset(t.Context(), []string{server.URL + "/a", server.URL + "/b"}, server.Client().Transport); err != nil {
		t.Error(err)
	}
	err := Reset(t.Context(), []string{server.URL + "/no", server.URL + "/never"}, server.Client().Transport)
	if want := "reset: " + server.URL + "/no: answered 404 Not Found"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if diff := cmp.Diff([]string{"POST /a", "POST /b", "POST /no"}, paths); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// The log of a run stays small, and every request is as likely in it as any other.
func TestSamplesAreFewAndFair(t *testing.T) {
	const n = 10 * maxSamples
	tally := NewTally(0)
	for i := range n {
		tally.Add(&Outcome{At: time.Duration(i), TTFT: time.Millisecond})
	}
	samples := tally.Run().Samples
	if len(samples) != maxSamples {
		t.Fatalf("%d samples, want %d", len(samples), maxSamples)
	}
	early := 0
	for i, s := range samples {
		if i > 0 && s.At < samples[i-1].At {
			t.Fatal("not in order of time")
		}
		if s.At < n/2 {
			early++
		}
	}
	// Half of them, within five standard deviations.
	if early < maxSamples/2-230 || early > maxSamples/2+230 {
		t.Errorf("%d of %d samples are of the first half", early, maxSamples)
	}
}

func TestTTFTCurve(t *testing.T) {
	tally := NewTally(0)
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(1000) {
		tally.Add(&Outcome{TTFT: time.Duration(i+1) * time.Millisecond})
	}
	tally.Add(&Outcome{NoContent: true})
	curve := tally.Run().TTFTCurve
	if len(curve) != 201 || curve[0].Share != 0 || !near(curve[0].Milliseconds, 1) || curve[200].Share != 1 {
		t.Fatalf("%d points from %v to %v", len(curve), curve[0], curve[len(curve)-1])
	}
	for i, p := range curve {
		if i > 0 && (!near(p.Milliseconds, 1000*p.Share) || p.Milliseconds < curve[i-1].Milliseconds) {
			t.Errorf("point %d: %v", i, p)
		}
	}
}

func TestCompare(t *testing.T) {
	rate := func(x float64) *float64 { return &x }
	report := Report{Runs: []Run{
		{HitRate: rate(0.25), TTFT: Quantiles{100, 200, 0}, RequestsPerSecond: 10},
		{HitRate: rate(0.75), TTFT: Quantiles{50, 300, 400}, RequestsPerSecond: 10},
		{TTFT: Quantiles{50, 0, 0}},
	}}
	report.Compare()
	want := []*Ratios{
		{HitRate: rate(1), TTFTP50: rate(1), TTFTP90: rate(1), RequestsPerSecond: rate(1)},
		{HitRate: rate(3), TTFTP50: rate(0.5), TTFTP90: rate(1.5), RequestsPerSecond: rate(1)},
		{TTFTP50: rate(0.5), RequestsPerSecond: rate(0)},
	}
	for i := range want {
		if diff := cmp.Diff(want[i], report.Runs[i].Ratios); diff != "" {
			t.Errorf("run %d (-want +got):\n%s", i, diff)
		}
	}
	new(Report).Compare()
}

func TestLabels(t *testing.T) {
	run := Run{Target: "http://a", Strategy: "PREFIX_AWARE", Knobs: Knobs{PrefixLength: 4096, ConcurrencyThreshold: 16}, Name: "mine"}
	var got []string
	for range 4 {
		got = append(got, run.Label())
		switch {
		case run.Name != "":
			run.Name = ""
		case run.Knobs != Knobs{}:
			run.Knobs = Knobs{}
		default:
			run.Strategy = ""
		}
	}
	if want := "mine; PREFIX_AWARE 4096/16; PREFIX_AWARE; http://a"; strings.Join(got, "; ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, "; "), want)
	}
}
