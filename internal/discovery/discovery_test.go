package discovery

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/fleet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a source until the test ends and returns the sets it sends.
func start(t *testing.T, source Source) <-chan []fleet.Target {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	up, done := make(chan []fleet.Target), make(chan error)
	go func() { done <- source.Run(ctx, up) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returned %v, want nil after a cancel", err)
		}
	})
	return up
}

// next waits for a set.
func next(t *testing.T, up <-chan []fleet.Target) []fleet.Target {
	t.Helper()
	select {
	case targets := <-up:
		return targets
	case <-time.After(time.Minute):
		t.Fatal("no set was sent")
		return nil
	}
}

// everySource makes each source of the replicas 10.0.0.1, .2 and .3, port 8000.
func everySource(t *testing.T) map[string]Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "replicas.yaml")
	content := "- http://10.0.0.1:8000\n- HTTP://10.0.0.2:8000/\n- {url: 'http://10.0.0.3:8000'}\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	server := newServer(t, map[string][]string{
		"vllm.internal. A":              {"vllm.internal. 60 IN A 10.0.0.2", "vllm.internal. 60 IN A 10.0.0.1", "vllm.internal. 60 IN A 10.0.0.3"},
		"_http._tcp.vllm.internal. SRV": srv("10.0.0.3", "10.0.0.1", "10.0.0.2"),
	})
	return map[string]Source{
		"static":  NewStatic([]string{"http://10.0.0.1:8000", "http://10.0.0.2:8000", "http://10.0.0.3:8000"}),
		"file":    NewFile(FileOptions{Path: path}),
		"dns":     NewDNS(DNSOptions{Name: "vllm.internal.", Port: 8000, Server: server.addr}),
		"dns SRV": NewDNS(DNSOptions{Name: "_http._tcp.vllm.internal.", Type: "SRV", Server: server.addr}),
	}
}

func srv(hosts ...string) []string {
	var records []string
	for _, host := range hosts {
		records = append(records, "_http._tcp.vllm.internal. 60 IN SRV 0 0 8000 "+dns.Fqdn(host))
	}
	return records
}

// TestC110_EverySourceMakesTheSameFleet finds three replicas by each source and compares the fleets.
func TestC110_EverySourceMakesTheSameFleet(t *testing.T) {
	want := []string{"10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"}
	for name, source := range everySource(t) {
		t.Run(name, func(t *testing.T) {
			f := fleet.New(fleet.Options{})
			if errs := f.Apply(next(t, start(t, source))); len(errs) > 0 {
				t.Fatal(errs)
			}
			var got []string
			for _, status := range f.Statuses() {
				got = append(got, status.Replica)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestEverySourceEndsWhileNobodyReceives(t *testing.T) {
	for name, source := range everySource(t) {
		t.Run(name, func(t *testing.T) { start(t, source) })
	}
}
