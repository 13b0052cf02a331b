package proxy

import (
	"net/http"

	"github.com/warmpath/warmpath/internal/auth"
	"github.com/warmpath/warmpath/internal/dialect"
	"github.com/warmpath/warmpath/internal/endpoint"
)

// begin judges who calls, as far as the head of the request shows it.
func (x *exchange) begin() *dialect.Error {
	claim, refusal := x.Auth.Begin(x.r)
	if refusal != nil {
		return x.unknownCaller(refusal)
	}
	x.claim = claim
	return nil
}

// prove finds out who calls, now that the body is known. What showed it ends here: an engine that got it could speak for the caller.
func (x *exchange) prove() *dialect.Error {
	caller, refusal := x.claim.Prove(x.body.bytes())
	if refusal != nil {
		return x.unknownCaller(refusal)
	}
	if x.caller = caller; caller != nil {
		x.rec.Key = caller.Name
	}
	x.Auth.Strip(x.r)
	return nil
}

// unknownCaller refuses a caller, who is told by which scheme others come in (RFC 9110 section 11.6.1).
func (x *exchange) unknownCaller(r *auth.Refusal) *dialect.Error {
	x.w.Header().Set("WWW-Authenticate", "Bearer")
	return &dialect.Error{Status: http.StatusUnauthorized, Code: r.Code, Name: r.AWS, Message: r.Message}
}

// permit refuses a caller who may not use an endpoint.
func (x *exchange) permit(e *endpoint.Endpoint) *dialect.Error {
	if x.caller.May(e.Name) {
		return nil
	}
	r := auth.Denied("this key may not use the endpoint that serves the request; use another key, or have the endpoint added to its list")
	return &dialect.Error{Status: http.StatusForbidden, Code: r.Code, Name: r.AWS, Message: r.Message}
}
