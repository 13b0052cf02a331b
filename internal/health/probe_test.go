package health

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/fleet"
)

// clinic is a fleet, its prober and its outlier in front of the engines of a test, inside a synctest bubble.
type clinic struct {
	*testing.T
	*engines
	fleet   *fleet.Fleet
	prober  *Prober
	outlier *Outlier
}

func newClinic(t *testing.T, change func(*ProbeOptions)) *clinic {
	c := &clinic{T: t, engines: newEngines(), fleet: fleet.New(fleet.Options{})}
	c.outlier = NewOutlier(c.fleet, OutlierOptions{ConsecutiveErrors: 3, BaseTime: 10 * time.Second, MaxTime: time.Minute, Rand: half})
	o := DefaultProbeOptions
	o.Outlier, o.Transport, o.Rand = c.outlier, c.engines, half
	if change != nil {
		change(&o)
	}
	c.prober = NewProber(c.fleet, o)
	return c
}

// close stops everything; goleak then finds what goes on.
func (c *clinic) close() {
	c.prober.Stop()
	c.outlier.Stop()
	if c.overlap {
		c.Error("two probes of one replica ran at once")
	}
}

// apply makes those hosts the fleet.
func (c *clinic) apply(hosts ...string) {
	c.fleet.Apply(targets(hosts...))
	c.prober.Sync()
	synctest.Wait()
}

// wait lets virtual time pass.
func (c *clinic) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (c *clinic) want(when, want string) {
	c.Helper()
	wantStates(c.T, c.fleet, when, want)
}

// observe sends a request with that outcome.
func (c *clinic) observe(host string, outcomes ...Outcome) {
	for _, out := range outcomes {
		l := lease(c.T, c.fleet, host)
		c.outlier.Observe(l, out)
		l.Release()
	}
}

// within fails the test unless the replica is ready within d, and says when it was.
func (c *clinic) within(d time.Duration, host string) {
	c.Helper()
	began := time.Now()
	for time.Since(began) < d {
		if strings.Contains(states(c.fleet), host+"=ready") {
			return
		}
		c.wait(10 * time.Millisecond)
	}
	c.Errorf("%s is not ready after %v: %s", host, d, states(c.fleet))
}

func TestProbesTakeAndReturnReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClinic(t, nil)
		defer c.close()
		c.set("a:1", passes)
		c.set("b:1", passes)
		c.apply("a:1", "b:1")
		c.want("after the first probes", "a:1=ready b:1=ready")

		c.set("a:1", loading)
		c.wait(2 * time.Second)
		c.want("after two failures", "a:1=ready b:1=ready")
		c.wait(time.Second)
		c.want("after three failures", "a:1=unhealthy b:1=ready")

		c.set("a:1", passes)
		c.within(2*time.Second, "a:1")
	})
}

func TestAnswersThatAreNotHealthy(t *testing.T) {
	tests := map[string]answer{
		"redirect":      {status: 302},
		"not found":     {status: 404},
		"unauthorized":  {status: 401},
		"loading":       loading,
		"broken":        {err: &net.OpError{Op: "read", Err: syscall.ECONNRESET}},
		"hangs":         hangs,
		"not reachable": {err: dialError(syscall.EHOSTUNREACH)},
	}
	for name, a := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClinic(t, nil)
				defer c.close()
				c.set("a:1", passes)
				c.apply("a:1")
				c.set("a:1", a)
				c.wait(5 * time.Second)
				c.want("after some failures", "a:1=unhealthy")
				c.set("a:1", passes)
				c.within(2*time.Second, "a:1")
			})
		})
	}
}

func TestOwnExhaustionIsNoVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClinic(t, nil)
		defer c.close()
		c.set("a:1", passes)
		c.apply("a:1")
		c.set("a:1", answer{err: dialError(syscall.EMFILE)})
		c.wait(time.Minute)
		c.want("with no files left", "a:1=ready")
	})
}

func TestThresholds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClinic(t, func(o *ProbeOptions) { o.UnhealthyAfter, o.HealthyAfter = 1, 3 })
		defer c.close()
		c.set("a:1", passes)
		c.apply("a:1")
		c.wait(time.Second)
		c.want("after two passes", "a:1=starting")
		c.wait(time.Second)
		c.want("after three", "a:1=ready")
		c.set("a:1", loading)
		c.wait(time.Second)
		c.want("after one failure", "a:1=unhealthy")
		c.set("a:1", passes)
		c.wait(2 * time.Second)
		c.set("a:1", loading)
		c.wait(time.Second)
		c.set("a:1", passes)
		c.wait(2 * time.Second)
		c.want("after two passes, a failure and two passes", "a:1=unhealthy")
		c.wait(time.Second)
		c.want("after the third in a row", "a:1=ready")
	})
}

