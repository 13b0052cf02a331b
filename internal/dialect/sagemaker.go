package dialect

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/warmpath/warmpath/internal/prompt"
)

// SageMaker is Amazon SageMaker's runtime API, as its SDKs call it (/endpoints/{name}/...), and the path that it asks of containers
// (/invocations). Bodies are of any kind, and their prefix window is their first bytes as they are.
type SageMaker struct{}

// Invocation is an operation of SageMaker's runtime API.
type Invocation uint8

// The operations that are served.
const (
	NoInvocation Invocation = iota // some other API
	Invoke                         // InvokeEndpoint
	InvokeStream                   // InvokeEndpointWithResponseStream, whose answer comes in frames
)

// Name is "sagemaker".
func (SageMaker) Name() string { return "sagemaker" }

// Route recognises POST /invocations and everything under /endpoints.
func (SageMaker) Route(method, path string) (Route, bool) {
	if path == "/invocations" {
		return Route{Shape: prompt.ShapeInvocation, Window: ByteWindow}, method == http.MethodPost
	}
	rest, ok := strings.CutPrefix(path, "/endpoints/")
	if !ok {
		return Route{}, false
	}
	segment, operation, _ := strings.Cut(rest, "/")
	name, err := url.PathUnescape(segment)
	if err != nil || name == "" {
		return Route{Refusal: errOperation}, true
	}
	r := endpointRoute(method, operation)
	r.Endpoint = name
	return r, true
}

// The operations that are known and not served.
var (
	errOperation = &Error{Status: http.StatusNotFound, Code: "unknown_path", Name: "UnknownOperationException",
		Message: "there is no such operation; those of an endpoint are POST invocations and POST invocations-response-stream, which take an inference component " +
			"in a header, and OpenAI's below openai/v1 or inference-components/COMPONENT/openai/v1"}
	errAsync = &Error{Status: http.StatusBadRequest, Code: "operation_not_supported",
		Message: "asynchronous invocations are not supported: there is no store for their answers; call InvokeEndpoint or InvokeEndpointWithResponseStream"}
	errBidirectional = &Error{Status: http.StatusBadRequest, Code: "operation_not_supported",
		Message: "bidirectional streams are not supported; call InvokeEndpointWithResponseStream"}
	errComponentHeader = &Error{Status: http.StatusBadRequest, Code: "invalid_header",
		Message: HeaderInferenceComponent + " is not taken on this path; name the inference component in it: /endpoints/NAME/inference-components/COMPONENT/openai/v1"}
)

// endpointRoute finds the route of what stands behind an endpoint's name.
func endpointRoute(method, operation string) Route {
	if strings.HasPrefix(operation, "openai/v1/") {
		return openAIRoute(method, strings.TrimPrefix(operation, "openai"))
	}
	if named, ok := strings.CutPrefix(operation, "inference-components/"); ok {
		return componentRoute(method, named)
	}
	if method != http.MethodPost {
		return Route{Refusal: errOperation}
	}
	r := Route{Shape: prompt.ShapeInvocation, Window: ByteWindow}
	switch operation {
	case "invocations":
		r.Invocation = Invoke
	case "invocations-response-stream":
		r.Invocation = InvokeStream
	case "async-invocations":
		r.Refusal = errAsync
	case "invocations-bidirectional-stream":
		r.Refusal = errBidirectional
	default:
		r.Refusal = errOperation
	}
	return r
}

// componentRoute finds the route of what stands behind an inference component's name: OpenAI's APIs.
func componentRoute(method, operation string) Route {
	segment, path, _ := strings.Cut(operation, "/")
	name, err := url.PathUnescape(segment)
	if err != nil || name == "" || !strings.HasPrefix(path, "openai/v1/") {
		return Route{Refusal: errOperation}
	}
	r := openAIRoute(method, strings.TrimPrefix(path, "openai"))
	r.Component = name
	return r
}

// openAIRoute finds the route of a path under /v1 that follows an endpoint's name. SageMaker has OpenAI's chat completions there; here
// it is all that engines have.
func openAIRoute(method, path string) Route {
	for _, d := range [...]Dialect{Anthropic{}, OpenAI{}} {
		r, ok := d.Route(method, path)
		if !ok {
			continue
		}
		r.Dialect, r.EnginePath = d, path
		if d == (OpenAI{}) {
			r.Dialect = endpointOpenAI{}
		}
		return r
	}
	return Route{Refusal: errOperation}
}

// endpointOpenAI is OpenAI's API behind an endpoint's name. SageMaker's front end words there what is wrong with the address.
type endpointOpenAI struct{ OpenAI }

// Answer is that of OpenAI, with SageMaker's code where the fault is found before the model.
func (d endpointOpenAI) Answer(e *Error) Answer {
	switch e.Code {
	case "endpoint_not_found", "variant_not_found", "inference_component_not_found", "inference_component_required", "invalid_header",
		"session_not_found", "session_gone", "session_mismatch":
		return openAIAnswer(http.StatusBadRequest, "validation_error", e.Message)
	}
	return d.OpenAI.Answer(e)
}
