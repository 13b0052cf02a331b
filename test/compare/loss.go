package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/workload"
	"github.com/warmpath/warmpath/test/turns"
)

const (
	// lossRate is what three replicas can bear even if few prompts hit.
	lossRate = 30
	// lossAfter is when the replica is killed, and lossFor how long requests go on from then.
	lossAfter, lossFor = 5 * time.Second, 10 * time.Second
)

// loss is what a killed replica cost.
type loss struct {
	requests, failed int
	kinds            map[string]int
	p99              float64 // TTFT, milliseconds
}

// measureLoss kills the busiest replica without a word while requests arrive at a steady rate. Engines have nothing to say before a request's
// first word but its status, so that each request could be answered by another one.
func (c *comparison) measureLoss() error {
	count := int(lossRate * (lossAfter + lossFor).Seconds())
	for seed := range c.seeds {
		spec := fmt.Sprintf("%s,rate=%d", fmt.Sprintf(workloads[0].spec, count), lossRate)
		requests, err := draw(spec, seed+1)
		if err != nil {
			return err
		}
		for _, e := range c.entries {
			got, err := c.lose(e, requests)
			if err != nil {
				return err
			}
			e.losses = append(e.losses, got)
			say("draw %d, a replica killed, %s: %d of %d failed %v", seed+1, e.label(), got.failed, got.requests, got.kinds)
		}
	}
	return nil
}

func (c *comparison) lose(e *entry, requests workload.Workload) (loss, error) {
	engines, err := startFleet(c.warmpath, c.firstPort)
	if err != nil {
		return loss{}, err
	}
	defer engines.Stop()
	var started turns.Processes
	defer started.Stop()
	router, err := e.start(&started, engines.urls, c.folder)
	if err != nil {
		return loss{}, err
	}
	killed := make(chan error, 1)
	time.AfterFunc(lossAfter, func() { killed <- engines.killBusiest() })
	run, err := bench.Play(context.Background(), requests.Requests(), bench.Options{Target: router.URL, Timeout: timeout})
	if err := errors.Join(err, <-killed); err != nil {
		return loss{}, err
	}
	return loss{requests: run.Requests, failed: run.Failed + run.Refused, kinds: run.Errors, p99: run.TTFT.P99}, nil
}
