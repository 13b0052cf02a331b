package telemetry

import "github.com/prometheus/client_golang/prometheus"

// place is where requests are counted: an endpoint's variant, or with a replica that replica of it, each as its label.
type place struct{ endpoint, variant, replica string }

// prefixKeys has a sketch of the keys that PREFIX_AWARE has placed, for each place. The lock of its Metrics guards it.
type prefixKeys map[place]*sketch

// of returns the sketch of a place, new if need be.
func (p prefixKeys) of(where place) *sketch {
	s, ok := p[where]
	if !ok {
		s = &sketch{}
		p[where] = s
	}
	return s
}

var (
	prefixKeysDesc = prometheus.NewDesc(namespace+"_prefix_keys",
		"Different prefix keys (window and hint id) of the requests to a variant with PREFIX_AWARE in the last ten minutes; the standard error is 5 %.",
		[]string{"endpoint", "variant"}, nil)
	replicaPrefixKeysDesc = prometheus.NewDesc(namespace+"_replica_prefix_keys",
		"Different prefix keys whose requests went to the replica by affinity in the last ten minutes; the standard error is 5 %.",
		[]string{"endpoint", "variant", "replica"}, nil)
)

// prefixKeyCollector counts at each scrape.
type prefixKeyCollector struct{ *Metrics }

var _ prometheus.Collector = prefixKeyCollector{}

// Describe implements prometheus.Collector.
func (c prefixKeyCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- prefixKeysDesc
	ch <- replicaPrefixKeysDesc
}

// Collect implements prometheus.Collector.
func (c prefixKeyCollector) Collect(ch chan<- prometheus.Metric) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	slot := slotAt(c.roster.now())
	for p, s := range c.prefixKeys {
		if p.replica == "" {
			ch <- prometheus.MustNewConstMetric(prefixKeysDesc, prometheus.GaugeValue, s.count(slot), p.endpoint, p.variant)
			continue
		}
		ch <- prometheus.MustNewConstMetric(replicaPrefixKeysDesc, prometheus.GaugeValue, s.count(slot), p.endpoint, p.variant, p.replica)
	}
}
