package dialect

import (
	"net/http"
	"strconv"
)

// EndpointNotFound is the answer to a name that no endpoint has.
func EndpointNotFound(name string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: "endpoint_not_found", Message: "Endpoint " + clip(name, maxEchoed) + " not found."}
}

// VariantNotFound is the answer to a TargetVariant that its endpoint does not have.
func VariantNotFound(endpoint, variant string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: "variant_not_found",
		Message: "Variant " + clip(variant, maxEchoed) + " not found for Endpoint " + endpoint + "."}
}

// ComponentNotFound is the answer to the name of an inference component that its endpoint does not have.
func ComponentNotFound(endpoint, component string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: "inference_component_not_found",
		Message: "Inference Component " + clip(component, maxEchoed) + " not found for Endpoint " + endpoint + "."}
}

// NoComponents is the answer to the name of an inference component where the endpoint has variants with pools of their own. It begins
// as SageMaker's does.
func NoComponents(endpoint string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: "inference_component_not_found",
		Message: "Inference Component Name header is not allowed for endpoints to which you dont plan to deploy inference components. " +
			"Endpoint " + endpoint + " has none; call it without one."}
}

// ComponentRequired is the answer to a request that names no inference component where it must. It begins as SageMaker's does, by which
// clients know it.
func ComponentRequired(endpoint string, i Invocation) *Error {
	where := "X-Amzn-SageMaker-Inference-Component"
	if i == NoInvocation {
		where = "the path, /endpoints/" + endpoint + "/inference-components/COMPONENT/openai/v1"
	}
	return &Error{Status: http.StatusBadRequest, Code: "inference_component_required",
		Message: "Inference Component Name header is required for endpoints to which you plan to deploy inference components. " +
			"Endpoint " + endpoint + " has them; name one in " + where + "."}
}

// NotOnVariant is the answer to a TargetVariant that is not the one of the inference component.
func NotOnVariant(endpoint, variant, component string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: "variant_not_found",
		Message: "Variant " + clip(variant, maxEchoed) + " of Endpoint " + endpoint + " has no Inference Component " + component + "."}
}

// ModelError is the answer to an engine's answer that is not one of success. It quotes the engine as SageMaker quotes a container.
func ModelError(o Original) *Error {
	side := "server"
	if o.Status < 500 {
		side = "client"
	}
	return &Error{Status: http.StatusFailedDependency, Original: &o,
		Message: "Received " + side + " error (" + strconv.Itoa(o.Status) + ") from primary with message \"" + clip(o.Message, maxQuoted) + "\"."}
}

// The lengths, in characters, to which texts are cut.
const (
	maxMessage = 2048             // of a message (SageMaker Runtime API, type Message)
	maxQuoted  = maxMessage - 100 // of an engine's answer inside a message
	maxEchoed  = 63               // of a client's word inside a message
)

// clip is the beginning of a text.
func clip(text string, characters int) string {
	for i := range text {
		if characters == 0 {
			return text[:i]
		}
		characters--
	}
	return text
}

// Answer is {"__type", "Message"}, with what SageMaker adds to a ModelError.
func (SageMaker) Answer(e *Error) Answer {
	name, status := fault(e)
	body := struct {
		Type               string  `json:"__type"`
		Message            string  `json:"Message"`
		OriginalStatusCode *int    `json:"OriginalStatusCode,omitempty"`
		OriginalMessage    *string `json:"OriginalMessage,omitempty"`
	}{Type: name, Message: clip(e.Message, maxMessage)}
	if name == "ModelError" {
		original := e.Original
		if original == nil { // SageMaker's status where there was no answer
			original = &Original{Message: e.Message}
		}
		quoted := clip(original.Message, maxMessage)
		body.OriginalStatusCode, body.OriginalMessage = &original.Status, &quoted
	}
	return Answer{Status: status, Type: name, Body: body}
}

// fault is SageMaker's name of an error, and the status it has there. SDKs repeat a call after 429, 500 and 503, and not after a
// ModelError, of which it is not known what the model has done.
func fault(e *Error) (name string, status int) {
	switch {
	case e.Name != "" && e.Status == http.StatusUnauthorized: // a status that SageMaker does not have
		return e.Name, http.StatusForbidden
	case e.Name != "":
		return e.Name, e.Status
	case e.Original != nil, e.Code == "upstream_reset", e.Status == http.StatusGatewayTimeout:
		return "ModelError", http.StatusFailedDependency
	case e.Status == http.StatusRequestEntityTooLarge: // not in the API's description, but what it sends
		return "ValidationError", e.Status
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		return "AccessDeniedException", http.StatusForbidden
	case e.Status == http.StatusTooManyRequests:
		return "ThrottlingException", e.Status
	case e.Status == http.StatusBadGateway, e.Status == http.StatusServiceUnavailable:
		return "ServiceUnavailable", http.StatusServiceUnavailable
	case e.Status >= 500:
		return "InternalFailure", http.StatusInternalServerError
	}
	return "ValidationError", http.StatusBadRequest
}
