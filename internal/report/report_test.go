package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/bench"
)

// run is a run of n requests whose TTFT is about that many milliseconds.
func run(name string, n int, ttft float64, replicas ...string) bench.Run {
	random := rand.New(rand.NewPCG(1, 2))
	tally := bench.NewTally(200 * time.Millisecond)
	for i := range n {
		o := &bench.Outcome{
			At: time.Duration(i) * 50 * time.Millisecond, TTFT: time.Duration(ttft * (0.3 + random.ExpFloat64()) * float64(time.Millisecond)),
			Gaps: []time.Duration{12 * time.Millisecond}, PromptTokens: 4000, CachedTokens: 3000, CacheReported: true, OutputTokens: 2,
			Decision: "affinity",
		}
		if len(replicas) > 0 {
			o.Replica = replicas[min(random.IntN(len(replicas)), random.IntN(len(replicas)))]
		}
		o.E2E = o.TTFT + 12*time.Millisecond
		if i > n/2 && i < n/2+n/20 {
			o.Failure, o.Refused, o.Decision = "http_429", true, "overflow"
		}
		tally.Add(o)
	}
	r := tally.Run()
	r.Name = name
	return *r
}

func sample() *Report {
	runs := []bench.Run{run("random", 2000, 700, "a", "b", "c", "d"), run("prefix <aware>", 2000, 60, "a", "b", "c", "d")}
	report := bench.Report{Runs: runs}
	report.Compare()
	r := Of("Benchmark", report.Runs)
	r.Notes = append(r.Notes, "", "a: 1\nb: 2")
	r.Facts = []Fact{{"workload", "rag:documents=64 & more"}, {"seed", "1"}}
	r.Charts = append(r.Charts, Chart{
		Title: "Cliffs", X: Axis{Label: "PrefixLength (characters)", Log: true, Ticks: []float64{1024, 4096, 16384, 65536}}, Y: Axis{Label: "hit rate (%)"},
		Lines: []Line{{Name: "threshold 16", Series: 2, Points: []Point{{1024, 20}, {4096, 60}, {16384, 80}, {65536, 78}}}},
		Marks: []Mark{{"too short", 2048}, {"too long", 32768}},
	})
	return r
}

