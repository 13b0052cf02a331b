package router_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// shadowing is a configuration of an endpoint with a pool for its clients and one for the shadow s, whose settings end with more.
func shadowing(clients, shadow *engine, more string) string {
	text := onePool(static(clients), leastOutstanding)
	text = strings.Replace(text, "endpoints:\n", "  next: {"+static(shadow)+", "+quick+"}\nendpoints:\n", 1)
	return strings.Replace(text, "e: {", "e: {shadow_variants: [{name: s, pool: next"+more+"}], ", 1)
}

const copied = `warmpath_shadow_requests_total{endpoint="e",outcome="ok",reason="",variant="s"`

func TestShadowVariant(t *testing.T) {
	t.Parallel()
	a, b := newEngine(t), newEngine(t)
	s := start(t, shadowing(a, b, ""))
	s.ready(t, a, b)
	s.mustPost(t, 5)
	eventually(t, "the copies have ended", func() bool { return s.scrape(t, copied)[copied] == 5 })
	if a.requests.Load() != 5 || b.requests.Load() != 5 {
		t.Errorf("%d and %d requests, want 5 each", a.requests.Load(), b.requests.Load())
	}
	eventually(t, "the clients' requests are counted", func() bool { return s.sum(t, "warmpath_requests_total") == 5 })
	if got := s.sum(t, `warmpath_replica_requests_total{pool="next"`); got != 5 {
		t.Errorf("the pool counts %v requests, want 5", got)
	}
	if got := s.scrape(t, `warmpath_index_blocks{endpoint="e",variant="s"`); len(got) != 1 {
		t.Errorf("what the shadow's strategy has learned is %v, want one series", got)
	}
	if status, text := s.ask(t, http.MethodPost, "/api/v1/explain", chatBody); status != http.StatusOK || !strings.Contains(text, `"variant": "s"`) || !strings.Contains(text, `"share": 1`) {
		t.Errorf("explained: %d %s", status, text)
	}
}

// A reload neither waits for copies nor forgets how many are under way, even one that removes their pool.
func TestReloadWhileShadowsRun(t *testing.T) {
	t.Parallel()
	const room, dropped = 256, `warmpath_shadow_dropped_total{endpoint="e",limit="requests",variant="s"`
	a, b := newEngine(t), newEngine(t)
	b.silent.Store(true)
	s := start(t, shadowing(a, b, ""))
	s.ready(t, a, b)
	s.mustPost(t, room+1)
	s.reload(t, shadowing(a, b, ", share: 1.0, routing: {strategy: RANDOM}"))
	s.mustPost(t, 1)
	if got := s.scrape(t, dropped)[dropped]; got != 2 {
		t.Errorf("%v copies dropped, want the one beyond %d and the one after the reload", got, room)
	}
	s.reload(t, onePool(static(a), leastOutstanding))
	s.mustPost(t, 1)
	eventually(t, "all copies are in flight", func() bool { return s.sum(t, `warmpath_in_flight{pool="next"`) == room })
	close(b.goOn)
	eventually(t, "the copies have ended", func() bool { return s.scrape(t, copied)[copied] == room })
	eventually(t, "their pool has gone", func() bool { return len(s.scrape(t, `warmpath_in_flight{pool="next"`)) == 0 })
}

// The end of the process waits for clients alone.
func TestServeDoesNotWaitForShadows(t *testing.T) {
	t.Parallel()
	a, b := newEngine(t), newEngine(t)
	b.silent.Store(true)
	s := serve(t, fmt.Sprintf(anyPort, "0s", "1h")+shadowing(a, b, ""))
	resp, err := http.Post("http://"+s.data+"/v1/chat/completions", "application/json", strings.NewReader(chatBody))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("got %v, %v", resp, err)
	}
	resp.Body.Close()
	eventually(t, "the copy is at its engine", func() bool { return b.requests.Load() == 1 })
	s.interrupt()
	if err := <-s.ended; err != nil {
		t.Errorf("got %v, want a clean end", err)
	}
}

func TestShadowAloneIsNotReady(t *testing.T) {
	t.Parallel()
	a, b := newEngine(t), newEngine(t)
	a.sick.Store(true)
	s := start(t, shadowing(a, b, ""))
	s.ready(t, b)
	if status, text := s.ask(t, http.MethodGet, "/readyz", ""); status != http.StatusServiceUnavailable || strings.Contains(text, "next") {
		t.Errorf("readyz: got %d %s, want 503 because of the other pool", status, text)
	}
	a.sick.Store(false)
	s.ready(t, a)
	if status, text := s.ask(t, http.MethodGet, "/readyz", ""); status != http.StatusOK {
		t.Errorf("readyz: got %d %s", status, text)
	}
}

func TestShadowVariantByAPI(t *testing.T) {
	t.Parallel()
	a, b := newEngine(t), newEngine(t)
	file := controlled(filepath.Join(t.TempDir(), "state.json"), "pools:\n  p: {"+static(a)+", "+quick+"}\n  next: {"+static(b)+", "+quick+"}\n")
	s := start(t, file)
	s.ready(t, a, b)
	s.mustControl(t, "CreateEndpointConfig", `{"EndpointConfigName":"c","ProductionVariants":[{"VariantName":"v","ModelName":"p"}],"ShadowProductionVariants":[{"VariantName":"s","ModelName":"next"}]}`)
	s.mustControl(t, "CreateEndpoint", `{"EndpointName":"e","EndpointConfigName":"c"}`)
	s.reaches(t, "e", "InService")
	if status, variant := s.invoke(t, "e"); status != http.StatusOK || variant != "v" {
		t.Errorf("got %d from %s, want 200 from v", status, variant)
	}
	eventually(t, "the copy has ended", func() bool { return s.scrape(t, copied)[copied] == 1 })
	if a.requests.Load() != 1 || b.requests.Load() != 1 {
		t.Errorf("%d and %d requests, want 1 each", a.requests.Load(), b.requests.Load())
	}
	s.reload(t, file)
	s.invoke(t, "e")
	eventually(t, "there is a copy after a reload", func() bool { return s.scrape(t, copied)[copied] == 2 })
}
