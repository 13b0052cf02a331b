package discovery

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/warmpath/warmpath/internal/fleet"
)

// answer is what a scripted look-up of one record type returns.
type answer struct {
	records []string
	err     error
}

// step is one look-up: the answers by type, and the names the system knows.
type step struct {
	a, aaaa, srv answer
	hosts        []string
}

// event is what a DNS source does, in virtual time since its start.
type event struct {
	At    time.Duration
	Set   string
	Error string
}

// play runs a DNS source through the steps in virtual time; it ends at the look-up after the last step.
func play(t *testing.T, opts DNSOptions, steps []step) (events []event, lookUps []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began, now := time.Now(), -1
		var mu sync.Mutex
		record := func(e event) {
			mu.Lock()
			defer mu.Unlock()
			e.At = time.Since(began)
			events = append(events, e)
		}
		opts.Name = "vllm.internal"
		opts.OnError = func(err error) { record(event{Error: err.Error()}) }
		opts.Hosts = func(ctx context.Context, network, _ string) ([]netip.Addr, error) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return hostsOf(steps[now], network)
		}
		source := NewDNS(opts)
		source.query = func(_ context.Context, _ string, recordType uint16) ([]dns.RR, error) {
			if recordType == source.types[0] {
				now++
				lookUps = append(lookUps, time.Since(began))
			}
			if now == len(steps) {
				cancel()
				return nil, ctx.Err()
			}
			return steps[now].answer(t, recordType)
		}
		up, done := make(chan []fleet.Target), make(chan error, 1)
		go func() {
			done <- source.Run(ctx, up)
			close(up)
		}()
		for targets := range up {
			var urls []string
			for _, target := range targets {
				urls = append(urls, strings.TrimPrefix(target.URL, "http://"))
			}
			record(event{Set: strings.Join(urls, " ")})
		}
		if err := <-done; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
	return events, lookUps
}

func (s step) answer(t *testing.T, recordType uint16) ([]dns.RR, error) {
	t.Helper()
	chosen := map[uint16]answer{dns.TypeA: s.a, dns.TypeAAAA: s.aaaa, dns.TypeSRV: s.srv}[recordType]
	var records []dns.RR
	for _, text := range chosen.records {
		record, err := dns.NewRR("vllm.internal. " + text)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, record)
	}
	return records, chosen.err
}

func hostsOf(s step, network string) ([]netip.Addr, error) {
	if len(s.hosts) == 0 {
		return nil, errors.New("no such host")
	}
	var addrs []netip.Addr
	for _, host := range s.hosts {
		addr := netip.MustParseAddr(host)
		if network == "ip" || (network == "ip4") == addr.Is4() {
			addrs = append(addrs, addr)
		}
	}
	return addrs, nil
}