// A browser reads the page as HTML; that it is well-formed XML too says that every element is closed and all text escaped.
func TestPageIsWholeAndSelfContained(t *testing.T) {
	var page bytes.Buffer
	if err := sample().WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	if path := os.Getenv("WARMPATH_KEEP_REPORT"); path != "" { // to look at it
		if err := os.WriteFile(path, page.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := page.String()
	for _, want := range []string{"<title>Benchmark</title>", "rag:documents=64 &amp; more", "prefix &lt;aware&gt;", "TTFT (ms)", "too short", "65\u00a0536", "http_429 99", "<pre>a: 1\nb: 2</pre>"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	for _, never := range []string{"<script", "src=", "<link", "@import", "url(", "<aware>", "NaN", "<?xml", `note"></p>`} {
		if strings.Contains(text, never) {
			t.Errorf("%q in the page", never)
		}
	}
	if got := strings.Count(text, "<figure"); got != 5 {
		t.Errorf("%d figures, want 5", got)
	}
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
	}
}

func TestSamePageForTheSameRuns(t *testing.T) {
	var a, b bytes.Buffer
	if err := errors.Join(sample().WriteHTML(&a), sample().WriteHTML(&b)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("two pages of the same runs differ")
	}
}

func TestTextHoldsTheSameFigures(t *testing.T) {
	rate := 0.815
	runs := []bench.Run{{
		Strategy: "PREFIX_AWARE", Knobs: bench.Knobs{PrefixLength: 4096, ConcurrencyThreshold: 16}, Requests: 200, Failed: 1, Refused: 2,
		Errors: map[string]int{"http_503": 2, "broken": 1}, HitRate: &rate, OverflowShare: 0.03, CachedTokens: 650000,
		TTFT: bench.Quantiles{P50: 5.25, P90: 210, P99: 480.3}, E2E: bench.Quantiles{P50: 900, P90: 1000, P99: 1100}, ITL: bench.Quantiles{P50: 12, P99: 30},
		RequestsPerSecond: 41.7, OutputTokensPerSecond: 5210, PerReplica: []bench.Replica{{Name: "a", Requests: 150}, {Name: "b", Requests: 50}},
		SendDelay: bench.Quantiles{P99: 25}, Warmup: &bench.WarmupResult{Requests: 10, Failed: 1},
	}, {Target: "http://b"}}
	var out strings.Builder
	if err := Of("", runs).WriteText(&out); err != nil {
		t.Fatal(err)
	}
	const want = `What clients saw
run                    requests   failed   refused   TTFT ms P50   P90   P99   E2E ms P50    P90    P99   ITL ms P50   P99
PREFIX_AWARE 4096/16        200        1         2           5.2   210   480          900   1000   1100           12    30
http://b                      0        0         0             -     -     -            -      -      -            -     -

What the fleet did
run                    hit rate   overflow   requests/s   output tokens/s   cached tokens   imbalance   requests per replica
PREFIX_AWARE 4096/16     81.5 %      3.0 %        41.70            5210.0          650000        1.50                 150 50
http://b                      -      0.0 %         0.00               0.0               0           -                      -

PREFIX_AWARE 4096/16: of 200 requests 1 failed and 2 were refused (broken 1, http_503 2).
PREFIX_AWARE 4096/16: of 10 requests of the warm-up 1 failed and 0 were refused.
PREFIX_AWARE 4096/16: one request in 100 was sent 25 ms or more after its time, and its latency includes that. Play with less load or on a less busy machine.
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

// Nothing measured, one value and many replicas are runs too.
func TestChartsOfOddRuns(t *testing.T) {
	many := make([]string, 100)
	for i := range many {
		many[i] = string(rune('A' + i))
	}
	tests := []struct {
		name    string
		runs    []bench.Run
		figures int
	}{
		{"no runs", nil, 0},
		{"nothing answered", []bench.Run{{Name: "a"}}, 0},
		{"one request", []bench.Run{run("a", 1, 50)}, 1},
		{"all at once", []bench.Run{run("a", 30, 0, "r")}, 2},
		{"many replicas", []bench.Run{run("a", 4000, 50, many...)}, 4},
		{"many runs", slices.Repeat([]bench.Run{run("a", 100, 50, "r")}, 9), 4},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var page strings.Builder
			if err := Of("odd", test.runs).WriteHTML(&page); err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(page.String(), "<figure"); got != test.figures {
				t.Errorf("%d figures, want %d", got, test.figures)
			}
			if strings.Contains(page.String(), "NaN") || strings.Contains(page.String(), "Inf") {
				t.Error("a number that is none")
			}
		})
	}
}

func TestNumbersOfAxes(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.5: "0.5", -2: "-2", 1024: "1024", 16384: "16\u00a0384", 1e6: "1\u00a0000\u00a0000", -12345.5: "-12\u00a0345.5", 0.1 + 0.2: "0.3"} {
		if got := number(v); got != want {
			t.Errorf("%v: got %q, want %q", v, got, want)
		}
	}
}

func TestTicks(t *testing.T) {
	tests := []struct {
		name     string
		axis     Axis
		data     span
		vertical bool
		want     []string
	}{
		{"from zero to a round end", Axis{}, span{12, 487}, true, []string{"0", "100", "200", "300", "400", "500"}},
		{"as far as the data go", Axis{}, span{0, 97}, false, []string{"0", "20", "40", "60", "80"}},
		{"one value", Axis{}, span{5, 5}, true, []string{"0", "1", "2", "3", "4", "5"}},
		{"few decades", Axis{Log: true}, span{30, 700}, false, []string{"50", "100", "200", "500"}},
		{"many decades", Axis{Log: true}, span{2, 50000}, false, []string{"10", "100", "1000", "10\u00a0000"}},
		{"nothing", Axis{Log: true}, span{0, 0}, false, []string{"1", "2", "5", "10"}},
		{"given", Axis{Ticks: []float64{1, 7}}, span{0, 10}, false, []string{"1", "7"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, ticks := test.axis.of(test.data, test.vertical)
			var got []string
			for _, tick := range ticks {
				if !tick.IsMinor() {
					got = append(got, tick.Label)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}
