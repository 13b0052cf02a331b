package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/workload"
	"github.com/warmpath/warmpath/test/turns"
)

// A replica is killed after lossAfter, stays dead for lossFor, and then has lossThen to get a request.
const lossAfter, lossFor, lossThen = 3 * time.Second, 4 * time.Second, 6 * time.Second

// mostAnswers is more than the fleet can give in that time.
const mostAnswers = 4000

// loss is what a killed replica cost.
type loss struct {
	requests, failed int
	kinds            map[string]int
	p99              float64 // TTFT, milliseconds
	// back is how long the replica was healthy again before it got a request; lossThen = it got none.
	back time.Duration
}

// measureLoss kills the busiest replica without a word while clients ask as for quality, and starts it again. Engines have nothing
// to say before a request's first word but its status, so that each request could be answered by another one. The clients are
// more than three replicas serve at once: a router has reason to use the fourth again.
func (c *comparison) measureLoss(ctx context.Context) error {
	for seed := range c.losses {
		requests, err := draw(fmt.Sprintf(workloads[0].spec, mostAnswers), seed+1)
		if err != nil {
			return err
		}
		for _, e := range c.entries {
			got, err := c.lose(ctx, e, requests)
			if err != nil {
				return err
			}
			e.lost = append(e.lost, got)
			say("draw %d, a replica killed, %s: %d of %d failed %v, back in use after %v",
				seed+1, e.label(), got.failed, got.requests, got.kinds, got.back.Round(time.Millisecond))
		}
	}
	return nil
}

func (c *comparison) lose(ctx context.Context, e *entry, requests workload.Workload) (loss, error) {
	engines, err := startFleet(ctx, c.warmpath, c.firstPort)
	if err != nil {
		return loss{}, err
	}
	defer engines.Stop()
	var started turns.Processes
	defer started.Stop()
	router, err := e.start(ctx, &started, engines.urls, c.folder)
	if err != nil {
		return loss{}, err
	}
	var back time.Duration
	disturbed := make(chan error, 1)
	go func() {
		var err error
		back, err = engines.disturb(ctx)
		disturbed <- err
	}()
	run, err := bench.Play(ctx, during(lossAfter+lossFor+lossThen, requests.Requests()),
		bench.Options{Target: router.URL, Concurrency: clients, Timeout: timeout})
	if err := errors.Join(<-disturbed, err); err != nil {
		return loss{}, err
	}
	return loss{requests: run.Requests, failed: run.Failed + run.Refused, kinds: run.Errors, p99: run.TTFT.P99, back: back}, nil
}

// during ends the requests when that time has passed since the first.
func during(length time.Duration, requests iter.Seq[workload.Request]) iter.Seq[workload.Request] {
	return func(yield func(workload.Request) bool) {
		began := time.Now()
		for r := range requests {
			if time.Since(began) > length || !yield(r) {
				return
			}
		}
	}
}

// disturb kills an engine, starts it again, and returns how long it was healthy before it got a request, at most
// lossThen.
func (f *fleet) disturb(ctx context.Context) (time.Duration, error) {
	turns.Sleep(ctx, lossAfter)
	engine, err := f.killBusiest()
	if err != nil {
		return 0, err
	}
	turns.Sleep(ctx, lossFor)
	if err := f.start(ctx, engine); err != nil {
		return 0, err
	}
	for began := time.Now(); time.Since(began) < lossThen && ctx.Err() == nil; turns.Sleep(ctx, 20*time.Millisecond) {
		running, err := figure(engine, "vllm:num_requests_running")
		if err != nil {
			return 0, err
		}
		answered, err := figure(engine, "vllm:request_success_total")
		if err != nil {
			return 0, err
		}
		if running+answered > 0 {
			return time.Since(began), nil
		}
	}
	return lossThen, nil
}
