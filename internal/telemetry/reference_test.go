package telemetry

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/warmpath/warmpath/internal/fleet"
)

var update = flag.Bool("update", false, "rewrite docs/reference/metrics.md")

const referencePage = "../../docs/reference/metrics.md"

const referenceIntro = `# Metrics reference

Every metric that Warmpath serves at ` + "`GET /metrics`" + ` on the admin listener. Beside these there are the usual ` + "`go_*`" + ` and
` + "`process_*`" + ` metrics of the Prometheus client for Go. What to watch and alert on is in [operations](../operations.md); how they
correspond to SageMaker's is in [observability](../observability.md).

Label values come from the configuration, from the addresses of replicas and from fixed lists, never from clients. A request that named no known endpoint has
an empty ` + "`endpoint`" + `; the ` + "`variant`" + ` of an inference component is VARIANT/COMPONENT. The series of a replica, pool, endpoint or variant
that is removed stay two minutes, long enough to be scraped a last time, and go.

This page is written by ` + "`go test ./internal/telemetry -update`" + `; a test fails while it differs from the code.

| metric | type | labels | meaning |
|---|---|---|---|
`

// sample returns a Metrics in which every metric has a series.
func sample(t *testing.T) *Metrics {
	t.Helper()
	m := NewMetrics("test")
	r := streamed()
	m.Observe(&r)
	m.Retry("chat", "main", "connect")
	m.Ejected("p", "a:1", "refused")
	m.Reload(true, time.Unix(100, 0))
	m.ScrapeFailed("p", "a:1")
	m.Discovery("p", false)
	m.RecordingDropped("chat")()
	m.ObserveShadow(&r)
	m.ShadowDropped("chat", "next", "requests")
	m.Watch(func() map[string][]fleet.Status {
		return map[string][]fleet.Status{"p": {{Replica: "a:1", State: fleet.Ready, Engine: fleet.Signals{
			Running: fleet.Read(1), Waiting: fleet.Read(0), CacheUsage: fleet.Read(0.5), CacheTokens: 4096,
			QueryTokens: fleet.Read(10), HitTokens: fleet.Read(5),
		}}}}
	})
	m.WatchBeliefs(func() []Belief { return []Belief{learnt()} })
	m.SessionOpened("chat")
	m.SessionEnded("chat", "closed")
	m.WatchSessions(func() map[string]int { return map[string]int{"chat": 0} })
	return m
}

func TestReferencePageIsFresh(t *testing.T) {
	families, err := sample(t).gather()
	if err != nil {
		t.Fatal(err)
	}
	page := referenceIntro
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), namespace) {
			page += row(f)
		}
	}
	if *update {
		if err := os.WriteFile(referencePage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	old, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatalf("read the page: %v; write it with: go test ./internal/telemetry -update", err)
	}
	if diff := cmp.Diff(string(old), page); diff != "" {
		t.Errorf("docs/reference/metrics.md is stale; run: go test ./internal/telemetry -update\n%s", diff)
	}
}

func row(f *dto.MetricFamily) string {
	var labels []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		labels = append(labels, "`"+l.GetName()+"`")
	}
	kind := strings.ToLower(f.GetType().String())
	if h := f.GetMetric()[0].GetHistogram(); h != nil {
		bounds := h.GetBucket()
		kind += fmt.Sprintf(", %g s to %g s in %d buckets", bounds[0].GetUpperBound(), bounds[len(bounds)-1].GetUpperBound(), len(bounds))
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |\n", f.GetName(), kind, strings.Join(labels, ", "), f.GetHelp())
}

// TestOperationsPageHasEveryField holds the access line's table to the code.
func TestOperationsPageHasEveryField(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	r := streamed()
	r.Code, r.Err = "code", "error"
	for field := range access(t, r) {
		if field != "msg" && field != "level" && !strings.Contains(string(page), "`"+field+"`") {
			t.Errorf("the page lacks the access line's field %s", field)
		}
	}
}

// TestSampleIsComplete holds the page to the registry: a metric that sample forgets would be missing from it.
func TestSampleIsComplete(t *testing.T) {
	m := sample(t)
	described := make(chan *prometheus.Desc, 1000)
	m.registry.Describe(described)
	close(described)
	var want, got []string
	name := regexp.MustCompile(`fqName: "(warmpath_[a-z_]+)"`)
	for d := range described {
		if match := name.FindStringSubmatch(d.String()); match != nil {
			want = append(want, match[1])
		}
	}
	families, err := m.gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), namespace) {
			got = append(got, f.GetName())
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-registered +sampled):\n%s", diff)
	}
}
