package config

import (
	"maps"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/address"
)

// validate adds everything that is wrong with cfg to r.
func validate(cfg *Config, r *report) {
	r.constraints(reflect.ValueOf(cfg).Elem(), "")
	r.listeners(cfg)
	r.data(cfg.Data)
	for _, name := range slices.Sorted(maps.Keys(cfg.Pools)) {
		r.pool(cfg.Pools[name], join("pools", name))
	}
	if len(cfg.Pools) == 0 {
		r.errorf("pools", "there is no pool; add one with the addresses of your replicas")
	}
	r.endpoints(cfg)
	r.controlPlane(cfg.ControlPlane)
	r.auth(cfg)
	if cfg.ControlPlane == nil { // it may use them later
		r.unusedPools(cfg)
	}
}

// listener is an address to listen on.
type listener struct {
	path, host string
	port       int
}

// listeners checks the addresses to listen on, and that they do not collide.
func (r *report) listeners(cfg *Config) {
	named := []struct{ address, path string }{{cfg.Data.Listen, "data.listen"}, {cfg.Admin.Listen, "admin.listen"}}
	if control := cfg.ControlPlane; control != nil {
		named = append(named, struct{ address, path string }{control.Listen, "control_plane.listen"})
	}
	var earlier []listener
	for _, n := range named {
		host, port, ok := r.listen(n.address, n.path)
		if !ok {
			continue
		}
		next := listener{n.path, host, port}
		if i := slices.IndexFunc(earlier, next.collides); i >= 0 {
			r.errorf(n.path, "collides with %s; give it another port", r.name(earlier[i].path))
		}
		earlier = append(earlier, next)
	}
}

// collides says whether both want one port. Port 0 is any free port, and every interface includes each one of them.
func (l listener) collides(other listener) bool {
	return l.port == other.port && l.port != 0 && (l.host == other.host || everyInterface(l.host) || everyInterface(other.host))
}

// listen reads a HOST:PORT to listen on.
func (r *report) listen(value, path string) (host string, port int, ok bool) {
	host, portText, err := net.SplitHostPort(value)
	if err == nil {
		port, err = strconv.Atoi(portText)
	}
	if err != nil || port < 0 || port > 65535 || strings.ContainsAny(host, " /\t\r\n") {
		r.errorf(path, "%s is not an address to listen on; write HOST:PORT, such as 127.0.0.1:8080 or :8080",
			quoted(r.written(path, value)))
		return "", 0, false
	}
	return strings.ToLower(host), port, true
}

func everyInterface(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || (err == nil && ip.IsUnspecified())
}

func (r *report) data(d Data) {
	if d.MaxDecodedBody < d.MaxBody {
		at := "data.max_decoded_body"
		if !r.isSet(at) {
			at = "data.max_body"
		}
		r.errorf(at, "`max_decoded_body` (%v) is less than `max_body` (%v), so that bodies of the allowed size would be refused; raise the one or lower the other",
			r.written("data.max_decoded_body", d.MaxDecodedBody), r.written("data.max_body", d.MaxBody))
	}
}

func (r *report) pool(p Pool, path string) {
	r.source(p, path)
	r.static(p.Static, join(path, "static"))
	if p.DNS != nil {
		r.dns(*p.DNS, join(path, "dns"))
	}
	r.urlPath(p.Health.Path, join(join(path, "health"), "path"), "/health")
	r.urlPath(p.Metrics.Path, join(join(path, "metrics"), "path"), "/metrics")
	r.ejection(p.Ejection, join(path, "ejection"))
}

// urlPath checks the path below a replica's base URL, if one is given.
func (r *report) urlPath(urlPath, path, example string) {
	if urlPath == "" {
		return
	}
	if u, err := url.ParseRequestURI(urlPath); err != nil || u.Host != "" || urlPath[0] != '/' {
		r.errorf(path, "is not a path; write it from the first slash, such as %s", example)
	}
}

