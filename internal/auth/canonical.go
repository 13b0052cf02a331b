package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// algorithm is the only one of AWS Signature Version 4 that works with shared secrets.
const algorithm = "AWS4-HMAC-SHA256"

// canonicalRequest is the text that stands for a request in its signature ("Create a canonical request", AWS General Reference).
// payload is the hash of the body, or what was declared in its place. The request path is taken as it was sent: a path that a
// server would have to normalise is not served here.
func canonicalRequest(r *http.Request, query url.Values, names []string, payload string) string {
	var b strings.Builder
	b.WriteString(r.Method + "\n")
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	b.WriteString(escape(path, true) + "\n")
	b.WriteString(canonicalQuery(query) + "\n")
	for _, name := range names {
		b.WriteString(name + ":" + canonicalHeader(r, name) + "\n")
	}
	b.WriteString("\n" + strings.Join(names, ";") + "\n" + payload)
	return b.String()
}

// canonicalQuery orders parameters by their encoded names, then values. All of them are signed but the signature.
func canonicalQuery(query url.Values) string {
	type parameter struct{ name, value string }
	var all []parameter
	for name, values := range query {
		for _, value := range values {
			if name != "X-Amz-Signature" {
				all = append(all, parameter{escape(name, false), escape(value, false)})
			}
		}
	}
	slices.SortFunc(all, func(a, b parameter) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return strings.Compare(a.value, b.value)
	})
	var b strings.Builder
	for i, p := range all {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(p.name + "=" + p.value)
	}
	return b.String()
}

// canonicalHeader is a header's values, each without the white space that carries no meaning. Go keeps two headers elsewhere.
func canonicalHeader(r *http.Request, name string) string {
	values := r.Header[textproto.CanonicalMIMEHeaderKey(name)]
	switch {
	case name == "host":
		values = []string{r.Host}
	case name == "content-length" && len(values) == 0 && r.ContentLength >= 0:
		values = []string{strconv.FormatInt(r.ContentLength, 10)}
	}
	trimmed := make([]string, len(values))
	for i, value := range values {
		trimmed[i] = strings.Join(strings.FieldsFunc(value, blank), " ")
	}
	return strings.Join(trimmed, ",")
}

func blank(c rune) bool { return c == ' ' || c == '\t' }

// escape encodes all but the unreserved characters of RFC 3986, and slashes if they are to stay.
func escape(s string, slashes bool) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(s))
	for i := range len(s) {
		c := s[i]
		if unreserved(c) || c == '/' && slashes {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', digits[c>>4], digits[c&15]})
	}
	return b.String()
}

func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// stringToSign binds a canonical request to the time and scope of its signature.
func stringToSign(date string, s scope, canonical string) string {
	return algorithm + "\n" + date + "\n" + s.String() + "\n" + hashed([]byte(canonical))
}

// sign gives the signature of text by the key that is derived from a secret for one day, region and service.
func sign(secret string, s scope, text string) string {
	key := mac([]byte("AWS4"+secret), s.date)
	for _, part := range []string{s.region, s.service, terminator} {
		key = mac(key, part)
	}
	return hex.EncodeToString(mac(key, text))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func hashed(b []byte) string {
	digest := sha256.Sum256(b)
	return hex.EncodeToString(digest[:])
}
