package dialect

import "net/http"

// SageMaker is the container side of Amazon SageMaker's contract: POST /invocations with a body of any kind, whose prefix
// window is its first bytes as they are.
type SageMaker struct{}

// Name is "sagemaker".
func (SageMaker) Name() string { return "sagemaker" }

// Route recognises POST /invocations.
func (SageMaker) Route(method, path string) (Route, bool) {
	return Route{Window: ByteWindow}, method == http.MethodPost && path == "/invocations"
}

// ErrorBody is {"ErrorCode", "Message"}, the members of SageMaker's runtime errors.
func (SageMaker) ErrorBody(e *Error) any {
	return struct {
		ErrorCode string `json:"ErrorCode"`
		Message   string `json:"Message"`
	}{e.Code, e.Message}
}
