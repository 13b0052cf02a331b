package engine

import (
	"errors"
	"math"
	"strconv"

	"github.com/warmpath/warmpath/internal/fleet"
)

// Metered is an engine with a metrics page.
type Metered interface {
	// MetricsPath is the path of the page below the base URL of a replica. It begins with a slash; "" means that the kind has no
	// usual path and its pages are read only where the configuration names one.
	MetricsPath() string
	// ReadSignals finds the engine's figures in a page in the Prometheus text format. Data-parallel ranks and models that report
	// one by one are added up, their shares averaged. A figure that is missing, broken, negative, not finite or absurdly large is
	// unknown. The error is ErrNoSignals if all are. The time of reading is the caller's to set.
	ReadSignals(text []byte) (fleet.Signals, error)
}

// ErrNoSignals says that a page has none of the figures that its kind of engine publishes. It is no load of zero.
var ErrNoSignals = errors.New("metrics page: none of the engine's figures is on it; check the pool's engine, and that its metrics are on")

// mostTokens bounds what is believed of a page: no cache holds and no process has seen more tokens.
const mostTokens = 1e15

// layout says where the figures of a kind of engine stand. Of several metrics for one figure the first that the page has counts,
// so newer names come first.
type layout struct {
	running, waiting, usage []metric
	// tokens tells the size of the cache and of a block, 0 for unknown.
	tokens func(page) (cache, block float64)
	// prefix tells the prompt tokens looked up in the prefix cache, and those found.
	prefix func(page) (queries, hits fleet.Reading)
	asleep func(page) bool
}

// read finds the figures of a page.
func (l layout) read(text []byte) (fleet.Signals, error) {
	p := newPage(text)
	s := fleet.Signals{Running: p.sum(l.running...), Waiting: p.sum(l.waiting...), CacheUsage: p.share(l.usage...)}
	if l.tokens != nil {
		cache, block := l.tokens(p)
		s.CacheTokens, s.BlockTokens = whole(cache), whole(block)
	}
	if l.prefix != nil {
		s.QueryTokens, s.HitTokens = l.prefix(p)
	}
	s.Asleep = l.asleep != nil && l.asleep(p)
	if s == (fleet.Signals{}) {
		return s, ErrNoSignals
	}
	return s, nil
}

// sum adds up the series of the first metric that the page has.
func (p page) sum(choices ...metric) fleet.Reading {
	total, _ := add(p.first(choices), mostTokens)
	return total
}

// share is the mean of the series of the first metric that the page has, each from 0 to 1: ranks have caches of one size.
func (p page) share(choices ...metric) fleet.Reading {
	total, n := add(p.first(choices), 1)
	if total.Known {
		total.Value /= float64(n)
	}
	return total
}

// add is the sum of n samples, unknown if there are none or one is not from 0 to most.
func add(samples []sample, most float64) (total fleet.Reading, n int) {
	for _, s := range samples {
		if !(s.value >= 0 && s.value <= most) { // NaN is neither
			return fleet.Reading{}, 0
		}
		total = fleet.Read(total.Value + s.value)
	}
	return total, len(samples)
}

// largest is the greatest value of a metric whose ranks all report the same; 0 = unknown.
func (p page) largest(m metric) float64 {
	most := 0.0
	for _, s := range p.samples(m) {
		most = max(most, plausible(s.value))
	}
	return most
}

func (p page) first(choices []metric) []sample {
	for _, m := range choices {
		if samples := p.samples(m); len(samples) > 0 {
			return samples
		}
	}
	return nil
}

// number is a label's value as a count, 0 if it is none: engines write None for what they do not know.
func (s sample) number(label string) float64 {
	n, err := strconv.ParseFloat(s.labels[label], 64)
	if err != nil {
		return 0
	}
	return plausible(n)
}

// plausible is a count that can be believed, else 0.
func plausible(n float64) float64 {
	if n >= 1 && n <= mostTokens {
		return n
	}
	return 0
}

func whole(n float64) int64 { return int64(math.Round(plausible(n))) }