func TestDNSEvents(t *testing.T) {
	fail := errors.New("timeout")
	const none = "dns vllm.internal: no records; the last replicas stay in use"
	for _, tc := range []struct {
		name  string
		opts  DNSOptions
		steps []step
		want  []event
	}{
		{"A and AAAA are merged, sorted and each once", DNSOptions{}, []step{
			{a: answer{records: []string{"9 IN A 10.0.0.2", "9 IN A 10.0.0.1", "9 IN A 10.0.0.2"}}, aaaa: answer{records: []string{"9 IN AAAA 2001:db8::1"}}},
		}, []event{{Set: "10.0.0.1:8000 10.0.0.2:8000 [2001:db8::1]:8000"}}},
		{"the same answer in another order is no change", DNSOptions{}, []step{
			{a: answer{records: []string{"9 IN A 10.0.0.2", "9 IN A 10.0.0.1"}}},
			{a: answer{records: []string{"9 IN A 10.0.0.1", "9 IN A 10.0.0.2"}}},
		}, []event{{Set: "10.0.0.1:8000 10.0.0.2:8000"}}},
		{"replicas come and go", DNSOptions{}, []step{
			{a: answer{records: []string{"9 IN A 10.0.0.1"}}},
			{a: answer{records: []string{"9 IN A 10.0.0.1", "9 IN A 10.0.0.2"}}},
			{a: answer{records: []string{"9 IN A 10.0.0.2"}}},
		}, []event{
			{Set: "10.0.0.1:8000"},
			{At: 9 * time.Second, Set: "10.0.0.1:8000 10.0.0.2:8000"},
			{At: 18 * time.Second, Set: "10.0.0.2:8000"},
		}},
		{"a failed look-up keeps the last set", DNSOptions{}, []step{
			{a: answer{records: []string{"9 IN A 10.0.0.1"}}},
			{a: answer{err: fail}, aaaa: answer{err: fail}},
			{a: answer{records: []string{"9 IN A 10.0.0.2"}}},
		}, []event{
			{Set: "10.0.0.1:8000"},
			{At: 9 * time.Second, Error: "dns vllm.internal: timeout\ntimeout"},
			{At: 10 * time.Second, Set: "10.0.0.2:8000"},
		}},
		{"an empty answer keeps the last set", DNSOptions{}, []step{
			{a: answer{records: []string{"9 IN A 10.0.0.1"}}},
			{},
			{a: answer{records: []string{"9 IN A 10.0.0.1"}}},
		}, []event{{Set: "10.0.0.1:8000"}, {At: 9 * time.Second, Error: none}, {At: 10 * time.Second, Set: "10.0.0.1:8000"}}},
		{"a family that fails keeps its replicas, the other changes", DNSOptions{}, []step{
			{a: answer{records: []string{"9 IN A 10.0.0.1"}}, aaaa: answer{records: []string{"9 IN AAAA 2001:db8::1"}}},
			{a: answer{records: []string{"9 IN A 10.0.0.2"}}, aaaa: answer{err: fail}},
			{a: answer{records: []string{"9 IN A 10.0.0.2"}}},
		}, []event{
			{Set: "10.0.0.1:8000 [2001:db8::1]:8000"},
			{At: 9 * time.Second, Error: "dns vllm.internal: timeout"},
			{At: 9 * time.Second, Set: "10.0.0.2:8000 [2001:db8::1]:8000"},
			{At: 10 * time.Second, Set: "10.0.0.2:8000"},
		}},
		{"the system knows what DNS does not", DNSOptions{}, []step{
			{hosts: []string{"127.0.0.1", "::1"}},
			{a: answer{records: []string{"9 IN A 10.0.0.1"}}},
		}, []event{{Set: "127.0.0.1:8000 [::1]:8000"}, {At: 30 * time.Second, Set: "10.0.0.1:8000"}}},
		{"the system is asked for the family wanted", DNSOptions{Type: "AAAA"}, []step{
			{hosts: []string{"127.0.0.1", "::1"}},
		}, []event{{Set: "[::1]:8000"}}},
		{"SRV records bring names and ports", DNSOptions{Type: "SRV"}, []step{
			{srv: answer{records: []string{"9 IN SRV 1 5 8001 Pod-1.internal.", "9 IN SRV 2 0 8000 pod-1.internal.", "9 IN SRV 0 0 8000 ."}}},
		}, []event{{Set: "pod-1.internal:8000 pod-1.internal:8001"}}},
		{"SRV is not asked of the system", DNSOptions{Type: "SRV"}, []step{
			{hosts: []string{"127.0.0.1"}},
		}, []event{{Error: none}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.opts.Port = 8000
			events, _ := play(t, tc.opts, tc.steps)
			if diff := cmp.Diff(tc.want, events); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestDNSHonoursTTL(t *testing.T) {
	one := func(ttl string) step { return step{a: answer{records: []string{ttl + " IN A 10.0.0.1"}}} }
	failed := step{a: answer{err: errors.New("timeout")}, aaaa: answer{err: errors.New("timeout")}}
	for _, tc := range []struct {
		name     string
		interval time.Duration
		steps    []step
		want     []int
	}{
		{"TTL below the interval", 0, []step{one("7"), one("7")}, []int{0, 7, 14}},
		{"TTL above the interval", 0, []step{one("3600"), one("3600")}, []int{0, 30, 60}},
		{"TTL 0 is a second", 0, []step{one("0"), one("0")}, []int{0, 1, 2}},
		{"the shortest TTL counts, that of an alias too", 0, []step{
			{a: answer{records: []string{"4 IN CNAME a.internal.", "9 IN A 10.0.0.1"}}, aaaa: answer{records: []string{"6 IN AAAA ::1"}}},
		}, []int{0, 4}},
		{"failures back off to the interval", 5 * time.Second, []step{failed, failed, failed, failed, failed}, []int{0, 1, 3, 7, 12, 17}},
		{"a success ends the back-off", 0, []step{failed, failed, one("7"), failed, failed}, []int{0, 1, 3, 10, 11, 13}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, lookUps := play(t, DNSOptions{Port: 8000, Interval: tc.interval}, tc.steps)
			var got []int
			for _, at := range lookUps {
				got = append(got, int(at/time.Second))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("seconds of the look-ups, -want +got:\n%s", diff)
			}
		})
	}
}

// TestC096_PortsAreReplicasOfTheirOwn has one machine with four engines behind SRV records.
func TestC096_PortsAreReplicasOfTheirOwn(t *testing.T) {
	events, _ := play(t, DNSOptions{Type: "SRV"}, []step{{srv: answer{records: []string{
		"9 IN SRV 0 0 8000 gpu.internal.", "9 IN SRV 0 0 8001 gpu.internal.", "9 IN SRV 0 0 8002 gpu.internal.", "9 IN SRV 0 0 8003 gpu.internal.",
	}}}})
	want := []event{{Set: "gpu.internal:8000 gpu.internal:8001 gpu.internal:8002 gpu.internal:8003"}}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDNSOfLocalhost(t *testing.T) {
	s := newServer(t, nil)
	up := start(t, NewDNS(DNSOptions{Name: "localhost", Port: 8000, Type: "A", Server: s.addr}))
	if diff := cmp.Diff([]fleet.Target{{URL: "http://127.0.0.1:8000"}}, next(t, up)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
