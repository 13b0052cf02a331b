package proxy

import (
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/warmpath/warmpath/internal/dialect"
)

// hopByHop are the headers of one connection (RFC 9110 section 7.6.1), which end here in both directions.
var hopByHop = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// ownPrefix marks the headers by which Warmpath speaks; from a client they mean nothing and go no further.
const ownPrefix = "X-Warmpath-"

// connectionNames are the headers that a message's Connection header makes hop-by-hop.
func connectionNames(h http.Header) map[string]bool {
	var names map[string]bool
	for _, value := range h["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			if names == nil {
				names = map[string]bool{}
			}
			names[textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name))] = true
		}
	}
	return names
}

// upstreamHeader is the header that the engine gets.
func (x *exchange) upstreamHeader() http.Header {
	in := x.r.Header
	named := connectionNames(in)
	h := make(http.Header, len(in)+6)
	for name, values := range in {
		if !hopByHop[name] && !named[name] && !strings.HasPrefix(name, ownPrefix) && x.reachesEngine(name) {
			h[name] = values
		}
	}
	if accept, sent := h[dialect.HeaderAccept]; sent && x.route.Invocation == dialect.InvokeStream {
		h["Accept"] = accept
		delete(h, dialect.HeaderAccept)
	}
	if httpguts.HeaderValuesContainsToken(in["Te"], "trailers") {
		h["Te"] = []string{"trailers"}
	}
	delete(h, "Expect") // the body is here already
	if x.plan.decoded {
		delete(h, "Content-Encoding")
	}
	if x.plan.injected {
		delete(h, "Accept-Encoding") // what the client did not ask for must be found to be taken out
	}
	if auth := x.plan.variant.Pool.Authorization; auth != "" {
		h["Authorization"] = []string{auth}
		delete(h, "X-Api-Key")
	}
	for _, name := range [...]string{"User-Agent", "Idempotency-Key"} {
		if _, sent := h[name]; !sent {
			// Present without a value: the transport adds no User-Agent of its own, and counts the request as safe to repeat on a
			// connection that turns out to be closed.
			h[name] = nil
		}
	}
	h["X-Request-Id"] = []string{x.rec.ID}
	x.forwarded(h)
	return h
}

// forwarded tells the engine who is behind this proxy. A client's own account is believed only if the settings say so.
func (x *exchange) forwarded(h http.Header) {
	client, _, err := net.SplitHostPort(x.r.RemoteAddr)
	if err != nil {
		client = x.r.RemoteAddr
	}
	proto := "http"
	if x.r.TLS != nil {
		proto = "https"
	}
	if x.TrustForwarded {
		if before := strings.Join(h["X-Forwarded-For"], ", "); before != "" {
			client = before + ", " + client
		}
		h["X-Forwarded-For"] = []string{client}
		setDefault(h, "X-Forwarded-Host", x.r.Host)
		setDefault(h, "X-Forwarded-Proto", proto)
		return
	}
	delete(h, "Forwarded")
	h["X-Forwarded-For"] = []string{client}
	h["X-Forwarded-Host"] = []string{x.r.Host}
	h["X-Forwarded-Proto"] = []string{proto}
}

func setDefault(h http.Header, name, value string) {
	if len(h[name]) == 0 {
		h[name] = []string{value}
	}
}

// decorate adds what Warmpath says about its decision, and where the path names the endpoint what SDKs of AWS look for.
func (x *exchange) decorate(h http.Header) {
	if x.route.Endpoint != "" {
		h["X-Amzn-Requestid"] = []string{x.rec.ID}
		if x.plan != nil {
			h["X-Amzn-Invoked-Production-Variant"] = []string{x.plan.variant.Name}
		}
	}
	if !x.DecisionHeaders {
		return
	}
	if x.rec.Replica != "" {
		h["X-Warmpath-Replica"] = []string{x.rec.Replica}
		h["X-Warmpath-Decision"] = []string{x.rec.Decision}
	}
	if x.rec.Code != "" {
		h["X-Warmpath-Code"] = []string{x.rec.Code}
	}
}

// requestID is the client's X-Request-Id if it is fit to be logged and sent on, or a new one.
func requestID(r *http.Request, random func() uint64) string {
	id := r.Header.Get("X-Request-Id")
	if id != "" && len(id) <= 128 && strings.IndexFunc(id, func(c rune) bool { return c <= ' ' || c > '~' }) < 0 {
		return id
	}
	return "wp-" + strconv.FormatUint(random(), 36)
}
