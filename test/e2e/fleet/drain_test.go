//go:build e2e

package fleet

import (
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestDrain(t *testing.T) {
	t.Parallel()
	engines := startEngines(t, 2)
	r := startRouter(t, configuration("LEAST_OUTSTANDING_REQUESTS", engines...)) // data.drain.delay is 3s
	c := newClient(r)
	long := startLoad(t, c, 10, func(n int) string { return chat(n, 250) }) // some 4 s each
	pause(time.Second)
	streams := r.metric(t, "warmpath_in_flight{")
	short := startLoad(t, c, 50, func(n int) string { return chat(n, 2) })

	told := time.Now()
	r.signal(t, syscall.SIGTERM)
	eventually(t, time.Second, "it is not ready", func() bool { return answers(r.admin+"/readyz") == http.StatusServiceUnavailable })
	notReady := time.Since(told)
	pause(time.Second)
	served := count(short.seen(), func(o outcome) bool { return o.whole && o.sent.After(told.Add(notReady)) })
	long.cancel()
	during := short.stop()
	if served == 0 {
		t.Error("no request was served within the delay")
	}
	if n := count(during, func(o outcome) bool { return !o.whole }); n > 0 {
		t.Errorf("%d of %d requests that were sent within the delay failed", n, len(during))
		report(t, during, func(o outcome) bool { return !o.whole })
	}
	eventually(t, startLimit, "new connections are refused", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.data, "http://"))
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	refusing := time.Since(told)
	if answers(r.admin+"/healthz") != http.StatusOK {
		t.Error("it is not alive while streams finish")
	}
	all := long.stop()
	code := r.exit(t, startLimit)
	whole := count(all, func(o outcome) bool { return o.whole })
	t.Logf("not ready after %s, refusing after %s, %g streams open at SIGTERM, %d of %d whole; exit code %d",
		notReady.Round(time.Millisecond), refusing.Round(time.Millisecond), streams, whole, len(all), code)
	if whole != len(all) || streams == 0 {
		t.Errorf("%d of %d streams were cut", len(all)-whole, len(all))
		report(t, all, func(o outcome) bool { return !o.whole })
	}
	if refusing < 3*time.Second || code != 0 {
		t.Errorf("refusing after %s, exit code %d; want 3 s (data.drain.delay) and 0", refusing, code)
	}
}

func TestDrainCutsWhatOutlastsTheLimit(t *testing.T) {
	t.Parallel()
	engines := startEngines(t, 1)
	engines[0].fault(t, "hang,after=1")
	text := strings.Replace(configuration("RANDOM", engines...), "{delay: 3s, limit: 30s}", "{delay: 0s, limit: 1s}", 1)
	r := startRouter(t, text)
	l := startLoad(t, newClient(r), 10, func(n int) string { return chat(n, 50) })
	eventually(t, startLimit, "streams are open", func() bool { return r.metric(t, "warmpath_in_flight{") >= 5 })
	l.cancel()
	r.signal(t, syscall.SIGTERM)
	if code := r.exit(t, startLimit); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	if n := count(l.stop(), func(o outcome) bool { return o.whole }); n > 0 {
		t.Errorf("%d streams look whole although they were cut", n)
	}
}

func TestASecondSigtermEndsAtOnce(t *testing.T) {
	t.Parallel()
	engines := startEngines(t, 1)
	r := startRouter(t, strings.Replace(configuration("RANDOM", engines...), "delay: 3s", "delay: 1m", 1))
	r.signal(t, syscall.SIGTERM)
	eventually(t, startLimit, "it drains", func() bool { return answers(r.admin+"/readyz") == http.StatusServiceUnavailable })
	r.signal(t, syscall.SIGTERM)
	if code := r.exit(t, startLimit); code == 0 {
		t.Error("got exit code 0, want that of a process that a signal ended")
	}
}
