// Package bench plays a workload against an OpenAI-style URL and measures what clients would see.
package bench

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/workload"
)

// Options say where and how a workload is played.
type Options struct {
	// Target is the base URL that the paths of the requests are appended to.
	Target string
	// Transport carries the requests; nil means one of the player's own, with as many connections as requests are open.
	Transport http.RoundTripper
	// TimeScale is how many times faster than the workload's own time it is played; 0 means 1. All results are in the
	// workload's time, so that against engines emulated at the same scale they are those of the engines.
	TimeScale float64
	// Timeout ends a request that takes longer, in real time; 0 = none.
	Timeout time.Duration
	// Ended is called after each request, from many goroutines; nil = nobody is told.
	Ended func()
}

// Play sends every request at its intended start, whether or not those before it have been answered: the load does not give way
// to a slow target. Latencies count from the intended start, so that a target that holds up the player is charged for it. Play
// returns when all have ended. The requests must be in order of time. It takes its time from package time alone, so that
// testing/synctest can run it.
//
// The error is about the options, or says that ctx ended first. Requests that fail are part of the result.
func Play(ctx context.Context, requests iter.Seq[workload.Request], o Options) (*Run, error) {
	p, err := newPlayer(o)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer p.close()
	begin := time.Now()
	var open sync.WaitGroup
	for r := range requests {
		intended := begin.Add(time.Duration(float64(r.At) / p.o.TimeScale))
		if !waitUntil(ctx, intended) {
			break
		}
		open.Go(func() {
			p.tally.add(p.exchange(ctx, r, intended))
			if p.o.Ended != nil {
				p.o.Ended()
			}
		})
	}
	open.Wait()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("bench: ended before the workload did: %w", context.Cause(ctx))
	}
	return p.tally.run(p.o, time.Since(begin)), nil
}

type player struct {
	o     Options
	tally *tally
	own   *http.Transport // nil if the caller brought one
}

func newPlayer(o Options) (*player, error) {
	u, err := url.Parse(o.Target)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("target: %q is not a URL; write http://HOST:PORT", o.Target)
	}
	o.Target = strings.TrimRight(o.Target, "/")
	if o.TimeScale == 0 {
		o.TimeScale = 1
	}
	if !(o.TimeScale > 0) {
		return nil, errors.New("time scale: must be above 0")
	}
	p := &player{tally: newTally()}
	if o.Transport == nil {
		p.own = newTransport()
		o.Transport = p.own
	}
	p.o = o
	return p, nil
}

func (p *player) close() {
	if p.own != nil {
		p.own.CloseIdleConnections()
	}
}

func newTransport() *http.Transport {
	return &http.Transport{
		MaxIdleConnsPerHost: 1 << 16,         // as many as were in use at once
		IdleConnTimeout:     4 * time.Second, // below the 5 s after which vLLM and llama.cpp close theirs, silently
		DisableCompression:  true,
	}
}

// waitUntil reports false if ctx ended first.
func waitUntil(ctx context.Context, at time.Time) bool {
	if ctx.Err() != nil {
		return false
	}
	wait := time.Until(at)
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
