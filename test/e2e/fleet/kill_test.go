//go:build e2e

package fleet

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

func TestKillOneOfFour(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"LEAST_OUTSTANDING_REQUESTS", "PREFIX_AWARE", "KV_AWARE"} {
		t.Run(strategy, func(t *testing.T) { killOneOfFour(t, strategy) })
	}
}

func killOneOfFour(t *testing.T, strategy string) {
	engines := startEngines(t, 4)
	r := startRouter(t, configuration(strategy, engines...))
	c := newClient(r)
	l := startLoad(t, c, 200, func(n int) string { return chat(n%64, 24) })

	victim := engines[1]
	pause(2 * time.Second)
	victim.kill()
	killed := time.Now()
	pause(3 * time.Second)
	victim.start(t)
	eventually(t, startLimit, "the killed engine answers", func() bool { return answers(victim.url()+"/health") == http.StatusOK })
	answered := time.Now()
	returned := func(o outcome) bool { return o.replica == victim.address && o.sent.After(answered) }
	eventually(t, startLimit, "the returned engine is in use", func() bool { return slices.ContainsFunc(l.seen(), returned) })
	pause(2 * time.Second)

	all := l.stop()
	isCut := func(o outcome) bool { return o.begun() && !o.whole }
	failed, cut := count(all, outcome.failed), count(all, isCut)
	back := time.Hour
	for _, o := range all { // in the order of their ends
		if returned(o) {
			back = min(back, o.sent.Sub(answered))
		}
	}
	t.Logf("%s: %d requests, %d failed that had not begun, %d cut mid-stream, retries %g; back in use %s after it answered",
		strategy, len(all), failed, cut, r.metric(t, "warmpath_retries_total{"), back.Round(time.Millisecond))
	if failed > 0 {
		t.Errorf("%d requests failed that had not begun to stream, want none", failed)
		report(t, all, outcome.failed)
	}
	if len(all) < 1200 {
		t.Errorf("only %d requests were sent, want about 1,600", len(all))
	}
	if n := count(all, func(o outcome) bool { return isCut(o) && (o.replica != victim.address || o.sent.After(killed)) }); n > 0 {
		t.Errorf("%d streams were cut that the killed engine had no part in", n)
	}
	if n := count(all, func(o outcome) bool { return isCut(o) && errors.Is(o.err, io.EOF) }); n > 0 {
		t.Errorf("%d streams that were cut look as if they had ended in order", n)
	}
	if back > 4*time.Second { // a probe a second, and what a busy machine adds
		t.Errorf("the returned engine was in use %s after it answered, want within about 1 s", back)
	}
	r.becomesIdle(t)
}

func TestSigtermHang(t *testing.T) {
	t.Parallel()
	engines := startEngines(t, 2)
	hung, other := engines[0], engines[1]
	r := startRouter(t, configuration("LEAST_OUTSTANDING_REQUESTS", engines...))
	c := newClient(r)
	var open sync.WaitGroup
	send := func(n, tokens int) []outcome {
		all := make([]outcome, n)
		for i := range all {
			open.Go(func() { all[i] = c.send(context.Background(), chat(i, tokens)) })
		}
		return all
	}
	begun := send(20, 250)
	// By now each engine computes ten answers that take some seconds more.
	eventually(t, startLimit, "the first requests stream", func() bool { return r.metric(t, "warmpath_in_flight{") == 20 })
	pause(time.Second)
	hung.fault(t, "stall")
	waiting := send(20, 8)
	// The other one answers some of them at once, and then gets more: how many wait here depends on how fast they come.
	eventually(t, startLimit, "more wait on the engine that computes nothing", func() bool {
		return r.metric(t, `warmpath_in_flight{pool="engines",replica="`+hung.address+`"`) > 10
	})
	hung.fault(t, "refuse,for=1m") // with stall: vLLM after SIGTERM
	dead := time.Now()
	open.Wait()

	var slowest, slowestCut time.Duration
	for _, o := range waiting {
		slowest = max(slowest, o.end.Sub(dead))
		if !o.whole || o.replica != other.address {
			t.Errorf("a request that had not begun: %s; want a whole answer from the other", o)
		}
	}
	cut := 0
	for _, o := range begun {
		if o.replica == hung.address {
			cut++
			slowestCut = max(slowestCut, o.end.Sub(dead))
			if o.whole || o.err == nil {
				t.Errorf("a stream of the hung engine looks whole: %s", o)
			}
		} else if !o.whole {
			t.Errorf("a stream of the other engine was cut: %s", o)
		}
	}
	t.Logf("20 requests that had not begun were answered within %s, %d that had were broken off within %s",
		slowest.Round(time.Millisecond), cut, slowestCut.Round(time.Millisecond))
	if cut != 10 {
		t.Errorf("%d streams were on the hung engine, want 10", cut)
	}
	if slowest > 6*time.Second || slowestCut > 9*time.Second { // less than any other time limit
		t.Error("want about 1 s for the ones and 3 s for the others")
	}
	r.becomesIdle(t)
}