// TestC061_ReplicaIsNeverGivenUp stops a replica for long and starts it again, whatever it did meanwhile.
func TestC061_ReplicaIsNeverGivenUp(t *testing.T) {
	tests := map[string]answer{"port closed": refuses, "host gone": hangs, "server errors": {status: 500}}
	for name, down := range tests {
		for _, away := range []time.Duration{2 * time.Minute, time.Hour} {
			t.Run(fmt.Sprint(name, " for ", away), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newClinic(t, func(o *ProbeOptions) { o.Interval = 30 * time.Second })
					defer c.close()
					c.set("a:1", passes)
					c.set("b:1", passes)
					c.apply("a:1", "b:1")
					c.set("a:1", down)
					c.wait(away)
					c.want("while it is away", "a:1=unhealthy b:1=ready")
					c.set("a:1", passes)
					c.within(2*time.Second+c.prober.o.Timeout, "a:1")
				})
			})
		}
	}
}

// TestC062_NothingBeforeTheFirstPass adds a replica that loads for a minute to a fleet that works.
func TestC062_NothingBeforeTheFirstPass(t *testing.T) {
	for name, start := range map[string]answer{"503 while loading": loading, "port closed": refuses} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClinic(t, nil)
				defer c.close()
				c.set("a:1", passes)
				c.apply("a:1")
				c.set("b:1", start)
				c.apply("a:1", "b:1")
				for range 60 {
					for _, r := range c.fleet.View().Eligible {
						if r.ID() != "a:1" {
							t.Fatalf("%s may get requests before its first pass", r.ID())
						}
					}
					c.wait(time.Second)
				}
				c.set("b:1", passes)
				c.within(2*time.Second, "b:1")
			})
		})
	}
}

func TestRefusedProbeMovesWaitingRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClinic(t, nil)
		defer c.close()
		c.set("a:1", passes)
		c.apply("a:1")
		r := c.fleet.View().Replicas[0]
		waiting := r.Lost()
		c.set("a:1", refuses)
		c.wait(time.Second)
		c.want("after one refused probe", "a:1=unhealthy")
		if waiting.Err() == nil {
			t.Error("requests on a replica that turned dead are not told")
		}
		waiting = r.Lost()
		c.wait(time.Second)
		if waiting.Err() == nil {
			t.Error("requests on a replica that was dead already are not told")
		}
		waiting = r.Lost()
		c.set("a:1", loading)
		c.wait(10 * time.Second)
		if waiting.Err() != nil {
			t.Error("a probe that fails otherwise breaks requests off")
		}
	})
}

// TestRemovedReplicaIsWatchedToItsEnd removes a replica whose engine then dies with a request open.
func TestRemovedReplicaIsWatchedToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClinic(t, func(o *ProbeOptions) { o.Interval = 30 * time.Second })
		defer c.close()
		c.set("a:1", passes)
		c.set("b:1", passes)
		c.apply("a:1", "b:1")
		l := lease(t, c.fleet, "a:1")
		c.apply("b:1")
		stream := l.Replica().Lost()
		c.wait(time.Minute)
		if stream.Err() != nil {
			t.Fatal("a removed replica that still works was called dead")
		}
		c.set("a:1", refuses)
		c.wait(2 * time.Second)
		if stream.Err() == nil {
			t.Error("the death of a removed replica was not noticed")
		}
		l.Release()
		c.wait(2 * time.Second)
		c.probed("a:1")
		c.wait(time.Hour)
		if got := c.probed("a:1"); got != nil {
			t.Errorf("%d probes of a removed replica without requests, want 0", len(got))
		}
	})
}

func TestProbesAreRegularAndSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClinic(t, func(o *ProbeOptions) { o.Interval, o.Rand = 10*time.Second, nil })
		defer c.close()
		c.set("a:1", passes)
		c.apply("a:1")
		c.wait(time.Hour)
		times := c.probed("a:1")
		different := map[time.Duration]bool{}
		for i, at := range times[1:] {
			gap := at.Sub(times[i])
			different[gap] = true
			if gap < 9*time.Second || gap > 11*time.Second {
				t.Errorf("probe %d came after %v, want 10s within a tenth", i+1, gap)
			}
		}
		if len(times) < 340 || len(different) < 100 {
			t.Errorf("%d probes with %d different gaps in an hour", len(times), len(different))
		}
	})
}

func TestSlowProbesDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClinic(t, func(o *ProbeOptions) { o.Interval, o.Timeout = time.Second, 5*time.Second })
		defer c.close()
		c.set("a:1", answer{after: 3 * time.Second, status: 200})
		c.apply("a:1")
		c.wait(time.Minute)
		c.want("with slow answers", "a:1=ready")
		if got := len(c.probed("a:1")); got < 19 || got > 21 {
			t.Errorf("%d probes of 3 s in a minute, want 20", got)
		}
	})
}

// TestEjectedReplicaIsProbedSooner ejects a replica that is probed twice a minute; its process is back a moment later.
func TestEjectedReplicaIsProbedSooner(t *testing.T) {
	for _, out := range []Outcome{Refused, Unreachable} {
		t.Run(out.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClinic(t, func(o *ProbeOptions) { o.Interval = 30 * time.Second })
				defer c.close()
				c.set("a:1", passes)
				c.set("b:1", passes)
				c.apply("a:1", "b:1")
				c.wait(5 * time.Second)
				c.set("a:1", refuses)
				c.observe("a:1", out)
				c.wait(10 * time.Millisecond)
				c.want("after the failed connection", "a:1=ejected b:1=ready")
				c.wait(3 * time.Second)
				c.set("a:1", passes)
				c.within(2*time.Second, "a:1")
			})
		})
	}
}

// TestKilledUnderLoad breaks many streams at once, so that the replica is ejected for its answers before a connection or a
// probe is refused. Its next process must not pay for that.
func TestKilledUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClinic(t, nil)
		defer c.close()
		c.set("a:1", passes)
		c.set("b:1", passes)
		c.apply("a:1", "b:1")
		for range 3 {
			c.set("a:1", refuses)
			c.observe("a:1", ServerFault, ServerFault, ServerFault, ServerFault)
			c.want("after the streams broke", "a:1=ejected b:1=ready")
			c.wait(1500 * time.Millisecond)
			c.set("a:1", passes)
			c.within(2*time.Second, "a:1")
		}
	})
}

func TestServerFaultsOutlastProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClinic(t, nil)
		defer c.close()
		c.set("a:1", passes)
		c.set("b:1", passes)
		c.apply("a:1", "b:1")
		c.observe("a:1", ServerFault, ServerFault, ServerFault)
		c.wait(8 * time.Second)
		c.want("before the back-off is over", "a:1=ejected b:1=ready")
		c.wait(2 * time.Second)
		c.want("after it", "a:1=half_open b:1=ready")
		c.wait(time.Hour)
		c.want("while no request comes", "a:1=half_open b:1=ready")
		c.observe("a:1", Success)
		c.want("after a request that succeeds", "a:1=ready b:1=ready")
	})
}

// TestC064_OnlyThePresentSetIsProbed changes between two sets 200 times and looks who is probed in the minute after.
func TestC064_OnlyThePresentSetIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClinic(t, func(o *ProbeOptions) { o.Interval = 10 * time.Second })
		defer c.close()
		sets := [][]string{{"a:1", "b:1", "both:1"}, {"both:1", "c:1"}}
		for _, host := range []string{"a:1", "b:1", "both:1", "c:1"} {
			c.set(host, passes)
		}
		for i := range 200 {
			c.apply(sets[i%2]...)
			c.wait(100 * time.Millisecond)
		}
		counts := func() map[string]int {
			out := map[string]int{}
			for _, host := range []string{"a:1", "b:1", "both:1", "c:1"} {
				out[host] = len(c.probed(host))
			}
			return out
		}
		counts()
		c.wait(time.Minute)
		if diff := cmp.Diff(map[string]int{"a:1": 0, "b:1": 0, "both:1": 6, "c:1": 6}, counts()); diff != "" {
			t.Errorf("probes in a minute (-want +got):\n%s", diff)
		}
		if got := len(c.prober.watches); got != 2 {
			t.Errorf("%d loops, want 2", got)
		}
	})
}

