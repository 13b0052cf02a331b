package router_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/warmpath/warmpath/internal/fleet"
)

// hold opens n streams at once.
func (s *site) hold(t testing.TB, n int) {
	t.Helper()
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			resp, err := s.client.Post(s.data.URL+"/v1/chat/completions", "application/json", strings.NewReader(streamBody))
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("stream: %v, %v", resp, err)
				return
			}
			t.Cleanup(func() { resp.Body.Close() })
		})
	}
	all.Wait()
}

func TestC050_ABurstIsSplitEvenly(t *testing.T) {
	t.Parallel()
	a, b := newEngine(t), newEngine(t)
	s := start(t, onePool(static(a, b), leastOutstanding))
	s.ready(t, a, b)
	s.hold(t, 100)
	for _, e := range []*engine{a, b} {
		if st := s.status(t, e.address()); st.InFlight != 50 {
			t.Errorf("%s: got %d in flight, want 50", e.address(), st.InFlight)
		}
	}
}

func TestC058_WhatAnEngineSaysOfItsLoadDoesNotMislead(t *testing.T) {
	t.Parallel()
	pages := []http.HandlerFunc{
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "vllm:num_requests_running 99") },
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "vllm:gpu_cache_usage_perc 0.99") },
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "sglang_num_running_reqs NaN") },
		func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "<html>sign in</html>") },
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
	}
	var engines []*engine
	for _, page := range pages {
		e := newEngine(t)
		answer := e.Config.Handler
		e.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" || r.URL.Path == "/get_load" {
				page(w, r)
				return
			}
			answer.ServeHTTP(w, r)
		})
		engines = append(engines, e)
	}
	s := start(t, strings.Replace(onePool(static(engines...), leastOutstanding), "p: {", "p: {engine: vllm, ", 1))
	s.ready(t, engines...)
	s.hold(t, 10*len(engines))
	for _, e := range engines {
		if st := s.status(t, e.address()); st.InFlight != 10 || st.State != fleet.Ready {
			t.Errorf("%s: got %d in flight, %s; want 10, ready", e.address(), st.InFlight, st.State)
		}
	}
}

func TestC089_ThePlainCountIsExact(t *testing.T) {
	t.Parallel()
	a, b := newEngine(t), newEngine(t)
	s := start(t, onePool(static(a, b), leastOutstanding))
	s.ready(t, a, b)
	large := strings.Replace(streamBody, "hello", strings.Repeat("long ", 20<<10), 1)
	for i := range 20 { // one after the other: each sees the ones before it
		body := streamBody
		if i%2 == 0 {
			body = large
		}
		resp, err := s.client.Post(s.data.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		x, y := s.status(t, a.address()).InFlight, s.status(t, b.address()).InFlight
		if x+y != int64(i+1) || max(x, y)-min(x, y) > 1 {
			t.Fatalf("after %d requests: got %d and %d in flight, want their sum right and the two level", i+1, x, y)
		}
	}
}

func TestC054_WhatHasNoKeyIsSpreadByLoadAndCounted(t *testing.T) {
	t.Parallel()
	engines := []*engine{newEngine(t), newEngine(t), newEngine(t), newEngine(t)}
	s := start(t, onePool(static(engines...), "PREFIX_AWARE"))
	s.ready(t, engines...)
	bodies := []struct{ path, body string }{
		{"/v1/embeddings", `{"model":"m","input":[]}`},
		{"/v1/chat/completions", `{"model":"m","messages":[]}`},
		{"/v1/completions", `{"model":"m"}`},
		{"/v1/audio/speech", "\x00\x01 opaque"},
	}
	const each = 100
	for range each {
		for _, b := range bodies {
			contentType := "application/json"
			if b.body[0] != '{' {
				contentType = "application/octet-stream"
			}
			resp, err := s.client.Post(s.data.URL+b.path, contentType, strings.NewReader(b.body))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode >= 500 {
				t.Fatalf("%s: got %s", b.path, resp.Status)
			}
		}
	}
	total := float64(each * len(bodies))
	eventually(t, "all are counted as fallback", func() bool {
		return s.sum(t, `warmpath_requests_total{code="200",decision="fallback"`)+s.sum(t, `warmpath_requests_total{code="404",decision="fallback"`) == total
	})
	for _, e := range engines {
		got := float64(s.status(t, e.address()).Requests)
		if mean := total / float64(len(engines)); got < 0.5*mean || got > 1.5*mean { // nearly six standard deviations
			t.Errorf("%s got %g of %g requests, want about a quarter", e.address(), got, total)
		}
	}
}

func TestC059_SeriesFollowTheReplicas(t *testing.T) {
	t.Parallel()
	stays := newEngine(t)
	s := start(t, onePool(static(stays), "RANDOM"))
	s.mustPost(t, 5)
	sent := fmt.Sprintf(`warmpath_replica_requests_total{pool="p",replica=%q`, stays.address())
	last := 0.0
	for round := range 20 {
		urls := []string{stays.URL}
		for i := range 50 {
			urls = append(urls, fmt.Sprintf("http://127.0.0.1:1/r%d", 50*round+i))
		}
		s.reload(t, onePool("static: ["+strings.Join(urls, ", ")+"]", "RANDOM"))
		s.mustPost(t, 2)
		now := s.sum(t, sent)
		if now <= last {
			t.Fatalf("round %d: the survivor's counter went from %g to %g", round, last, now)
		}
		last = now
	}
	s.reload(t, onePool(static(stays), "RANDOM"))
	for _, name := range []string{"warmpath_in_flight{", "warmpath_replica_state{", "warmpath_replica_requests_total{"} {
		eventually(t, name+" has one series", func() bool { return len(s.scrape(t, name)) == 1 })
	}
}
