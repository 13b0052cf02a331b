package telemetry

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"go.yaml.in/yaml/v4"
)

const rulesFile = "../../examples/prometheus-rules.yaml"

// vocabulary is what a query may be made of.
type vocabulary struct {
	names  map[string]bool // of series
	labels []string
	values map[string][]string // by label
}

func speak(t *testing.T) vocabulary {
	t.Helper()
	families, err := sample(t).gather()
	if err != nil {
		t.Fatal(err)
	}
	v := vocabulary{names: map[string]bool{}, labels: []string{"instance", "job", "le"}, values: map[string][]string{
		"decision": {"affinity", "overflow", "fallback", "random", "least_outstanding", "least_latency", "session", "retry"},
		"outcome":  {OutcomeOK, OutcomeClientError, OutcomeRefused, OutcomeUpstreamError, OutcomeUpstreamAborted, OutcomeClientCancelled, OutcomeTimeout},
	}}
	for _, f := range families {
		name := f.GetName()
		v.names[name] = true
		switch f.GetType() {
		case dto.MetricType_HISTOGRAM:
			v.names[name+"_bucket"], v.names[name+"_sum"], v.names[name+"_count"] = true, true, true
		case dto.MetricType_SUMMARY:
			v.names[name+"_sum"], v.names[name+"_count"] = true, true
		}
		for _, l := range f.GetMetric()[0].GetLabel() {
			v.labels = append(v.labels, l.GetName())
		}
	}
	return v
}

var (
	metricName = regexp.MustCompile(`\bwarmpath_[a-z_]+\b`)
	grouping   = regexp.MustCompile(`\b(?:by|on|ignoring|without|group_left|group_right) ?\(([^)]*)\)`)
	matcher    = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"`)
	word       = regexp.MustCompile(`[a-z_]+`)
	block      = regexp.MustCompile("(?s)```promql\n(.*?)```")
	span       = regexp.MustCompile("`([^`\n]*warmpath_[^`\n]*)`")
)

// faults says which words of a query name nothing there is.
func (v vocabulary) faults(query string) (faults []string) {
	for _, name := range metricName.FindAllString(query, -1) {
		if !v.names[name] && !(strings.HasSuffix(name, "_") && v.isPrefix(name)) {
			faults = append(faults, "no metric "+name)
		}
	}
	for _, group := range grouping.FindAllStringSubmatch(query, -1) {
		for _, label := range word.FindAllString(group[1], -1) {
			if !slices.Contains(v.labels, label) {
				faults = append(faults, "no label "+label)
			}
		}
	}
	for _, m := range matcher.FindAllStringSubmatch(query, -1) {
		if !slices.Contains(v.labels, m[1]) {
			faults = append(faults, "no label "+m[1])
		}
		for _, value := range word.FindAllString(m[2], -1) {
			if known := v.values[m[1]]; known != nil && !slices.Contains(known, value) {
				faults = append(faults, "no "+m[1]+" "+value)
			}
		}
	}
	for _, pair := range []string{"()", "{}", "[]"} {
		if strings.Count(query, pair[:1]) != strings.Count(query, pair[1:]) {
			faults = append(faults, "unbalanced "+pair)
		}
	}
	return faults
}

// isPrefix says that several metrics begin like that, as in warmpath_engine_*.
func (v vocabulary) isPrefix(name string) bool {
	for known := range v.names {
		if strings.HasPrefix(known, name) {
			return true
		}
	}
	return false
}

func TestQueriesOfPagesAreOfWhatThereIs(t *testing.T) {
	v, found := speak(t), 0
	check := func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		page, err := os.ReadFile(path)
		for _, m := range slices.Concat(block.FindAllSubmatch(page, -1), span.FindAllSubmatch(page, -1)) {
			found++
			for _, fault := range v.faults(strings.ReplaceAll(string(m[1]), `\|`, "|")) {
				t.Errorf("%s: %s, in %s", path, fault, m[1])
			}
		}
		return err
	}
	if err := filepath.WalkDir("../../docs", check); err != nil || found < 100 {
		t.Errorf("%d queries and names, %v", found, err)
	}
}

func TestRulesAreOfWhatThereIs(t *testing.T) {
	text, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	type rule struct {
		Alert, Expr, For    string
		Labels, Annotations map[string]string
	}
	var rules struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	if err := yaml.Load(text, &rules, yaml.WithKnownFields()); err != nil || len(rules.Groups) != 1 {
		t.Fatalf("%d groups, %v", len(rules.Groups), err)
	}
	v, seen := speak(t), map[string]bool{}
	for _, r := range rules.Groups[0].Rules {
		if seen[r.Alert] || r.For == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s is there twice, or lacks something: %+v", r.Alert, r)
		}
		seen[r.Alert] = true
		for _, fault := range append(v.faults(r.Expr), v.faults(r.Annotations["description"])...) {
			t.Errorf("%s: %s", r.Alert, fault)
		}
	}
	if len(seen) < 4 {
		t.Errorf("only %d rules", len(seen))
	}
}

func TestFaultsOfQueries(t *testing.T) {
	v := speak(t)
	for query, want := range map[string][]string{
		`sum by (endpoint, le) (rate(warmpath_ttft_seconds_bucket{decision=~"affinity|overflow"}[5m]))`: nil,
		`warmpath_engine_*`:                     nil,
		`warmpath_nothing_*`:                    {"no metric warmpath_nothing_"},
		`warmpath_in_flight_bucket`:             {"no metric warmpath_in_flight_bucket"},
		`sum by (pod) (warmpath_in_flight)`:     {"no label pod"},
		`warmpath_in_flight{pods="a"}`:          {"no label pods"},
		`warmpath_requests_total{decision="x"}`: {"no decision x"},
		`rate(warmpath_requests_total[5m)`:      {"unbalanced []"},
	} {
		if got := v.faults(query); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}
