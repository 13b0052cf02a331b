package auth

// The values of Refusal.Code.
const (
	CodeMissing    = "credentials_missing"  // there are none of a kind that is known here
	CodeUnknown    = "credentials_unknown"  // no such key
	CodeIncomplete = "signature_incomplete" // the signature cannot be read
	CodeInvalid    = "signature_invalid"    // the signature is not this request's, or made for something else
	CodeExpired    = "signature_expired"    // made too long ago, or in the future
	CodeDenied     = "access_denied"        // the caller is known and may not do this
)

// Refusal says why a request is not let in. What its texts repeat are names, times and hashes of the request, never a key or a body.
type Refusal struct {
	// Code is Warmpath's machine-readable reason, one of the constants.
	Code string
	// AWS is the name that AWS's services give this error.
	AWS string
	// Message is AWS's own text where it has one.
	Message string
}

// Error gives the message.
func (r *Refusal) Error() string { return r.Message }

// Denied is the refusal of a caller who is known but may not use what the request is for.
func Denied(message string) *Refusal {
	return &Refusal{Code: CodeDenied, AWS: "AccessDeniedException", Message: message}
}

func missing() *Refusal {
	return &Refusal{Code: CodeMissing, AWS: "MissingAuthenticationTokenException",
		Message: "Missing Authentication Token; send an API key as Authorization: Bearer or X-Api-Key, or sign the request with AWS Signature Version 4"}
}

func incomplete(message string) *Refusal {
	return &Refusal{Code: CodeIncomplete, AWS: "IncompleteSignatureException", Message: message}
}

func invalid(message string) *Refusal {
	return &Refusal{Code: CodeInvalid, AWS: "InvalidSignatureException", Message: message}
}

func expired(name, message string) *Refusal {
	return &Refusal{Code: CodeExpired, AWS: name, Message: message}
}
