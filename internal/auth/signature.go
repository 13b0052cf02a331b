package auth

import (
	"crypto/hmac"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	// unsignedPayload is declared by a client that leaves its body out of the signature.
	unsignedPayload = "UNSIGNED-PAYLOAD"
	// streamedPayload begins what is declared of bodies that carry signatures of their own, chunk by chunk.
	streamedPayload = "STREAMING-"
)

// signed is a signature of a known access key, and what it was made of but for the body.
type signed struct {
	parts
	scope   scope
	secret  string
	request *http.Request
	query   url.Values
}

// signedHead takes a request that is signed in its Authorization header.
func (a *Authenticator) signedHead(r *http.Request, algorithm, text string) (*Claim, *Refusal) {
	p, refusal := parseAuthorization(algorithm, text)
	if refusal == nil {
		p, refusal = p.dated(r.Header)
	}
	if refusal != nil {
		return nil, refusal
	}
	query, refusal := queryOf(r.URL)
	if refusal != nil {
		return nil, refusal
	}
	return a.signature(r, query, p)
}

// presigned takes a request that is signed in its query.
func (a *Authenticator) presigned(r *http.Request) (*Claim, *Refusal) {
	query, refusal := queryOf(r.URL)
	if refusal != nil {
		return nil, refusal
	}
	p, refusal := parseQuery(query)
	if refusal != nil {
		return nil, refusal
	}
	if declared := r.Header.Get("X-Amz-Content-Sha256"); declared != "" {
		p.payload = declared
	}
	return a.signature(r, query, p)
}

func queryOf(u *url.URL) (url.Values, *Refusal) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, incomplete("the query string is not made of NAME=VALUE pairs in percent-encoding.")
	}
	return query, nil
}

// signature judges a signature in the order that AWS does, as far as it can be judged without the body. A client that declares the
// hash of its body is judged at once.
func (a *Authenticator) signature(r *http.Request, query url.Values, p parts) (*Claim, *Refusal) {
	at, refusal := a.fresh(p)
	if refusal != nil {
		return nil, refusal
	}
	if !slices.Contains(p.names, "host") {
		return nil, invalid("'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.")
	}
	if p.algorithm != algorithm {
		return nil, incomplete("Unsupported AWS 'algorithm': '" + p.algorithm + "' (only " + algorithm + " for now).")
	}
	id, s, refusal := parseCredential(p.credential)
	if refusal == nil {
		refusal = s.covers(at, a.Region)
	}
	if refusal != nil {
		return nil, refusal
	}
	owner := a.byID[id]
	if owner == nil {
		return nil, &Refusal{Code: CodeUnknown, AWS: "UnrecognizedClientException", Message: "The security token included in the request is invalid."}
	}
	if refusal := p.binds(r.Header); refusal != nil {
		return nil, refusal
	}
	claim := &Claim{caller: &owner.Caller, signed: &signed{parts: p, scope: s, secret: owner.Secret, request: r, query: query}}
	if p.payload != "" {
		if refusal := claim.signed.matches(p.payload); refusal != nil {
			return nil, refusal
		}
	}
	return claim, nil
}

// fresh reads when a signature was made, and refuses one that is too old or from the future.
func (a *Authenticator) fresh(p parts) (time.Time, *Refusal) {
	at, err := time.Parse(timeLayout, p.date)
	if err != nil {
		return at, incomplete("Date must be in ISO-8601 'basic format'. Got '" + p.date + "'. See http://en.wikipedia.org/wiki/ISO_8601")
	}
	now := a.Now().UTC()
	if p.lifetime == 0 {
		return at, current(at, now, a.ClockSkew)
	}
	if end := at.Add(p.lifetime); now.After(end) {
		return at, expired("InvalidSignatureException", "Signature expired: "+end.Format(timeLayout)+" is now earlier than "+now.Format(timeLayout))
	}
	return at, begun(at, now, a.ClockSkew)
}

// binds refuses a signature that leaves out a header which says what the request is for: whoever hears the request could change it.
// It also refuses what cannot be checked.
func (p parts) binds(h http.Header) *Refusal {
	for name := range h {
		lower := strings.ToLower(name)
		steers := lower == "x-amz-target" || strings.HasPrefix(lower, "x-amzn-sagemaker-")
		if steers && !slices.Contains(p.names, lower) {
			return invalid("There were headers present in the request which were not signed: " + lower)
		}
	}
	if strings.HasPrefix(p.payload, streamedPayload) {
		return invalid("signatures of single chunks (x-amz-content-sha256: " + streamedPayload + "…) are not supported here; sign the whole body")
	}
	return nil
}

// agrees says whether the signature is one of the request with this body.
func (s *signed) agrees(body []byte) *Refusal {
	switch s.payload {
	case unsignedPayload:
		return nil
	case "":
		return s.matches(hashed(body))
	}
	if !same(s.payload, hashed(body)) {
		return invalid("The provided 'x-amz-content-sha256' header does not match what was computed.")
	}
	return nil
}

// matches says whether the signature is one of the request with a body of this hash. A refusal shows what should have been signed, as
// AWS does: whoever signs can compare it with what he has signed.
func (s *signed) matches(payload string) *Refusal {
	canonical := canonicalRequest(s.request, s.query, s.names, payload)
	text := stringToSign(s.date, s.scope, canonical)
	if same(s.value, sign(s.secret, s.scope, text)) {
		return nil
	}
	return invalid("The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key " +
		"and signing method. Consult the service documentation for details.\n\nThe Canonical String for this request should have been\n'" +
		canonical + "'\n\nThe String-to-Sign should have been\n'" + text + "'\n")
}

// same compares in constant time.
func same(given, want string) bool { return hmac.Equal([]byte(given), []byte(want)) }

// emptyPayload is the hash of a body without bytes.
var emptyPayload = hashed(nil)
