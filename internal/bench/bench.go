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
	// Header is added to every request, such as credentials; nil = nothing is.
	Header http.Header

	// Speed is how many times faster than the workload says its requests arrive; 0 means 1. Unlike TimeScale it changes the load.
	Speed float64
	// Concurrency makes the loop closed: that many requests are open at any time and the workload's times are ignored; 0 = the
	// loop is open.
	Concurrency int
	// TimeScale is how many times faster than the engines' own time everything is played; 0 means 1. All results are in the
	// engines' time, so that against engines emulated at the same scale they are those of the engines.
	TimeScale float64
	// Timeout ends a request that takes longer, in real time; 0 = none.
	Timeout time.Duration

	// Warmup says which requests are sent and not counted.
	Warmup Warmup
	// TTFTObjective is the TTFT that counts as good, in the engines' time; 0 = there is none.
	TTFTObjective time.Duration

	// Ended is called after each request, from many goroutines; nil = nobody is told.
	Ended func()
}

// Warmup is how much of a run fills caches and connections before anything counts: its first Requests, and those that start
// before Time, in the engines' time. The zero value counts all.
type Warmup struct {
	Requests int
	Time     time.Duration
}

// Over says that the n-th request, counted from 0, which starts at that time, counts.
func (w Warmup) Over(n int, at time.Duration) bool { return n >= w.Requests && at >= w.Time }

// Play sends every request at its intended start, whether or not those before it have been answered: the load does not give way
// to a slow target. Latencies count from the intended start, so that a target that holds up the player is charged for it. With
// Concurrency it sends the next request when one ends, and latencies count from then. Play returns when all have ended. The
// requests must be in order of time. It takes its time from package time alone, so that testing/synctest can run it.
//
// The error is about the options, or says that ctx ended first. Requests that fail are part of the result.
func Play(ctx context.Context, requests iter.Seq[workload.Request], o Options) (*Run, error) {
	p, err := newPlayer(o)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer p.close()
	if p.o.Concurrency > 0 {
		p.closedLoop(ctx, requests)
	} else {
		p.openLoop(ctx, requests)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("bench: ended before the workload did: %w", context.Cause(ctx))
	}
	return p.run(), nil
}

type player struct {
	o        Options
	begin    time.Time
	measured *Tally
	warmup   *Tally
	own      *http.Transport // nil if the caller brought one
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
	if o.Speed == 0 {
		o.Speed = 1
	}
	switch {
	case !(o.TimeScale > 0):
		return nil, errors.New("time scale: must be above 0")
	case !(o.Speed > 0):
		return nil, errors.New("speed: must be above 0")
	case o.Concurrency < 0:
		return nil, errors.New("concurrency: must not be negative")
	}
	p := &player{begin: time.Now(), measured: NewTally(o.TTFTObjective), warmup: NewTally(0)}
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
		Proxy:               http.ProxyFromEnvironment,
		MaxIdleConnsPerHost: 1 << 16,         // as many as were in use at once
		IdleConnTimeout:     4 * time.Second, // below the 5 s after which vLLM and llama.cpp close theirs, silently
		DisableCompression:  true,
	}
}

func (p *player) openLoop(ctx context.Context, requests iter.Seq[workload.Request]) {
	var open sync.WaitGroup
	defer open.Wait()
	n := 0
	for r := range requests {
		at := time.Duration(float64(r.At) / p.o.Speed)
		intended := p.begin.Add(time.Duration(float64(at) / p.o.TimeScale))
		if !waitUntil(ctx, intended) {
			return
		}
		tally := p.tally(n, at)
		n++
		open.Go(func() { p.play(ctx, r, intended, tally) })
	}
}

func (p *player) closedLoop(ctx context.Context, requests iter.Seq[workload.Request]) {
	var workers sync.WaitGroup
	defer workers.Wait()
	next := make(chan func())
	defer close(next)
	for range p.o.Concurrency {
		workers.Go(func() {
			for play := range next {
				play()
			}
		})
	}
	n := 0
	for r := range requests {
		number := n
		n++
		play := func() {
			now := time.Now()
			p.play(ctx, r, now, p.tally(number, p.scaled(now.Sub(p.begin))))
		}
		select {
		case <-ctx.Done():
			return
		case next <- play:
		}
	}
}

// tally is where the n-th request, which starts at that time, counts.
func (p *player) tally(n int, at time.Duration) *Tally {
	if p.o.Warmup.Over(n, at) {
		return p.measured
	}
	return p.warmup
}

func (p *player) play(ctx context.Context, r workload.Request, intended time.Time, t *Tally) {
	e := p.exchange(ctx, r)
	t.Add(p.outcome(&e, intended))
	if p.o.Ended != nil {
		p.o.Ended()
	}
}

// scaled is a measured time in the engines' time.
func (p *player) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * p.o.TimeScale)
}

func (p *player) run() *Run {
	r := p.measured.Run()
	r.Target, r.TimeScale = p.o.Target, p.o.TimeScale
	if w := p.warmup.Run(); w.Requests > 0 {
		r.Warmup = &WarmupResult{Requests: w.Requests, Failed: w.Failed, Refused: w.Refused}
	}
	return r
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
