// Package address reads the URL of a replica and writes it in the one form that identifies it.
package address

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Parse checks that raw is the base URL of an engine server and returns its canonical form: scheme and host in lower
// case, the port always written, no trailing slash. Two addresses name the same replica exactly when their canonical
// forms are equal, so a replica keeps its identity however it was written.
//
// Errors never repeat raw, which may hold a password.
func Parse(raw string) (string, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return "", errors.New("is not a URL; write http://HOST:PORT")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("must start with http:// or https://")
	case u.Hostname() == "":
		return "", errors.New("has no host; write http://HOST:PORT")
	case u.User != nil:
		return "", errors.New("holds a user name or password; use api_key_file for the engines' key")
	case u.RawQuery != "" || u.ForceQuery:
		return "", errors.New("has a query; write the base URL only")
	case strings.Contains(raw, "#"):
		return "", errors.New("has a fragment; write the base URL only")
	}
	host, err := canonicalHost(u)
	if err != nil {
		return "", err
	}
	return u.Scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/"), nil
}

// canonicalHost is HOST:PORT of u, with the port that the scheme implies where u has none.
func canonicalHost(u *url.URL) (string, error) {
	name := strings.ToLower(u.Hostname())
	if strings.IndexFunc(name, func(c rune) bool { return c <= ' ' || c > '~' }) >= 0 {
		return "", errors.New("has white space or a character outside ASCII in its host")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	number, err := strconv.Atoi(port)
	if err != nil || number < 1 || number > 65535 {
		return "", errors.New("has a port outside 1-65535")
	}
	if ip, err := netip.ParseAddr(name); err == nil {
		name = ip.String()
	}
	// RFC 6874: the percent sign before an IPv6 zone is escaped in a URL.
	return net.JoinHostPort(strings.Replace(name, "%", "%25", 1), strconv.Itoa(number)), nil
}
