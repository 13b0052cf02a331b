package router_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

func TestC064_OnlyTheCurrentSetIsProbed(t *testing.T) {
	first := []*engine{newEngine(t), newEngine(t)}
	second := []*engine{newEngine(t), newEngine(t)}
	s := start(t, onePool(static(first...), leastOutstanding))
	s.mustPost(t, 2)
	before := runtime.NumGoroutine()
	for i := range 200 {
		set := second
		if i%2 == 1 {
			set = first
		}
		s.reload(t, onePool(static(set...), leastOutstanding))
	}
	s.mustPost(t, 10)
	s.ready(t, first...)
	var old, current int64
	probed := func() bool { return probesOf(first)-current >= 12 }
	eventually(t, "only the current set is probed", func() bool { // those of the old one may be on their way for a while
		old, current = probesOf(second), probesOf(first)
		eventually(t, "the current set is probed", probed)
		return probesOf(second) == old
	})
	current = probesOf(first)
	began := time.Now()
	eventually(t, "the current set is probed", probed)
	intervals := float64(time.Since(began)) / float64(100*time.Millisecond)
	if got := float64(probesOf(first) - current); got > 2.5*intervals+4 {
		t.Errorf("the current set got %g probes in %.1f intervals, want about one each", got, intervals)
	}
	if n := probesOf(second) - old; n > 0 {
		t.Errorf("the old set got %d probes, want none", n)
	}
	s.client.CloseIdleConnections()
	eventually(t, "goroutines are back to where they were", func() bool { return runtime.NumGoroutine() <= before+10 })
}

func probesOf(engines []*engine) (n int64) {
	for _, e := range engines {
		n += e.probes.Load()
	}
	return n
}

func TestC064_FiveThousandAddsAndRemovesWhileRouting(t *testing.T) {
	stays := newEngine(t)
	s := start(t, onePool(static(stays), "PREFIX_AWARE"))
	s.mustPost(t, 1)
	before := runtime.NumGoroutine()

	ctx, cancel := context.WithCancel(t.Context())
	var routing sync.WaitGroup
	routing.Go(func() {
		for ctx.Err() == nil {
			s.mustPost(t, 1)
		}
	})
	for round := range 50 {
		urls := []string{stays.URL}
		for i := range 50 { // each is added in one round and removed in the next
			urls = append(urls, fmt.Sprintf("http://127.0.0.1:1/model-%d-%d", round, i))
		}
		s.reload(t, onePool("static: ["+strings.Join(urls, ", ")+"]", "PREFIX_AWARE"))
	}
	s.reload(t, onePool(static(stays), "PREFIX_AWARE"))
	cancel()
	routing.Wait()
	s.client.CloseIdleConnections()
	eventually(t, "goroutines are back to where they were", func() bool { return runtime.NumGoroutine() <= before+10 })
	if n := len(s.Statuses()["p"]); n != 1 {
		t.Errorf("got %d replicas, want 1", n)
	}
}

func TestC065_ABadFileChangesNothingAndAGoodOneIsApplied(t *testing.T) {
	t.Parallel()
	a, b := newEngine(t), newEngine(t)
	s := start(t, onePool(static(a), leastOutstanding))
	good := onePool(static(b), leastOutstanding)
	bad := map[string]string{
		"broken YAML":             "pools: {p: {static: [",
		"broken JSON":             `{"pools": {"p": `,
		"an empty file":           "",
		"half a file":             good[:len(good)/2],
		"an unknown key":          good + "endpionts: {}\n",
		"a value out of range":    strings.Replace(good, "interval: 100ms", "interval: 1ms", 1),
		"an unknown pool":         strings.Replace(good, "pool: p", "pool: q", 1),
		"an unknown strategy":     strings.Replace(good, leastOutstanding, "BEST", 1),
		"a missing prefix length": strings.Replace(good, leastOutstanding, "PREFIX_AWARE", 1),
		"an address without port": strings.Replace(good, b.URL, "nowhere", 1),
	}
	failed := 0.0
	for name, text := range bad {
		s.write(t, text)
		status, answer := s.ask(t, http.MethodPost, "/api/v1/reload", "")
		if status != http.StatusUnprocessableEntity || !strings.Contains(answer, "warmpath.yaml") {
			t.Errorf("%s: got %d %s, want 422 that names the file", name, status, answer)
		}
		failed++
		if got := s.sum(t, `warmpath_config_reloads_total{result="failure"`); got != failed {
			t.Errorf("%s: got %g failures counted, want %g", name, got, failed)
		}
		if got := s.sum(t, "warmpath_config_last_reload_success"); got != 0 {
			t.Errorf("%s: last_reload_success is %g, want 0", name, got)
		}
		s.mustPost(t, 1)
	}
	if n := b.requests.Load() + b.probes.Load(); n != 0 {
		t.Errorf("a part of a bad file was used: the new replica was asked %d times", n)
	}
	if n := strings.Count(s.log.String(), "configuration not reloaded"); n != len(bad) {
		t.Errorf("got %d log lines of failures, want %d", n, len(bad))
	}
	s.reload(t, good)
	s.becomes(t, b.address(), fleet.Ready)
	s.mustPost(t, 5)
	if n := b.requests.Load(); n != 5 {
		t.Errorf("the good file's replica got %d requests, want 5", n)
	}
	if got := s.sum(t, "warmpath_config_last_reload_success"); got != 1 {
		t.Errorf("last_reload_success is %g, want 1", got)
	}
}