func TestSettled(t *testing.T) {
	settled := func(p *Prober) bool {
		select {
		case <-p.Settled():
			return true
		default:
			return false
		}
	}
	t.Run("after every first probe", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newClinic(t, nil)
			defer c.close()
			c.set("a:1", passes)
			c.set("b:1", hangs)
			c.apply("a:1", "b:1")
			c.wait(900 * time.Millisecond)
			if settled(c.prober) {
				t.Error("settled while a first probe runs")
			}
			c.wait(200 * time.Millisecond)
			if !settled(c.prober) {
				t.Error("not settled after the last first probe failed")
			}
			c.apply("a:1", "b:1", "c:1")
			c.wait(time.Minute)
		})
	})
	t.Run("replica removed before its first answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newClinic(t, nil)
			defer c.close()
			c.set("a:1", hangs)
			c.apply("a:1")
			c.apply()
			if !settled(c.prober) {
				t.Error("not settled though nothing is left to probe")
			}
		})
	})
	t.Run("empty fleet", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := newClinic(t, nil)
			defer c.close()
			if settled(c.prober) {
				t.Error("settled before the first Sync")
			}
			c.apply()
			if !settled(c.prober) {
				t.Error("not settled though there is nothing to probe")
			}
		})
	})
}

func TestDisabledProbesMeanHealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClinic(t, func(o *ProbeOptions) { o.Enabled = false })
		defer c.close()
		c.set("a:1", refuses)
		c.set("b:1", refuses)
		c.apply("a:1", "b:1")
		<-c.prober.Settled()
		c.want("at once", "a:1=ready b:1=ready")
		c.observe("a:1", Refused)
		c.wait(10 * time.Second)
		c.want("after the back-off of an ejection", "a:1=half_open b:1=ready")
		if got := c.probed("a:1"); got != nil {
			t.Errorf("%d probes, want 0", len(got))
		}
	})
}

func TestStopEndsProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClinic(t, nil)
		c.set("a:1", hangs)
		c.apply("a:1")
		c.close()
		c.prober.Stop()
		c.probed("a:1")
		c.apply("a:1", "b:1")
		c.wait(time.Hour)
		if got := len(c.probed("a:1")) + len(c.probed("b:1")); got != 0 {
			t.Errorf("%d probes after Stop, want 0", got)
		}
		c.want("probes cut off by Stop", "a:1=starting b:1=starting")
	})
}

// TestRealProbes asks real servers: path, credentials, base path, no redirects followed, a closed port.
func TestRealProbes(t *testing.T) {
	var got *http.Request
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		switch r.URL.Path {
		case "/base/ready":
			w.WriteHeader(http.StatusNoContent)
		case "/moved/ready":
			http.Redirect(w, r, "/base/ready", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	defer engine.Close()
	dead := httptest.NewServer(nil)
	dead.Close()
	tests := []struct {
		name, base, want string
		outcome          Outcome
	}{
		{"healthy", engine.URL + "/base/", "", Success},
		{"redirect", engine.URL + "/moved", "/ready?deep=1 answered 302 Found", ServerFault},
		{"not found", engine.URL, "/ready?deep=1 answered 404 Not Found", ServerFault},
		{"closed port", dead.URL, "connection refused", Refused},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := fleet.New(fleet.Options{})
			f.Apply([]fleet.Target{{URL: tt.base}})
			o := DefaultProbeOptions
			o.Path, o.APIKey, o.Timeout = "/ready?deep=1", "sesame", time.Minute
			p := NewProber(f, o)
			defer p.Stop()
			err := p.ask(t.Context(), f.View().Replicas[0])
			if tt.want == "" && err == nil {
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || OfError(err) != tt.outcome {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if auth := got.Header.Get("Authorization"); auth != "Bearer sesame" {
		t.Errorf("Authorization: got %q", auth)
	}
	if !got.Close {
		t.Error("the probe keeps its connection")
	}
}

func TestBadPathFailsTheProbe(t *testing.T) {
	f := fleet.New(fleet.Options{})
	f.Apply(targets("a:1"))
	o := DefaultProbeOptions
	o.Path = "/%zz"
	p := NewProber(f, o)
	defer p.Stop()
	if err := p.ask(t.Context(), f.View().Replicas[0]); err == nil || !strings.Contains(err.Error(), "health settings") {
		t.Errorf("got %v, want an error that names the health settings", err)
	}
}

func TestLogHasOneLineForEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := newClinic(t, func(o *ProbeOptions) {
			o.APIKey = "sesame"
			o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}}))
		})
		c.set("a:1", passes)
		c.apply("a:1")
		c.wait(time.Minute)
		c.set("a:1", loading)
		c.wait(time.Minute)
		c.set("a:1", passes)
		c.wait(time.Minute)
		c.close()
		want := `level=INFO msg="replica healthy" replica=a:1
level=WARN msg="replica unhealthy" replica=a:1 cause="probe: /health answered 503"
level=INFO msg="replica healthy" replica=a:1
`
		if diff := cmp.Diff(want, log.String()); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}
