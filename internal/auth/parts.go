package auth

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// parts are what a signature comes with, in a header or in a query.
type parts struct {
	algorithm, credential, value string
	names                        []string      // of the signed headers, in lower case
	date                         string        // when it was made, as timeLayout
	lifetime                     time.Duration // from then on; 0 = as long as the clock skew allows
	payload                      string        // what was declared of the body; "" = nothing
}

// maxLifetime is that of a presigned request.
const maxLifetime = 7 * 24 * time.Hour

// parseAuthorization reads what follows the algorithm in an Authorization header: Credential=…, SignedHeaders=…, Signature=….
func parseAuthorization(algorithm, text string) (parts, *Refusal) {
	fields := map[string]string{}
	for field := range strings.SplitSeq(text, ",") {
		field = strings.TrimSpace(field)
		name, value, ok := strings.Cut(field, "=")
		if !ok {
			return parts{}, incomplete("'" + field + "' not a valid key=value pair (missing equal-sign) in Authorization header.")
		}
		if _, twice := fields[name]; twice {
			return parts{}, incomplete("Authorization header has '" + name + "' more than once.")
		}
		fields[name] = value
	}
	if lacks := absent(fields, "Authorization header requires '%' parameter.", "Credential", "Signature", "SignedHeaders"); lacks != "" {
		return parts{}, incomplete(lacks)
	}
	return parts{
		algorithm: algorithm, credential: fields["Credential"], value: fields["Signature"], names: headerNames(fields["SignedHeaders"]),
	}, nil
}

// dated adds what stands in other headers.
func (p parts) dated(h http.Header) (parts, *Refusal) {
	p.payload = h.Get("X-Amz-Content-Sha256")
	if p.date = h.Get("X-Amz-Date"); p.date != "" {
		return p, nil
	}
	if p.date = h.Get("Date"); p.date == "" {
		return p, incomplete("Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header.")
	}
	if at, err := http.ParseTime(p.date); err == nil {
		p.date = at.UTC().Format(timeLayout)
	}
	return p, nil
}

// parseQuery reads the parameters of a presigned request.
func parseQuery(query url.Values) (parts, *Refusal) {
	fields := map[string]string{}
	for _, name := range []string{"Algorithm", "Credential", "Date", "Expires", "Signature", "SignedHeaders"} {
		if values := query["X-Amz-"+name]; len(values) > 0 {
			fields["X-Amz-"+name] = values[0]
		}
	}
	if lacks := absent(fields, "AWS query-string parameters must include '%'.",
		"X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Signature", "X-Amz-SignedHeaders", "X-Amz-Date"); lacks != "" {
		return parts{}, incomplete(lacks + " Re-examine the query-string parameters.")
	}
	p := parts{
		algorithm: fields["X-Amz-Algorithm"], credential: fields["X-Amz-Credential"], value: fields["X-Amz-Signature"],
		names: headerNames(fields["X-Amz-SignedHeaders"]), date: fields["X-Amz-Date"], payload: query.Get("X-Amz-Content-Sha256"),
	}
	if text, given := fields["X-Amz-Expires"]; given {
		seconds, err := strconv.ParseUint(text, 10, 32)
		p.lifetime = time.Duration(seconds) * time.Second
		if err != nil || p.lifetime == 0 || p.lifetime > maxLifetime {
			return parts{}, incomplete("X-Amz-Expires must be a number of seconds from 1 to 604800.")
		}
	}
	return p, nil
}

// absent says which names have no value, each in a sentence whose % is the name; "" if none.
func absent(fields map[string]string, sentence string, names ...string) string {
	var sentences []string
	for _, name := range names {
		if fields[name] == "" {
			sentences = append(sentences, strings.Replace(sentence, "%", name, 1))
		}
	}
	return strings.Join(sentences, " ")
}

func headerNames(text string) []string { return strings.Split(strings.ToLower(text), ";") }