func TestC067_FiftyReloadsUnderLoad(t *testing.T) {
	t.Parallel()
	stays, comes := newEngine(t), newEngine(t)
	s := start(t, onePool(static(stays), leastOutstanding))
	const streams = 200
	var reads []func() (string, error)
	for range streams {
		reads = append(reads, s.open(t))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var load sync.WaitGroup
	var sent, failed atomic.Int64
	once := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for range 4 {
		load.Go(func() {
			for ctx.Err() == nil {
				sent.Add(1)
				resp, err := once.Post(s.data.URL+"/v1/chat/completions", "application/json", strings.NewReader(chatBody))
				if err != nil || resp.StatusCode != http.StatusOK {
					failed.Add(1)
					t.Errorf("under load: %v, %v", resp, err)
				}
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}
		})
	}
	strategies := []string{"RANDOM", leastOutstanding, "PREFIX_AWARE"}
	for i := range 50 {
		set := []*engine{stays, comes}
		if i%2 == 1 {
			set = set[:1]
		}
		s.reload(t, onePool(static(set...), strategies[i%len(strategies)]))
		if n := s.status(t, stays.address()).InFlight; n < streams {
			t.Fatalf("reload %d: %d in flight on the replica that stays, want the %d streams still counted", i, n, streams)
		}
	}
	eventually(t, "plenty of requests were sent", func() bool { return sent.Load() >= 50 })
	cancel()
	load.Wait()
	close(stays.goOn)
	close(comes.goOn)
	cut := 0
	for _, read := range reads {
		if text, err := read(); err != nil || !strings.HasSuffix(text, "[DONE]\n\n") {
			cut++
		}
	}
	t.Logf("%d requests on new connections, %d failed; %d streams, %d cut", sent.Load(), failed.Load(), streams, cut)
	if cut > 0 {
		t.Errorf("%d streams cut, want none", cut)
	}
	eventually(t, "nothing is in flight", func() bool { return s.sum(t, "warmpath_in_flight{") == 0 })
}

// slowBody is a request body whose end the test decides.
type slowBody struct {
	text    string
	begun   bool
	reached chan struct{}
	goOn    chan struct{}
}

func (b *slowBody) Read(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		close(b.reached)
		return copy(p, b.text[:1]), nil
	}
	<-b.goOn
	return copy(p, b.text[1:]), io.EOF
}

func TestARequestKeepsTheConfigurationItBeganWith(t *testing.T) {
	a := newEngine(t)
	s := start(t, onePool(static(a), leastOutstanding))
	for name, next := range map[string]string{
		"pool renamed":     strings.NewReplacer("  p:", "  q:", "pool: p", "pool: q").Replace(onePool(static(a), "RANDOM")),
		"endpoint renamed": strings.Replace(onePool(static(a), "RANDOM"), "  e:", "  other:", 1),
	} {
		s.reload(t, onePool(static(a), leastOutstanding))
		s.becomes(t, a.address(), fleet.Ready)
		body := &slowBody{text: chatBody, reached: make(chan struct{}), goOn: make(chan struct{})}
		got := make(chan string, 1)
		go func() {
			resp, err := s.client.Post(s.data.URL+"/v1/chat/completions", "application/json", body)
			if err != nil {
				got <- err.Error()
				return
			}
			defer resp.Body.Close()
			text, _ := io.ReadAll(resp.Body)
			got <- fmt.Sprintf("%d %s", resp.StatusCode, text)
		}()
		<-body.reached
		eventually(t, "the router reads the request", func() bool { return s.accepted(t) })
		s.reload(t, next)
		close(body.goOn)
		if answer := <-got; !strings.HasPrefix(answer, "200 ") {
			t.Errorf("%s while a body was being sent: got %s, want 200", name, answer)
		}
	}
}

// accepted says whether a handler of the data plane is running: it waits for the rest of a body.
func (s *site) accepted(t testing.TB) bool {
	t.Helper()
	stacks := make([]byte, 1<<20)
	return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "readBody")
}

func TestARemovedPoolLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	a, b := newEngine(t), newEngine(t)
	two := fmt.Sprintf("pools:\n  p: {%s, %s}\n  q: {%s, %s}\nendpoints:\n  e: {models: [m], variants: [{pool: p}]}\n  f: {models: [n], variants: [{pool: q}]}\n",
		static(a), quick, static(b), quick)
	s := start(t, two)
	s.mustPost(t, 1)
	if status, answer, _ := s.post(t, strings.Replace(streamBody, `"m"`, `"none"`, 1)); status != http.StatusNotFound {
		t.Errorf("got %d %s, want 404", status, answer)
	}
	resp, err := s.client.Post(s.data.URL+"/v1/chat/completions", "application/json", strings.NewReader(strings.Replace(streamBody, `"m"`, `"n"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()

	one, _, _ := strings.Cut(two, "  f:")
	one = strings.Replace(one, fmt.Sprintf("  q: {%s, %s}\n", static(b), quick), "", 1)
	s.reload(t, one)
	if status, answer, _ := s.post(t, strings.Replace(chatBody, `"m"`, `"n"`, 1)); status != http.StatusOK {
		t.Errorf("one endpoint takes any model: got %d %s", status, answer)
	}
	if st := s.Statuses()["q"]; len(st) != 1 || st[0].InFlight != 1 || !st[0].Removed {
		t.Errorf("got %v of the removed pool, want its open request shown", st)
	}
	close(b.goOn)
	if text, err := io.ReadAll(resp.Body); err != nil || !strings.HasSuffix(string(text), "[DONE]\n\n") {
		t.Errorf("a stream of the removed pool was cut: %q, %v", text, err)
	}
	eventually(t, "the removed pool has no series", func() bool { return len(s.scrape(t, `warmpath_in_flight{pool="q"`)) == 0 })
	eventually(t, "only the other pool is probed", func() bool { // one probe may be on its way still
		probes, asked := b.probes.Load(), a.probes.Load()
		eventually(t, "the other pool goes on being probed", func() bool { return a.probes.Load() >= asked+4 })
		return b.probes.Load() == probes
	})
}

func TestRequestsOfARemovedPoolDoNotWaitOnADeadEngine(t *testing.T) {
	t.Parallel()
	a, b := newEngine(t), newEngine(t)
	s := start(t, onePool(static(a), leastOutstanding))
	stream := s.open(t)
	s.reload(t, strings.NewReplacer("  p:", "  q:", "pool: p", "pool: q").Replace(onePool(static(b), leastOutstanding)))
	s.mustPost(t, 1)
	_ = a.Listener.Close() // vLLM after SIGTERM: the port refuses, open requests get neither a byte nor an end
	if text, err := stream(); err == nil {
		t.Errorf("got %q with a clean end, want a broken stream", text)
	}
	eventually(t, "nothing is in flight", func() bool { return s.sum(t, "warmpath_in_flight{") == 0 })
}

func TestReloadChangesWhatItSays(t *testing.T) {
	t.Parallel()
	a := newEngine(t)
	base := func(pool string) string {
		return fmt.Sprintf("pools: {p: {%s, %s}}\nendpoints: {e: {variants: [{pool: p}]}}\n", static(a), pool)
	}
	s := start(t, base("health: {interval: 100ms}"))
	s.mustPost(t, 3)

	t.Run("a health path that the engine lacks", func(t *testing.T) {
		s.reload(t, base("health: {interval: 100ms, path: /nowhere}"))
		s.becomes(t, a.address(), fleet.Unhealthy)
		s.mustPost(t, 1) // all unhealthy: it still tries
	})
	t.Run("and one that it has", func(t *testing.T) {
		s.reload(t, base("health: {interval: 100ms, path: /ready}"))
		s.becomes(t, a.address(), fleet.Ready)
	})
	t.Run("no probes", func(t *testing.T) {
		a.sick.Store(true)
		s.becomes(t, a.address(), fleet.Unhealthy)
		s.reload(t, base("health: {enabled: false}"))
		s.becomes(t, a.address(), fleet.Ready)
	})
	if n := s.status(t, a.address()).Requests; n != 4 {
		t.Errorf("got %d requests counted, want the 4 of all configurations", n)
	}
}

func TestReloadOfListenersWarns(t *testing.T) {
	t.Parallel()
	a := newEngine(t)
	text := onePool(static(a), "RANDOM")
	s := start(t, text)
	const warning = "listeners keep their addresses"
	s.reload(t, text+"data: {max_body: 1MiB, drain: {delay: 1s}}\n")
	if strings.Contains(s.log.String(), warning) {
		t.Error("warned of the listeners although they are the same")
	}
	status, _, _ := s.post(t, `{"model":"m","prompt":"`+strings.Repeat("x", 2<<20)+`"}`)
	if status != http.StatusRequestEntityTooLarge {
		t.Errorf("the new limit on bodies is not in use: got %d", status)
	}
	s.reload(t, text+"data: {max_connections: 10}\n")
	if !strings.Contains(s.log.String(), warning) {
		t.Error("no warning that the listener stays as it is")
	}
}

func TestReloadWithoutAFile(t *testing.T) {
	t.Parallel()
	s := start(t, onePool(static(newEngine(t)), "RANDOM"), func(o *options) { o.Load = nil })
	if status, answer := s.ask(t, http.MethodPost, "/api/v1/reload", ""); status != http.StatusUnprocessableEntity || !strings.Contains(answer, "restart it") {
		t.Errorf("got %d %s, want an error that says what to do", status, answer)
	}
}
