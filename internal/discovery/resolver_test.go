package discovery

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// server is a DNS server on loopback, by UDP and TCP on one port.
type server struct {
	addr string
	// zone has the records by "name. TYPE"; an entry "SERVFAIL" or "DROP" is an answer of its own kind. A name that is
	// not there does not exist.
	zone map[string][]string
	// truncate leaves UDP answers empty with the TC bit.
	truncate atomic.Bool
	tcp      atomic.Int32
	asked    chan string
}

func newServer(t *testing.T, zone map[string][]string) *server {
	t.Helper()
	packets, listener := listenOnOnePort(t)
	s := &server{addr: packets.LocalAddr().String(), zone: zone, asked: make(chan string, 64)}
	for _, each := range []*dns.Server{{PacketConn: packets, Handler: s}, {Listener: listener, Handler: s}} {
		running, done := make(chan struct{}), make(chan error, 1)
		each.NotifyStartedFunc = func() { close(running) }
		go func() { done <- each.ActivateAndServe() }()
		<-running
		t.Cleanup(func() {
			if err := each.Shutdown(); err != nil {
				t.Error(err)
			}
			<-done
		})
	}
	return s
}

// listenOnOnePort opens a port that is free for UDP and for TCP.
func listenOnOnePort(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	var err error
	for range 20 {
		var packets net.PacketConn
		var listener net.Listener
		if packets, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
			break
		}
		if listener, err = net.Listen("tcp", packets.LocalAddr().String()); err == nil {
			return packets, listener
		}
		_ = packets.Close()
	}
	t.Fatal(err)
	return nil, nil
}

// ServeDNS implements dns.Handler.
func (s *server) ServeDNS(w dns.ResponseWriter, question *dns.Msg) {
	q := question.Question[0]
	s.asked <- q.Name
	answer := new(dns.Msg).SetReply(question)
	records, known := s.zone[q.Name+" "+dns.TypeToString[q.Qtype]]
	_, isTCP := w.RemoteAddr().(*net.TCPAddr)
	switch {
	case isTCP:
		s.tcp.Add(1)
	case s.truncate.Load():
		answer.Truncated = true
		_ = w.WriteMsg(answer)
		return
	}
	if !known {
		answer.Rcode = dns.RcodeNameError
	}
	for _, text := range records {
		switch text {
		case "DROP":
			return
		case "SERVFAIL":
			answer.Rcode = dns.RcodeServerFailure
			continue
		}
		record, err := dns.NewRR(text)
		if err != nil {
			panic(err)
		}
		answer.Answer = append(answer.Answer, record)
	}
	_ = w.WriteMsg(answer)
}

// resolverOf asks the server as a resolv.conf with the search domains would.
func resolverOf(s *server, search ...string) resolver {
	return resolver{func() (*dns.ClientConfig, error) {
		cfg, err := serverConfig(s.addr)
		if err == nil {
			cfg.Search = search
		}
		return cfg, err
	}}
}

func TestQuery(t *testing.T) {
	s := newServer(t, map[string][]string{
		"a.internal. A":              {"a.internal. 5 IN A 10.0.0.1"},
		"a.internal. AAAA":           {},
		"alias.internal. A":          {"alias.internal. 3 IN CNAME a.internal.", "a.internal. 5 IN A 10.0.0.1"},
		"dangling.internal. A":       {"dangling.internal. 3 IN CNAME nowhere.internal."},
		"broken.internal. A":         {"SERVFAIL"},
		"short.ns.cluster.local. A":  {"short.ns.cluster.local. 5 IN A 10.0.0.2"},
		"broken.ns.cluster.local. A": {"broken.ns.cluster.local. 5 IN A 10.0.0.3"},
	})
	for _, tc := range []struct {
		name, host string
		recordType uint16
		search     []string
		want       int
		err        string
	}{
		{"address", "a.internal", dns.TypeA, nil, 1, ""},
		{"no such type", "a.internal", dns.TypeAAAA, nil, 0, ""},
		{"no such name", "b.internal", dns.TypeA, nil, 0, ""},
		{"alias", "alias.internal", dns.TypeA, nil, 2, ""},
		{"alias of nothing", "dangling.internal", dns.TypeA, nil, 0, ""},
		{"server failure", "broken.internal", dns.TypeA, nil, 0, "SERVFAIL"},
		{"search domain", "short", dns.TypeA, []string{"other.local", "ns.cluster.local"}, 1, ""},
		{"search domain not tried", "short.", dns.TypeA, []string{"ns.cluster.local"}, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			records, err := resolverOf(s, tc.search...).query(t.Context(), tc.host, tc.recordType)
			if len(records) != tc.want || (err == nil) != (tc.err == "") || (err != nil && !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("got %v, %v, want %d records, error %q", records, err, tc.want, tc.err)
			}
		})
	}
}

func TestQueryByTCPWhenTruncated(t *testing.T) {
	s := newServer(t, map[string][]string{"a.internal. A": {"a.internal. 5 IN A 10.0.0.1"}})
	s.truncate.Store(true)
	records, err := resolverOf(s).query(t.Context(), "a.internal", dns.TypeA)
	if err != nil || len(records) != 1 || s.tcp.Load() != 1 {
		t.Errorf("got %v, %v, %d questions by TCP, want one record by one", records, err, s.tcp.Load())
	}
}

func TestQueryAsksTheNextServer(t *testing.T) {
	broken := newServer(t, map[string][]string{"a.internal. A": {"SERVFAIL"}})
	_, port, err := net.SplitHostPort(broken.addr)
	if err != nil {
		t.Fatal(err)
	}
	// 127.0.0.2 has no server on the port: the question is refused at once, and the next server is asked.
	r := resolver{func() (*dns.ClientConfig, error) {
		return &dns.ClientConfig{Servers: []string{"127.0.0.2", "127.0.0.1"}, Port: port, Attempts: 1, Timeout: 1}, nil
	}}
	if _, err := r.query(t.Context(), "a.internal.", dns.TypeA); err == nil || !strings.Contains(err.Error(), "127.0.0.1: SERVFAIL") {
		t.Errorf("error is %v, want the second server's", err)
	}
}

func TestQueryEndsWithItsContext(t *testing.T) {
	s := newServer(t, map[string][]string{"slow.internal. A": {"DROP"}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-s.asked
		cancel()
	}()
	began := time.Now()
	_, err := resolverOf(s).query(ctx, "slow.internal.", dns.TypeA)
	if !errors.Is(err, context.Canceled) || time.Since(began) > time.Second {
		t.Errorf("error is %v after %v, want the cancel at once", err, time.Since(began))
	}
}

func TestSystemConfigErrors(t *testing.T) {
	want := errors.New("no resolv.conf")
	r := resolver{func() (*dns.ClientConfig, error) { return nil, want }}
	if _, err := r.query(t.Context(), "a", dns.TypeA); !errors.Is(err, want) {
		t.Errorf("error is %v", err)
	}
	if _, err := serverConfig("10.0.0.1"); err == nil {
		t.Error("a server without port is accepted")
	}
	if _, err := (resolver{func() (*dns.ClientConfig, error) { return &dns.ClientConfig{}, nil }}).query(t.Context(), "a", dns.TypeA); err == nil {
		t.Error("no server is no error")
	}
}
