package dialect

import (
	"fmt"
	"net/http"
	"strings"
)

// The headers of the runtime API that routing reads, in the form of Go's header maps.
const (
	HeaderTargetVariant      = "X-Amzn-Sagemaker-Target-Variant"
	HeaderInferenceComponent = "X-Amzn-Sagemaker-Inference-Component"
	// HeaderPrefixAwareID is the routing hint id, which any API may send.
	HeaderPrefixAwareID = "X-Amzn-Sagemaker-Prefix-Aware-Id"
	// HeaderAccept is what a streamed invocation sends instead of Accept.
	HeaderAccept = "X-Amzn-Sagemaker-Accept"
	// HeaderContentType is what a streamed answer has instead of Content-Type.
	HeaderContentType = "X-Amzn-Sagemaker-Content-Type"
	// HeaderPrefix begins the headers that clients and containers exchange through the runtime API.
	HeaderPrefix = "X-Amzn-Sagemaker-"
)

// constraint limits the value of a header, which is absent or has 1 byte at least.
type constraint struct {
	header, member string
	most           int               // bytes
	pattern        string            // as the API describes it
	ok             func(string) bool // what the pattern says
}

const (
	namePattern      = "[a-zA-Z0-9](-*[a-zA-Z0-9])*"
	componentPattern = `[a-zA-Z0-9]([\-a-zA-Z0-9]*[a-zA-Z0-9])?`
	printablePattern = `\A\S[\p{Print}]*\z`
)

// constraints are those of the runtime API (SageMaker Runtime API, InvokeEndpoint and InvokeEndpointWithResponseStream).
var constraints = [...]constraint{
	{"Content-Type", "contentType", 1024, `\p{ASCII}*`, isASCII},
	{"Accept", "accept", 1024, `\p{ASCII}*`, isASCII},
	{HeaderAccept, "accept", 1024, `\p{ASCII}*`, isASCII},
	{HeaderPrefix + "Custom-Attributes", "customAttributes", 1024, `\p{ASCII}*`, isASCII},
	{HeaderPrefix + "Target-Model", "targetModel", 1024, printablePattern, isPrintable},
	{HeaderTargetVariant, "targetVariant", 63, namePattern, isName},
	{HeaderPrefix + "Target-Container-Hostname", "targetContainerHostname", 63, namePattern, isName},
	{HeaderPrefix + "Inference-Id", "inferenceId", 64, printablePattern, isPrintable},
	{HeaderPrefix + "Enable-Explanations", "enableExplanations", 64, ".*", isASCII},
	{HeaderInferenceComponent, "inferenceComponentName", 63, componentPattern, isName},
	{HeaderPrefixAwareID, "prefixAwareId", 64, printablePattern, isPrintable},
	{HeaderSession, "sessionId", 256, "(NEW_SESSION)|" + namePattern, isSession},
}

// streamSession is the constraint of a streamed invocation, which cannot begin a session.
var streamSession = constraint{HeaderSession, "sessionId", 256, namePattern, isName}

// Check finds what SageMaker would refuse of a request's headers; nil = nothing, or another API.
func (r Route) Check(h http.Header) *Error {
	if r.Invocation == NoInvocation {
		if r.Endpoint != "" && h.Get(HeaderInferenceComponent) != "" { // SageMaker refuses it there, whatever its value
			return errComponentHeader
		}
		return nil
	}
	var found []string
	for _, c := range constraints {
		if c.header == HeaderSession && r.Invocation == InvokeStream {
			c = streamSession
		}
		found = c.appendViolations(found, h.Get(c.header))
	}
	if len(found) == 0 {
		return nil
	}
	count := "1 validation error"
	if len(found) > 1 {
		count = fmt.Sprint(len(found), " validation errors")
	}
	return &Error{Status: http.StatusBadRequest, Code: "invalid_header", Message: count + " detected: " + strings.Join(found, "; ")}
}

// appendViolations adds what is wrong with a value, worded as all of AWS's APIs word it.
func (c *constraint) appendViolations(found []string, value string) []string {
	if value == "" {
		return found
	}
	if len(value) > c.most {
		found = append(found, c.violation(value, fmt.Sprintf("Member must have length less than or equal to %d", c.most)))
	}
	if !c.ok(value) {
		found = append(found, c.violation(value, "Member must satisfy regular expression pattern: "+c.pattern))
	}
	return found
}

func (c *constraint) violation(value, must string) string {
	return "Value '" + clip(value, maxEchoed) + "' at '" + c.member + "' failed to satisfy constraint: " + must
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return c > '~' || c < ' ' && c != '\t' }) < 0
}

func isPrintable(s string) bool {
	return s[0] != ' ' && strings.IndexFunc(s, func(c rune) bool { return c < ' ' || c > '~' }) < 0
}

// isName says whether s has letters, digits and inner hyphens only.
func isName(s string) bool {
	return s[0] != '-' && s[len(s)-1] != '-' && strings.IndexFunc(s, func(c rune) bool {
		return c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	}) < 0
}

func isSession(s string) bool { return s == NewSession || isName(s) }