// source checks that the pool says in exactly one way where its replicas are.
func (r *report) source(p Pool, path string) {
	var given []string
	if len(p.Static) > 0 {
		given = append(given, "static")
	}
	if p.File != "" {
		given = append(given, "file")
	}
	if p.DNS != nil {
		given = append(given, "dns")
	}
	switch {
	case len(given) == 0:
		r.errorf(path, "has no replicas; add one of `static`, `file` or `dns`")
	case len(given) > 1:
		r.errorf(path, "has %d sources of replicas, `%s`; keep one", len(given), strings.Join(given, "` and `"))
	}
}

// static checks the addresses of replicas and that none is there twice.
func (r *report) static(urls []string, path string) {
	first := map[string]int{}
	for i, each := range urls {
		canonical, err := address.Parse(each)
		if err != nil {
			r.errorf(index(path, i), "%v", err)
			continue
		}
		if j, twice := first[canonical]; twice {
			r.errorf(index(path, i), "is the same replica as %s; remove one", r.name(index(path, j)))
			continue
		}
		first[canonical] = i
	}
}

func (r *report) dns(d DNS, path string) {
	port := join(path, "port")
	switch {
	case d.Type == "SRV" && d.Port != 0:
		r.errorf(port, "has no meaning with SRV records, which bring their own ports; remove it")
	case d.Type != "SRV" && d.Port == 0:
		r.errorf(port, "is missing; write the port on which the engines listen")
	}
	name := join(path, "name")
	switch {
	case d.Name == "":
		r.errorf(name, "is missing; write the DNS name of the replicas")
	case strings.ContainsAny(d.Name, ":/ \t\r\n") || strings.Contains(strings.TrimSuffix(d.Name, "."), "..") || len(d.Name) > 253:
		r.errorf(name, "is not a DNS name; write it without scheme, port and path")
	}
}

func (r *report) ejection(e Ejection, path string) {
	if e.MaxTime >= e.BaseTime {
		return
	}
	longest, base := join(path, "max_time"), join(path, "base_time")
	at := longest
	if !r.isSet(longest) {
		at = base
	}
	r.errorf(at, "`max_time` (%v) is less than `base_time` (%v), but ejections grow from the one to the other; raise `max_time` or lower `base_time`",
		r.written(longest, e.MaxTime), r.written(base, e.BaseTime))
}

// The parts of an ARN that come from the configuration.
var (
	regionForm  = regexp.MustCompile(`^[a-z]+(-[a-z0-9]+)+$`)
	accountForm = regexp.MustCompile(`^[0-9]{12}$`)
)

func (r *report) controlPlane(c *ControlPlane) {
	if c == nil {
		return
	}
	r.invocationsPath(c.Endpoints.InvocationsPath, "control_plane.endpoints.invocations_path")
	r.timeouts(c.Endpoints.Timeouts, "control_plane.endpoints.timeouts")
	if c.StateFile == "" {
		r.errorf("control_plane.state_file", "is empty; write the path of a file that Warmpath may make and replace")
	}
	if !regionForm.MatchString(c.Region) {
		r.errorf("control_plane.region", "%s is not a region; write one such as us-east-1", quoted(r.written("control_plane.region", c.Region)))
	}
	if !accountForm.MatchString(c.Account) {
		r.errorf("control_plane.account", "%s is not an account id; write 12 digits", quoted(r.written("control_plane.account", c.Account)))
	}
}

// unusedPools warns of pools that no variant names.
func (r *report) unusedPools(cfg *Config) {
	used := map[string]bool{}
	for _, e := range cfg.Endpoints {
		for _, v := range e.AllVariants() {
			used[v.Pool] = true
		}
	}
	for name := range cfg.Pools {
		if !used[name] {
			r.warnf(join("pools", name), "no variant uses this pool; name it in a variant, or remove it")
		}
	}
}
