package controlplane

import (
	"net/http"

	"github.com/warmpath/warmpath/internal/auth"
)

// permit finds out who calls, now that the body is known, and whether it may use the control plane. The name is "" where nobody is asked.
func permit(claim *auth.Claim, body []byte, operation string) (name string, err error) {
	caller, refusal := claim.Prove(body)
	switch {
	case refusal != nil:
		return "", unknownCaller(refusal)
	case caller == nil:
		return "", nil
	case caller.MayControl():
		return caller.Name, nil
	}
	return caller.Name, unknownCaller(auth.Denied("User: " + caller.Name + " is not authorized to perform: sagemaker:" + operation +
		" because its key is not an access key with control_plane: true in Warmpath's configuration"))
}

// unknownCaller is a refusal as AWS JSON 1.1 words it, whose errors of clients are all 400.
func unknownCaller(r *auth.Refusal) error {
	if r.Code == auth.CodeMissing {
		return &apiError{http.StatusBadRequest, r.AWS, "Missing Authentication Token; sign the request with AWS Signature Version 4, by an access key that has control_plane: true"}
	}
	return &apiError{http.StatusBadRequest, r.AWS, r.Message}
}
