package router_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/warmpath/warmpath/internal/fleet"
)

// replicaFile is a file source and what replaces it, in one step.
func replicaFile(t testing.TB, content string) (source string, rewrite func(content string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "replicas.yaml")
	rewrite = func(content string) {
		t.Helper()
		next := filepath.Join(t.TempDir(), "next")
		if err := errors.Join(os.WriteFile(next, []byte(content), 0o600), os.Rename(next, path)); err != nil {
			t.Fatal(err)
		}
	}
	rewrite(content)
	return "file: " + path, rewrite
}

func list(engines ...*engine) string {
	var b strings.Builder
	for _, e := range engines {
		fmt.Fprintf(&b, "- %s\n", e.URL)
	}
	return b.String()
}

func TestC031_ADrainingReplicaGetsNothingNewButIsBetterThanNone(t *testing.T) {
	t.Parallel()
	a, b := newEngine(t), newEngine(t)
	source, rewrite := replicaFile(t, list(a, b))
	s := start(t, onePool(source, leastOutstanding))
	s.ready(t, a, b)
	first, second := s.open(t), s.open(t)

	rewrite(fmt.Sprintf("- {url: %s, draining: true}\n- %s\n", a.URL, b.URL))
	s.becomes(t, a.address(), fleet.Draining)
	s.mustPost(t, 30)
	if n := a.requests.Load(); n != 1 {
		t.Errorf("the draining replica got %d new requests, want none", n-1)
	}
	rewrite(fmt.Sprintf("- {url: %s, draining: true}\n- {url: %s, draining: true}\n", a.URL, b.URL))
	s.becomes(t, b.address(), fleet.Draining)
	s.mustPost(t, 10)

	close(a.goOn)
	close(b.goOn)
	for _, read := range []func() (string, error){first, second} {
		if text, err := read(); err != nil || !strings.HasSuffix(text, "[DONE]\n\n") {
			t.Errorf("a running stream was cut: %q, %v", text, err)
		}
	}
}

func TestC077_AnAddressListedTwiceIsOneReplicaAndMovingItLeavesNoGap(t *testing.T) {
	t.Parallel()
	a, b := newEngine(t), newEngine(t)
	twice := fmt.Sprintf("- {url: %s, draining: true}\n- %s\n- %s/\n- %s\n", a.URL, b.URL, b.URL, a.URL)
	source, rewrite := replicaFile(t, twice)
	s := start(t, onePool(source, leastOutstanding))
	s.becomes(t, a.address(), fleet.Ready) // one of its entries is not draining
	if n := len(s.Statuses()["p"]); n != 2 {
		t.Fatalf("got %d replicas, want 2", n)
	}
	s.mustPost(t, 10)
	sent := s.status(t, a.address()).Requests + s.status(t, b.address()).Requests

	rewrite(list(b, a)) // each has moved to another place
	s.mustPost(t, 10)
	eventually(t, "both are still there with their counters", func() bool {
		return s.status(t, a.address()).Requests+s.status(t, b.address()).Requests == sent+10
	})
}

func TestC078_AListWithOddEntriesIsRefusedWhole(t *testing.T) {
	t.Parallel()
	a, b := newEngine(t), newEngine(t)
	source, rewrite := replicaFile(t, list(a))
	s := start(t, onePool(source, leastOutstanding))
	rewrite(fmt.Sprintf("- %s\n- ftp://nowhere\n- {draining: perhaps}\n", b.URL))
	eventually(t, "the error is counted", func() bool { return s.sum(t, "warmpath_discovery_errors_total{") >= 1 })
	if got := s.sum(t, "warmpath_discovery_up{"); got != 0 {
		t.Errorf("discovery_up is %g, want 0", got)
	}
	s.mustPost(t, 3)
	if n := b.requests.Load(); n != 0 {
		t.Errorf("a replica of the faulty list got %d requests", n)
	}
	rewrite(list(a, b))
	s.becomes(t, b.address(), fleet.Ready)
	if got := s.sum(t, "warmpath_discovery_up{"); got != 1 {
		t.Errorf("discovery_up is %g, want 1", got)
	}
}

// serveDNS answers every question for SRV records with the engines' ports, and with their addresses, until the test ends.
func serveDNS(t testing.TB, engines ...*engine) (server string) {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	running, done := make(chan struct{}), make(chan error, 1)
	s := &dns.Server{PacketConn: packets, NotifyStartedFunc: func() { close(running) }}
	s.Handler = dns.HandlerFunc(func(w dns.ResponseWriter, question *dns.Msg) {
		answer := new(dns.Msg).SetReply(question)
		for _, e := range engines {
			answer.Answer = append(answer.Answer, &dns.SRV{
				Hdr:  dns.RR_Header{Name: question.Question[0].Name, Rrtype: dns.TypeSRV, Class: dns.ClassINET, Ttl: 1},
				Port: uint16(e.Listener.Addr().(*net.TCPAddr).Port), Target: "127.0.0.1.",
			})
		}
		_ = w.WriteMsg(answer)
	})
	go func() { done <- s.ActivateAndServe() }()
	<-running
	t.Cleanup(func() {
		_ = s.Shutdown()
		<-done
	})
	return packets.LocalAddr().String()
}

func TestC110_EverySourceBehavesAlike(t *testing.T) {
	t.Parallel()
	sources := map[string]func(t *testing.T, engines []*engine, strategy string) *site{
		"static": func(t *testing.T, engines []*engine, strategy string) *site {
			return start(t, onePool(static(engines...), strategy))
		},
		"file": func(t *testing.T, engines []*engine, strategy string) *site {
			source, _ := replicaFile(t, list(engines...))
			return start(t, onePool(source, strategy))
		},
		"dns": func(t *testing.T, engines []*engine, strategy string) *site {
			server := serveDNS(t, engines...)
			return start(t, onePool("dns: {name: engines.test., type: SRV}", strategy), func(o *options) { o.DNSServer = server })
		},
		"reload": func(t *testing.T, engines []*engine, strategy string) *site {
			s := start(t, onePool(static(engines[0]), strategy))
			s.reload(t, onePool(static(engines...), strategy))
			return s
		},
	}
	for source, open := range sources {
		for _, strategy := range []string{"RANDOM", leastOutstanding, "PREFIX_AWARE"} {
			t.Run(source+" "+strategy, func(t *testing.T) {
				t.Parallel()
				engines := []*engine{newEngine(t), newEngine(t), newEngine(t)}
				s := open(t, engines, strategy)
				s.ready(t, engines...)
				examine(t, s, engines, strategy)
			})
		}
	}
}

// examine sends requests whose placement a strategy decides and looks at where they are.
func examine(t *testing.T, s *site, engines []*engine, strategy string) {
	t.Helper()
	total := 8 * len(engines)
	if strategy == "RANDOM" {
		total *= 4 // so many that chance leaves no replica out
	}
	s.hold(t, total)
	held := make([]int64, len(engines))
	for i, e := range engines {
		held[i] = s.status(t, e.address()).InFlight
	}
	var sum int64
	for _, n := range held {
		sum += n
		switch {
		case n == 0:
			t.Errorf("%s: a replica got nothing: %v", strategy, held)
		case strategy != "RANDOM" && n != 8: // one hot prefix: up to the threshold, then the others by load
			t.Errorf("%s: got %v in flight, want 8 each", strategy, held)
		}
	}
	if sum != int64(total) {
		t.Errorf("%s: got %d in flight, want %d", strategy, sum, total)
	}
	for _, e := range engines {
		close(e.goOn)
	}
	eventually(t, "nothing is in flight", func() bool { return s.sum(t, "warmpath_in_flight{") == 0 })
}
