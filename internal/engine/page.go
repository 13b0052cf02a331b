package engine

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// page holds the lines of a metrics page in the Prometheus text format, by series name with every colon written as an
// underscore: engines have moved from one to the other, and some collectors replace the first by the second. A line is parsed
// when its name is asked for, so that one that is broken or strange costs no other figure.
type page map[string][][]byte

// newPage sorts the lines of a page. Comments go, and buckets too, which are most of a page and no figure of ours.
func newPage(text []byte) page {
	p := page{}
	for line := range bytes.Lines(text) {
		end := bytes.IndexAny(line, "{ \t")
		if end <= 0 || line[0] == '#' || bytes.HasSuffix(line[:end], []byte("_bucket")) {
			continue
		}
		name := strings.ReplaceAll(string(line[:end]), ":", "_")
		p[name] = append(p[name], bytes.TrimRight(line, "\r\n"))
	}
	return p
}

// metric names series of a page: those called name, with an underscore for each colon, and if label is not empty only those in
// which it has that value.
type metric struct{ name, label, value string }

// named is the metric of all series of a name.
func named(name string) metric { return metric{name: name} }

// sample is one series of a page.
type sample struct {
	labels map[string]string
	value  float64
}

// samples parses the series that m names. It returns none if one of them cannot be parsed, since a sum over the others would
// be wrong.
func (p page) samples(m metric) []sample {
	if len(p[m.name]) == 0 {
		return nil
	}
	text := append(bytes.Join(p[m.name], []byte("\n")), '\n')
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil
	}
	var found []sample
	for _, name := range slices.Sorted(maps.Keys(families)) {
		for _, series := range families[name].GetMetric() {
			s := sample{labels: labels(series), value: series.GetUntyped().GetValue()}
			if m.label == "" || s.labels[m.label] == m.value {
				found = append(found, s)
			}
		}
	}
	return merge(found)
}

func labels(m *dto.Metric) map[string]string {
	byName := make(map[string]string, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		byName[l.GetName()] = l.GetValue()
	}
	return byName
}

// shadows are labels that tell apart reporters of one thing. The workers of a tensor-parallel or pipeline-parallel group share
// their requests, and each holds a slice of every cache block; a worker process that was replaced leaves its series behind.
var shadows = []string{"tp_rank", "pp_rank", "moe_ep_rank", "pid"}

// merge makes one sample of those that only shadows tell apart: the largest, as a worker that does not know the figure reports
// 0. Samples of one name that are equal, once with a colon and once with an underscore, become one too.
func merge(samples []sample) []sample {
	var merged []sample
	for _, s := range samples {
		for _, shadow := range shadows {
			delete(s.labels, shadow)
		}
		i := slices.IndexFunc(merged, func(m sample) bool { return maps.Equal(m.labels, s.labels) })
		if i < 0 {
			merged = append(merged, s)
			continue
		}
		merged[i].value = max(merged[i].value, s.value)
	}
	return merged
}
