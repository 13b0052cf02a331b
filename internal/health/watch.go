package health

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

// watch is the loop that probes one replica. Its fields belong to that loop.
type watch struct {
	prober  *Prober
	replica *fleet.Replica
	cancel  context.CancelFunc

	awaited  bool // its first probe is one that the prober's Settled waits for
	verdict  verdict
	passes   int // in a row
	failures int // in a row
}

// verdict is what the probes of a replica have come to.
type verdict uint8

const (
	undecided verdict = iota
	healthy
	unhealthy
)

func (w *watch) run(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		w.probe(ctx)
		w.prober.probedOnce(w)
		w.pause(ctx, began)
	}
}

// pause waits until it is time for the next probe, counted from the beginning of the last. It looks up every second, since
// a replica that has been ejected meanwhile is to be probed sooner.
func (w *watch) pause(ctx context.Context, began time.Time) {
	spread := 0.9 + 0.2*w.prober.o.Rand()
	for ctx.Err() == nil {
		if w.replica.Removed() && w.replica.InFlight() == 0 {
			w.cancel()
			return
		}
		left := time.Duration(spread*float64(w.interval())) - time.Since(began)
		if left <= 0 {
			return
		}
		sleep(ctx, min(left, troubledInterval))
	}
}

// interval is how long to leave the replica alone.
func (w *watch) interval() time.Duration {
	if w.verdict == healthy && !w.prober.o.Outlier.isOut(w.replica) && !w.replica.Removed() {
		return w.prober.o.Interval
	}
	return min(w.prober.o.Interval, troubledInterval)
}

func (w *watch) probe(ctx context.Context) {
	err := w.prober.ask(ctx, w.replica)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		w.pass()
	default:
		w.fail(err)
	}
}

func (w *watch) pass() {
	w.failures = 0
	w.passes++
	if w.verdict != healthy {
		if w.passes < w.prober.o.HealthyAfter {
			return
		}
		w.verdict = healthy
		w.prober.o.Log.Info("replica healthy", "replica", w.replica.ID())
	}
	w.prober.fleet.SetHealth(w.replica, true)
	w.prober.o.Outlier.ProbeSucceeded(w.replica)
}

// fail counts a failed probe. A refused connection needs no second: the process is gone, and with it every request that
// still waits there.
func (w *watch) fail(err error) {
	outcome := OfError(err)
	if outcome == LocalFault {
		w.prober.o.Log.Debug("probe not sent", "replica", w.replica.ID(), "cause", err)
		return
	}
	w.passes = 0
	w.failures++
	if outcome == Refused {
		w.replica.MarkLost()
		w.prober.o.Outlier.ProbeRefused(w.replica)
	} else if w.failures < w.prober.o.UnhealthyAfter {
		return
	}
	w.prober.fleet.SetHealth(w.replica, false)
	if w.verdict != unhealthy {
		w.verdict = unhealthy
		w.prober.o.Log.Warn("replica unhealthy", "replica", w.replica.ID(), "cause", err)
	}
}

// ask sends one probe. It returns nil for a 2xx.
func (p *Prober) ask(ctx context.Context, r *fleet.Replica) error {
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL().String()+p.o.Path, nil)
	if err != nil {
		return fmt.Errorf("probe: %w; check the path of the pool's health settings", err)
	}
	req.Header.Set("User-Agent", "warmpath-probe")
	if p.o.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+p.o.APIKey)
	}
	resp, err := p.o.Transport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("probe: %s answered %s", p.o.Path, resp.Status)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
