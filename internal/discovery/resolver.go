package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/miekg/dns"
)

// udpSize is the answer size offered to servers: what passes unfragmented on almost every network (DNS flag day 2020).
const udpSize = 1232

// resolver asks DNS servers as the system's configuration says. Unlike net.Resolver it shows each record's TTL.
type resolver struct {
	// config returns the servers, search domains and timeouts. It is called for each query: the file may change.
	config func() (*dns.ClientConfig, error)
}

// systemConfig reads the servers that the system uses.
func systemConfig() (*dns.ClientConfig, error) { return dns.ClientConfigFromFile("/etc/resolv.conf") }

// serverConfig is a configuration with one server, HOST:PORT.
func serverConfig(server string) (*dns.ClientConfig, error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return nil, fmt.Errorf("dns server: %w; write HOST:PORT", err)
	}
	return &dns.ClientConfig{Servers: []string{host}, Port: port, Ndots: 1, Timeout: 2, Attempts: 2}, nil
}

// query returns the records of a type that name has, trying the search domains as resolv.conf says. No records and no
// error means that the servers know of none; an error means that they could not tell.
func (r resolver) query(ctx context.Context, name string, recordType uint16) ([]dns.RR, error) {
	cfg, err := r.config()
	if err != nil {
		return nil, fmt.Errorf("dns configuration: %w", err)
	}
	var failed error
	for _, full := range cfg.NameList(name) {
		records, err := ask(ctx, cfg, full, recordType)
		switch {
		case err != nil:
			failed = err
		case len(records) > 0:
			return records, nil
		}
	}
	return nil, failed
}

// ask puts one question to the servers in turn until one can answer it.
func ask(ctx context.Context, cfg *dns.ClientConfig, name string, recordType uint16) ([]dns.RR, error) {
	question := new(dns.Msg).SetQuestion(name, recordType).SetEdns0(udpSize, false)
	failed := errors.New("no server is configured; check /etc/resolv.conf")
	for range max(1, cfg.Attempts) {
		for _, server := range cfg.Servers {
			answer, err := exchange(ctx, cfg, question, net.JoinHostPort(server, cfg.Port))
			switch {
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case err != nil:
				failed = err
			case answer.Rcode == dns.RcodeSuccess || answer.Rcode == dns.RcodeNameError:
				return withType(answer.Answer, recordType), nil
			default:
				failed = fmt.Errorf("server %s: %s", server, dns.RcodeToString[answer.Rcode])
			}
		}
	}
	return nil, fmt.Errorf("%s %s: %w", dns.TypeToString[recordType], name, failed)
}

// exchange asks one server by UDP, and by TCP where the answer does not fit.
func exchange(ctx context.Context, cfg *dns.ClientConfig, question *dns.Msg, server string) (*dns.Msg, error) {
	answer, err := roundTrip(ctx, cfg, "udp", question, server)
	if err == nil && answer.Truncated {
		return roundTrip(ctx, cfg, "tcp", question, server)
	}
	return answer, err
}

func roundTrip(ctx context.Context, cfg *dns.ClientConfig, network string, question *dns.Msg, server string) (*dns.Msg, error) {
	client := &dns.Client{Net: network, UDPSize: udpSize, Timeout: time.Duration(cmp.Or(cfg.Timeout, 5)) * time.Second}
	conn, err := client.DialContext(ctx, server)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	// The client heeds a deadline of ctx but not its cancellation.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	answer, _, err := client.ExchangeWithConnContext(ctx, question, conn)
	return answer, err
}

// withType returns the records if any has the type, with the aliases (CNAME) that led there: their TTLs count too.
func withType(records []dns.RR, recordType uint16) []dns.RR {
	for _, record := range records {
		if record.Header().Rrtype == recordType {
			return records
		}
	}
	return nil
}
