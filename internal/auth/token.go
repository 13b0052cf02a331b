package auth

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// TokenPrefix begins SageMaker's bearer tokens. What follows is a presigned request, by which a client that can only send an API key
// shows that it has an access key.
const TokenPrefix = "sagemaker-api-key-"

const (
	tokenAction      = "CallWithBearerToken"
	maxTokenLifetime = 12 * time.Hour
)

// token takes a bearer token without its prefix: in base64, HOST/?QUERY of a presigned POST without a body, and after the signature
// a parameter Version that it does not cover.
func (a *Authenticator) token(text string) (*Claim, *Refusal) {
	r, query, refusal := parseToken(text)
	if refusal != nil {
		return nil, refusal
	}
	p, refusal := parseQuery(query)
	if refusal != nil {
		return nil, refusal
	}
	if p.lifetime == 0 || p.lifetime > maxTokenLifetime {
		return nil, incomplete("X-Amz-Expires of a bearer token must be a number of seconds from 1 to 43200.")
	}
	p.payload = emptyPayload
	claim, refusal := a.signature(r, query, p)
	switch {
	case refusal == nil:
		return &Claim{caller: claim.caller}, nil // a token speaks for any request
	case refusal.Code == CodeExpired:
		return nil, expired("ExpiredTokenException", "The security token included in the request is expired")
	case refusal.Code == CodeInvalid:
		return nil, invalid("the bearer token's signature does not match; make a new one, for the right region, with the secret of its access key")
	}
	return nil, refusal
}

// parseToken gives the request that a token is the signature of.
func parseToken(text string) (*http.Request, url.Values, *Refusal) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, nil, incomplete("the bearer token is not in base64; send it as it was made.")
	}
	host, rawQuery, found := strings.Cut(string(raw), "/?")
	query, err := url.ParseQuery(rawQuery)
	if err != nil || !found || query.Get("Action") != tokenAction {
		return nil, nil, incomplete("the bearer token is not a presigned " + tokenAction + " request; send it as it was made.")
	}
	query.Del("Version")
	return &http.Request{Method: http.MethodPost, URL: &url.URL{Path: "/"}, Host: host}, query, nil
}
