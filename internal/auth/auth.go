// Package auth finds out who calls, by API key, by AWS Signature Version 4 or by SageMaker's bearer token, and what they may use.
package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Caller is someone who is known by a key.
type Caller struct {
	// Name stands for the caller in metrics and logs.
	Name string
	// Endpoints are those the caller may use; empty = all.
	Endpoints []string
	// ControlPlane lets the caller change endpoints.
	ControlPlane bool
}

// May says whether the caller may use an endpoint. A nil Caller is anybody, where nobody is asked for credentials, and may.
func (c *Caller) May(endpoint string) bool {
	return c == nil || len(c.Endpoints) == 0 || slices.Contains(c.Endpoints, endpoint)
}

// MayControl says whether the caller may use the control plane. A nil Caller may.
func (c *Caller) MayControl() bool { return c == nil || c.ControlPlane }

// Key is an API key, which is sent as it is.
type Key struct {
	Caller
	Secret string
}

// AccessKey is an AWS-style pair: the ID is sent, the secret signs.
type AccessKey struct {
	Caller
	ID, Secret string
}

// Options are the callers, and how their signatures are judged.
type Options struct {
	Keys       []Key
	AccessKeys []AccessKey
	// Region is the one that signatures must be made for; empty = any.
	Region string
	// ClockSkew is how far a signature's time may be from Now, either way. It bounds how long a request that was overheard can be
	// sent again.
	ClockSkew time.Duration
	Now       func() time.Time
}

// Authenticator knows the callers. It is immutable and safe for concurrent use. A nil one asks nobody for credentials.
type Authenticator struct {
	Options
	digests [][sha256.Size]byte // of the Keys, in their order
	byID    map[string]*AccessKey
}

// New makes an Authenticator. IDs and secrets must be unique and not empty.
func New(o Options) *Authenticator {
	a := &Authenticator{Options: o, byID: map[string]*AccessKey{}}
	for _, k := range o.Keys {
		a.digests = append(a.digests, sha256.Sum256([]byte(k.Secret)))
	}
	for i := range o.AccessKeys {
		a.byID[o.AccessKeys[i].ID] = &o.AccessKeys[i]
	}
	return a
}

// Claim is what the head of a request says of who sent it. Only Prove makes it more than that.
type Claim struct {
	caller *Caller
	signed *signed // what the body must still agree with; nil = the head was proof enough
}

// anybody is the claim of those who are not asked.
var anybody = &Claim{}

// Prove says who the caller is, given the body exactly as it was sent; nil = anybody, where nobody is asked.
func (c *Claim) Prove(body []byte) (*Caller, *Refusal) {
	if c.signed != nil {
		if refusal := c.signed.agrees(body); refusal != nil {
			return nil, refusal
		}
	}
	return c.caller, nil
}

// Begin judges all of a request but its body, so that most of those that have no business here are refused before they send one.
func (a *Authenticator) Begin(r *http.Request) (*Claim, *Refusal) {
	if a == nil {
		return anybody, nil
	}
	headers, query := r.Header["Authorization"], strings.Contains(r.URL.RawQuery, "X-Amz-Algorithm=")
	switch {
	case len(headers) > 1:
		return nil, incomplete("there is more than one Authorization header; send one")
	case len(headers) == 1 && query:
		return nil, invalid("Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header.")
	case query:
		return a.presigned(r)
	case len(headers) == 1:
		return a.authorization(r, headers[0])
	}
	if keys := r.Header["X-Api-Key"]; len(keys) == 1 {
		return a.key(keys[0])
	}
	return nil, missing()
}

// Strip takes out of a request what has shown who its caller is. Whoever got that could speak for the caller.
func (a *Authenticator) Strip(r *http.Request) {
	if a == nil {
		return
	}
	for _, name := range [...]string{"Authorization", "X-Api-Key", "X-Amz-Date", "X-Amz-Content-Sha256", "X-Amz-Security-Token"} {
		r.Header.Del(name)
	}
	if strings.Contains(r.URL.RawQuery, "X-Amz-") {
		r.URL.RawQuery = strings.Join(slices.DeleteFunc(strings.Split(r.URL.RawQuery, "&"), signs), "&")
	}
}

// signs says whether a parameter of a query is a part of its signature.
func signs(parameter string) bool {
	encoded, _, _ := strings.Cut(parameter, "=")
	name, err := url.QueryUnescape(encoded)
	return err == nil && strings.HasPrefix(name, "X-Amz-")
}

// authorization takes what an Authorization header can hold.
func (a *Authenticator) authorization(r *http.Request, value string) (*Claim, *Refusal) {
	scheme, rest, _ := strings.Cut(value, " ")
	switch {
	case strings.HasPrefix(scheme, "AWS4-"):
		return a.signedHead(r, scheme, rest)
	case !strings.EqualFold(scheme, "Bearer"):
		return nil, missing()
	}
	if token, ok := strings.CutPrefix(strings.TrimSpace(rest), TokenPrefix); ok {
		return a.token(token)
	}
	return a.key(strings.TrimSpace(rest))
}

// key finds an API key. Every one is compared, and only hashes are, so that the time it takes tells nothing about any.
func (a *Authenticator) key(secret string) (*Claim, *Refusal) {
	digest, found := sha256.Sum256([]byte(secret)), -1
	for i := range a.digests {
		if subtle.ConstantTimeCompare(digest[:], a.digests[i][:]) == 1 && secret != "" {
			found = i
		}
	}
	if found < 0 {
		return nil, &Refusal{Code: CodeUnknown, AWS: "UnrecognizedClientException", Message: "the API key is not one that is known here; check it"}
	}
	return &Claim{caller: &a.Keys[found].Caller}, nil
}
