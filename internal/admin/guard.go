package admin

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// guard keeps web pages out. The admin listener has no password and is on loopback by default, which a page in the
// operator's browser can reach: by a cross-site request, or as its own site once its name resolves to 127.0.0.1 (DNS
// rebinding).
func guard(hosts []string, next http.Handler) http.Handler {
	sameSite := http.NewCrossOriginProtection()
	sameSite.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, http.StatusForbidden, "cross_site", "a web page of another site may not change anything here")
	}))
	protected := sameSite.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if onLoopback(r) && !localHost(r.Host, hosts) {
			writeError(w, http.StatusForbidden, "unknown_host", "this listener is on loopback and does not answer to that host name: call it by its IP address or localhost")
			return
		}
		protected.ServeHTTP(w, r)
	})
}

// onLoopback says that r came in through a loopback address.
func onLoopback(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && local.IP.IsLoopback()
}

// localHost says that a page served under that host name cannot be a stranger's: nobody can point an IP address, a name
// under .localhost or, in public DNS, a name without a dot at this machine.
func localHost(hostPort string, more []string) bool {
	host := strings.ToLower(hostPort)
	if name, port, err := net.SplitHostPort(host); err == nil && strings.Trim(port, "0123456789") == "" {
		host = name
	}
	host = strings.TrimSuffix(host, ".")
	if address, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil && address.Zone() == "" { // a zone can be any text
		return true
	}
	if !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost") {
		return true
	}
	return slices.ContainsFunc(more, func(name string) bool { return strings.EqualFold(name, host) })
}

// only lets one method through; GET stands for HEAD too.
func only(method string, handle http.HandlerFunc) http.HandlerFunc {
	allowed := method
	if method == http.MethodGet {
		allowed = "GET, HEAD"
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == method || (r.Method == http.MethodHead && method == http.MethodGet) {
			handle(w, r)
			return
		}
		w.Header().Set("Allow", allowed)
		writeError(w, http.StatusMethodNotAllowed, "method_not_allowed", "this path takes "+allowed)
	}
}
