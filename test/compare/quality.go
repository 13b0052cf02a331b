package main

import (
	"context"
	"fmt"
	"time"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/workload"
	"github.com/warmpath/warmpath/test/turns"
)

const (
	replicas = 4
	clients  = 32 // as many as the fleet has slots twice over
	warmup   = 100
	timeout  = time.Minute // of a request
)

// workloads have one length of prompt, 2,020 tokens, of which 2,000 are shared.
var workloads = []struct{ name, spec string }{
	{"16 equal prefixes", "rag:documents=16,document=2000,question=20,preamble=1,output=1,requests=%d"},
	{"one prefix", "hot:share=1,prefix=2000,question=20,output=1,requests=%d"},
	{"a hot prefix and 15 others", "hot:share=0.6,others=15,prefix=2000,question=20,output=1,requests=%d"},
}

// figures are what one run came to.
type figures struct {
	*bench.Run
	imbalance float64 // the busiest replica's requests over the mean
}

// measureQuality lets 32 clients ask, each at once again when it has been answered.
func (c *comparison) measureQuality(ctx context.Context) error {
	for seed := range c.seeds {
		for i, w := range workloads {
			requests, err := draw(fmt.Sprintf(w.spec, warmup+c.requests), seed+1)
			if err != nil {
				return err
			}
			for _, e := range c.entries {
				got, err := c.play(ctx, e, requests)
				if err != nil {
					return err
				}
				e.quality[i] = append(e.quality[i], got)
				say("draw %d, %s, %s: %.1f requests/s, %s hit, busiest %.2f, %d failed",
					seed+1, w.name, e.label(), got.RequestsPerSecond, percent(got.hit()), got.imbalance, got.Failed+got.Refused)
			}
		}
	}
	return nil
}

func (c *comparison) play(ctx context.Context, e *entry, requests workload.Workload) (figures, error) {
	engines, err := startFleet(ctx, c.warmpath, c.firstPort)
	if err != nil {
		return figures{}, err
	}
	defer engines.Stop()
	var started turns.Processes
	defer started.Stop()
	router, err := e.start(ctx, &started, engines.urls, c.folder)
	if err != nil {
		return figures{}, err
	}
	run, err := bench.Play(ctx, requests.Requests(), bench.Options{
		Target: router.URL, Concurrency: clients, Warmup: bench.Warmup{Requests: warmup}, Timeout: timeout,
	})
	if err != nil {
		return figures{}, err
	}
	if run.RequestsPerSecond == 0 {
		return figures{}, fmt.Errorf("%s: answered nothing: %v", e.label(), run.Errors)
	}
	imbalance, err := engines.imbalance()
	return figures{run, imbalance}, err
}

// draw gives the requests of a workload. Some routers refuse bodies that name no model.
func draw(spec string, seed int) (workload.Workload, error) {
	w, err := workload.Parse(spec, uint64(seed))
	return workload.WithBodies(w, turns.Model), err
}

// hit is the share of prompt tokens that were cached, 0 if no answer said.
func (f figures) hit() float64 {
	if f.HitRate == nil {
		return 0
	}
	return *f.HitRate
}

// each is a figure of every draw of a workload.
func (e *entry) each(workload int, of func(figures) float64) []float64 {
	var values []float64
	for _, f := range e.quality[workload] {
		values = append(values, of(f))
	}
	return values
}
