package discovery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/warmpath/warmpath/internal/address"
	"github.com/warmpath/warmpath/internal/fleet"
)

// minPause is the shortest time between look-ups, whatever the TTL: servers publish TTLs of 0.
const minPause = time.Second

// DNSOptions configure a DNS.
type DNSOptions struct {
	// Name is the name to resolve. With a trailing dot, the search domains are not tried.
	Name string
	// Port is the port of every replica, 1-65535. Not used with SRV records, which bring their own.
	Port int
	// Type is A, AAAA or SRV; "" asks for A and AAAA.
	Type string
	// Scheme is the URL scheme of every replica; "" means http.
	Scheme string
	// Interval is the longest time between look-ups, used where the TTL is longer or not known. Not less than 1 s;
	// 0 means 30 s.
	Interval time.Duration
	// Server is the DNS server to ask, HOST:PORT; "" means those of /etc/resolv.conf.
	Server string
	// Hosts resolves what DNS does not know, such as localhost and the names of /etc/hosts; nil means net.DefaultResolver.
	// The network is ip, ip4 or ip6.
	Hosts func(ctx context.Context, network, host string) ([]netip.Addr, error)
	// OnError is told of each look-up that failed or found nothing. It must not block. Nil drops the errors.
	OnError func(error)
}

// DNS finds replicas by a DNS name that it resolves again and again. Every address, or every target of SRV records, is a
// replica; priorities and weights of SRV records are ignored.
type DNS struct {
	opts  DNSOptions
	types []uint16
	query func(ctx context.Context, name string, recordType uint16) ([]dns.RR, error)
	// known are the addresses that the last good answer for each record type gave. They stay while a type cannot be
	// resolved: a server that fails on AAAA must not take the IPv6 replicas away.
	known map[uint16][]string
}

// NewDNS returns a source of the replicas behind a name.
func NewDNS(opts DNSOptions) *DNS {
	if opts.Interval == 0 {
		opts.Interval = 30 * time.Second
	}
	if opts.Scheme == "" {
		opts.Scheme = "http"
	}
	if opts.Hosts == nil {
		opts.Hosts = net.DefaultResolver.LookupNetIP
	}
	if opts.OnError == nil {
		opts.OnError = func(error) {}
	}
	config := systemConfig
	if opts.Server != "" {
		config = func() (*dns.ClientConfig, error) { return serverConfig(opts.Server) }
	}
	types := []uint16{dns.TypeA, dns.TypeAAAA}
	if one, ok := dns.StringToType[opts.Type]; ok {
		types = []uint16{one}
	}
	return &DNS{opts: opts, types: types, query: resolver{config}.query, known: map[uint16][]string{}}
}

// Run resolves the name when the TTL of the last answer ends, at the latest after Interval and never twice within a
// second, and sends the set when it differs from the last, or when a failure is over. Failures are tried again after 1 s, then 2, 4, ... up to
// Interval. A name that resolves to nothing is a failure: an outage of DNS must not empty a fleet that works.
func (d *DNS) Run(ctx context.Context, up chan<- []fleet.Target) error {
	var sent []string
	failures := 0
	for {
		ttl, err := d.refresh(ctx)
		if ctx.Err() != nil {
			return nil
		}
		recovered := failures > 0 && err == nil
		failures++
		if err == nil {
			failures = 0
		} else {
			d.opts.OnError(fmt.Errorf("dns %s: %w", d.opts.Name, err))
		}
		if found := d.found(); len(found) > 0 && (recovered || !slices.Equal(found, sent)) {
			send(ctx, up, targetsOf(found))
			sent = found
		}
		select {
		case <-time.After(d.pause(ttl, failures)):
		case <-ctx.Done():
			return nil
		}
	}
}

// pause is the time to the next look-up.
func (d *DNS) pause(ttl time.Duration, failures int) time.Duration {
	if failures > 0 {
		ttl = minPause << min(failures-1, 20)
	}
	return max(minPause, min(ttl, d.opts.Interval))
}

// refresh asks for every record type and updates what is known. It returns how long that holds.
func (d *DNS) refresh(ctx context.Context) (time.Duration, error) {
	ttl, empty := d.opts.Interval, true
	answers := map[uint16][]string{}
	var failed error
	for _, recordType := range d.types {
		records, err := d.query(ctx, d.opts.Name, recordType)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		answers[recordType] = d.addresses(records)
		empty = empty && len(answers[recordType]) == 0
		for _, record := range records {
			ttl = min(ttl, time.Duration(record.Header().Ttl)*time.Second)
		}
	}
	if empty {
		return d.refreshFromHosts(ctx, failed)
	}
	for recordType, urls := range answers {
		d.known[recordType] = urls
	}
	return ttl, failed
}

// refreshFromHosts asks the system for what DNS does not know. Its answers have no TTL.
func (d *DNS) refreshFromHosts(ctx context.Context, failed error) (time.Duration, error) {
	if failed == nil {
		failed = errors.New("no records; the last replicas stay in use")
	}
	network := map[string]string{"": "ip", "A": "ip4", "AAAA": "ip6"}[d.opts.Type]
	if network == "" {
		return 0, failed
	}
	addrs, err := d.opts.Hosts(ctx, network, d.opts.Name)
	if err != nil || len(addrs) == 0 {
		return 0, failed
	}
	var urls []string
	for _, addr := range addrs {
		urls = d.appendURL(urls, addr.Unmap().String(), d.opts.Port)
	}
	clear(d.known)
	d.known[d.types[0]] = urls
	return d.opts.Interval, nil
}

// found is the set of all known addresses, sorted, each once.
func (d *DNS) found() []string {
	var all []string
	for _, urls := range d.known {
		all = append(all, urls...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// addresses are the base URLs that records stand for.
func (d *DNS) addresses(records []dns.RR) []string {
	var urls []string
	for _, record := range records {
		switch r := record.(type) {
		case *dns.A:
			urls = d.appendURL(urls, r.A.String(), d.opts.Port)
		case *dns.AAAA:
			urls = d.appendURL(urls, r.AAAA.String(), d.opts.Port)
		case *dns.SRV:
			urls = d.appendURL(urls, strings.TrimSuffix(r.Target, "."), int(r.Port))
		}
	}
	return urls
}

// appendURL appends the address of a replica. What makes none is left out, such as the SRV target "." that stands for
// "no such service" (RFC 2782).
func (d *DNS) appendURL(urls []string, host string, port int) []string {
	url, err := address.Parse(d.opts.Scheme + "://" + net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return urls
	}
	return append(urls, url)
}
