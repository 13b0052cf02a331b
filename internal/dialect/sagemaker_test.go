package dialect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/prompt"
)

// summary is what tests compare of a route.
type summary struct {
	API, Endpoint, EnginePath, Refusal string
	Component                          string
	Invocation                         Invocation
	Shape                              prompt.Shape
	Window                             Window
	Models                             bool
	Model                              string
}

func summaryOf(r Route) summary {
	s := summary{
		API: fmt.Sprintf("%T", r.Dialect), Endpoint: r.Endpoint, Component: r.Component, EnginePath: r.EnginePath, Invocation: r.Invocation, Shape: r.Shape,
		Window: r.Window, Models: r.Models, Model: r.Model,
	}
	if r.Refusal != nil {
		s.Refusal = r.Refusal.Code
	}
	return s
}

func TestRoutes(t *testing.T) {
	const native, openAI, anthropic = "dialect.SageMaker", "dialect.endpointOpenAI", "dialect.Anthropic"
	native1 := summary{API: native, Shape: prompt.ShapeInvocation, Window: ByteWindow}
	at := func(s summary, name string, i Invocation) summary { s.Endpoint, s.Invocation = name, i; return s }
	refused := func(api, code string) summary { return summary{API: api, Endpoint: "e", Refusal: code} }
	unserved := native1
	unserved.Endpoint, unserved.Refusal = "e", "operation_not_supported"
	unknown := native1
	unknown.Endpoint, unknown.Refusal = "e", "unknown_path"
	for request, want := range map[string]summary{
		"POST /invocations":                                    native1,
		"POST /endpoints/e/invocations":                        at(native1, "e", Invoke),
		"POST /endpoints/a%20b%2fc/invocations":                at(native1, "a b/c", Invoke),
		"POST /endpoints/e/invocations-response-stream":        at(native1, "e", InvokeStream),
		"POST /endpoints/e/async-invocations":                  unserved,
		"POST /endpoints/e/invocations-bidirectional-stream":   unserved,
		"GET /endpoints/e/invocations":                         refused(native, "unknown_path"),
		"POST /endpoints/e/invocation":                         unknown,
		"POST /endpoints/e":                                    unknown,
		"POST /endpoints/e/openai/v1":                          unknown,
		"POST /endpoints/e/v1/chat/completions":                unknown,
		"POST /endpoints/":                                     {API: native, Refusal: "unknown_path"},
		"POST /endpoints//invocations":                         {API: native, Refusal: "unknown_path"},
		"POST /endpoints/%zz/invocations":                      {API: native, Refusal: "unknown_path"},
		"POST /endpoints/e/openai/v1/chat/completions":         {API: openAI, Endpoint: "e", EnginePath: "/v1/chat/completions", Shape: prompt.ShapeChat, Window: TextWindow},
		"POST /endpoints/e/openai/v1/completions":              {API: openAI, Endpoint: "e", EnginePath: "/v1/completions", Shape: prompt.ShapeCompletion, Window: TextWindow},
		"POST /endpoints/e/openai/v1/messages":                 {API: anthropic, Endpoint: "e", EnginePath: "/v1/messages", Shape: prompt.ShapeAnthropic, Window: TextWindow},
		"GET /endpoints/e/openai/v1/models":                    {API: openAI, Endpoint: "e", EnginePath: "/v1/models", Models: true},
		"GET /endpoints/e/openai/v1/models/org%2Fm":            {API: openAI, Endpoint: "e", EnginePath: "/v1/models/org%2Fm", Models: true, Model: "org/m"},
		"POST /endpoints/e/openai/v1/audio/x":                  {API: openAI, Endpoint: "e", EnginePath: "/v1/audio/x"},
		"POST /endpoints/e/inference-components/c/openai/v1/x": {API: openAI, Endpoint: "e", Component: "c", EnginePath: "/v1/x"},
		"POST /endpoints/e/inference-components/c-1/openai/v1/chat/completions": {
			API: openAI, Endpoint: "e", Component: "c-1", EnginePath: "/v1/chat/completions", Shape: prompt.ShapeChat, Window: TextWindow},
		"POST /endpoints/e/inference-components/c/openai/v1/messages": {
			API: anthropic, Endpoint: "e", Component: "c", EnginePath: "/v1/messages", Shape: prompt.ShapeAnthropic, Window: TextWindow},
		"GET /endpoints/e/inference-components/a%20b/openai/v1/models": {API: openAI, Endpoint: "e", Component: "a b", EnginePath: "/v1/models", Models: true},
		"POST /endpoints/e/inference-components/c/invocations":         refused(native, "unknown_path"),
		"POST /endpoints/e/inference-components//openai/v1/x":          refused(native, "unknown_path"),
		"POST /endpoints/e/inference-components/%zz/openai/v1/x":       refused(native, "unknown_path"),
		"POST /endpoints/e/inference-components/c":                     refused(native, "unknown_path"),
		"POST /endpoints/e/inference-components":                       unknown,
	} {
		method, path, _ := strings.Cut(request, " ")
		r, ok := Recognise(method, path)
		if diff := cmp.Diff(want, summaryOf(r)); !ok || diff != "" {
			t.Errorf("%s: recognised %t (-want +got):\n%s", request, ok, diff)
		}
	}
	for _, request := range []string{"GET /invocations", "POST /endpoints", "POST /invocations/", "POST /", "GET /metrics"} {
		method, path, _ := strings.Cut(request, " ")
		if r, ok := Recognise(method, path); ok || r.Dialect != (OpenAI{}) {
			t.Errorf("%s: recognised %t as %T", request, ok, r.Dialect)
		}
	}
}

func FuzzRecognise(f *testing.F) {
	for _, path := range []string{"/endpoints/e/invocations", "/endpoints/e/openai/v1/x", "/endpoints/%2F/inference-components/c/openai/v1/", "/v1/models/%41"} {
		f.Add(http.MethodPost, path)
		f.Add(http.MethodGet, path)
	}
	f.Fuzz(func(t *testing.T, method, path string) {
		r, ok := Recognise(method, path)
		switch {
		case r.Dialect == nil:
			t.Error("no dialect")
		case !ok:
		case r.EnginePath != "" && (!strings.HasPrefix(r.EnginePath, "/v1/") || !strings.HasSuffix(path, r.EnginePath)):
			t.Errorf("the engine's path is %q", r.EnginePath)
		case r.Endpoint != "" && !strings.HasPrefix(path, "/endpoints/"), r.Invocation != NoInvocation && r.Endpoint == "":
			t.Errorf("endpoint %q, invocation %d", r.Endpoint, r.Invocation)
		}
		if unescaped, err := url.PathUnescape(path); err == nil && r.Endpoint != "" && !strings.HasPrefix(unescaped, "/endpoints/"+r.Endpoint) {
			t.Errorf("endpoint %q", r.Endpoint)
		}
	})
}

func TestHeadersOfAnInvocation(t *testing.T) {
	long := strings.Repeat("x", 1025)
	const failed = " failed to satisfy constraint: Member must "
	for name, c := range map[string]struct {
		stream bool
		header map[string]string
		want   string // "" = nothing is wrong
	}{
		"none": {},
		"all": {header: map[string]string{
			"Content-Type": "application/json; charset=utf-8", "Accept": "*/*", "X-Amzn-SageMaker-Custom-Attributes": "trace=1\tx",
			"X-Amzn-SageMaker-Target-Model": "a/b.tar.gz", "X-Amzn-SageMaker-Target-Variant": "v-1", "X-Amzn-SageMaker-Target-Container-Hostname": "h",
			"X-Amzn-SageMaker-Inference-Id": "inf 1", "X-Amzn-SageMaker-Enable-Explanations": "`x`", "X-Amzn-SageMaker-Session-Id": "NEW_SESSION",
			"X-Amzn-SageMaker-Prefix-Aware-Id": strings.Repeat("~", 64),
		}},
		"stream":           {stream: true, header: map[string]string{"X-Amzn-SageMaker-Accept": "text/event-stream", "X-Amzn-SageMaker-Session-Id": "s-1"}},
		"hint too long":    {header: map[string]string{"X-Amzn-SageMaker-Prefix-Aware-Id": long[:65]}, want: "1 validation error detected: Value '" + long[:63] + "' at 'prefixAwareId'" + failed + "have length less than or equal to 64"},
		"hint with space":  {header: map[string]string{"X-Amzn-SageMaker-Prefix-Aware-Id": " x"}, want: "1 validation error detected: Value ' x' at 'prefixAwareId'" + failed + `satisfy regular expression pattern: \A\S[\p{Print}]*\z`},
		"hint not ASCII":   {header: map[string]string{"X-Amzn-SageMaker-Prefix-Aware-Id": "é"}, want: "1 validation error detected: Value 'é' at 'prefixAwareId'" + failed + `satisfy regular expression pattern: \A\S[\p{Print}]*\z`},
		"attributes":       {header: map[string]string{"X-Amzn-SageMaker-Custom-Attributes": long}, want: "1 validation error detected: Value '" + long[:63] + "' at 'customAttributes'" + failed + "have length less than or equal to 1024"},
		"component":        {header: map[string]string{"X-Amzn-SageMaker-Inference-Component": "c--1"}},
		"component's form": {header: map[string]string{"X-Amzn-SageMaker-Inference-Component": "c_1"}, want: "1 validation error detected: Value 'c_1' at 'inferenceComponentName'" + failed + `satisfy regular expression pattern: [a-zA-Z0-9]([\-a-zA-Z0-9]*[a-zA-Z0-9])?`},
		"variant":          {header: map[string]string{"X-Amzn-SageMaker-Target-Variant": "-v"}, want: "1 validation error detected: Value '-v' at 'targetVariant'" + failed + "satisfy regular expression pattern: [a-zA-Z0-9](-*[a-zA-Z0-9])*"},
		"inference id":     {header: map[string]string{"X-Amzn-SageMaker-Inference-Id": "a\tb"}, want: "1 validation error detected: Value 'a\tb' at 'inferenceId'" + failed + `satisfy regular expression pattern: \A\S[\p{Print}]*\z`},
		"session":          {header: map[string]string{"X-Amzn-SageMaker-Session-Id": "s_1"}, want: "1 validation error detected: Value 's_1' at 'sessionId'" + failed + "satisfy regular expression pattern: (NEW_SESSION)|[a-zA-Z0-9](-*[a-zA-Z0-9])*"},
		"streamed session": {stream: true, header: map[string]string{"X-Amzn-SageMaker-Session-Id": "NEW_SESSION"}, want: "1 validation error detected: Value 'NEW_SESSION' at 'sessionId'" + failed + "satisfy regular expression pattern: [a-zA-Z0-9](-*[a-zA-Z0-9])*"},
		"two": {header: map[string]string{"X-Amzn-SageMaker-Target-Variant": "v_", "X-Amzn-SageMaker-Target-Container-Hostname": "h-"},
			want: "2 validation errors detected: Value 'v_' at 'targetVariant'" + failed + "satisfy regular expression pattern: [a-zA-Z0-9](-*[a-zA-Z0-9])*; Value 'h-' at 'targetContainerHostname'" + failed + "satisfy regular expression pattern: [a-zA-Z0-9](-*[a-zA-Z0-9])*"},
	} {
		h := http.Header{}
		for name, value := range c.header {
			h.Set(name, value)
		}
		route := Route{Endpoint: "e", Invocation: Invoke}
		if c.stream {
			route.Invocation = InvokeStream
		}
		switch err := route.Check(h); {
		case err == nil && c.want != "":
			t.Errorf("%s: allowed", name)
		case err != nil && (err.Message != c.want || err.Code != "invalid_header" || err.Status != http.StatusBadRequest):
			t.Errorf("%s: got  %q\nwant %q", name, err.Message, c.want)
		}
		if err := (Route{}).Check(h); err != nil {
			t.Errorf("%s: another API refuses it: %v", name, err)
		}
	}
	component := http.Header{HeaderInferenceComponent: {"c"}}
	for _, route := range []Route{{Endpoint: "e"}, {Endpoint: "e", Component: "c"}} {
		if err := route.Check(component); err == nil || err.Code != "invalid_header" {
			t.Errorf("an inference component in a header of the OpenAI route: got %v", err)
		}
	}
}

// written is what a client gets of an error.
type written struct {
	Status     int
	Type       string
	RetryAfter string
	Body       map[string]any
}

func write(t *testing.T, d Dialect, e *Error) written {
	t.Helper()
	w := httptest.NewRecorder()
	if status := (Route{Dialect: d}).WriteError(w, e); status != w.Code {
		t.Errorf("told of %d, answered %d", status, w.Code)
	}
	out := written{Status: w.Code, Type: w.Header().Get("X-Amzn-ErrorType"), RetryAfter: w.Header().Get("Retry-After")}
	if err := json.Unmarshal(w.Body.Bytes(), &out.Body); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return out
}

// TestEveryErrorOfTheRuntime: each failure has the name, the status and the members that SDKs know.
func TestEveryErrorOfTheRuntime(t *testing.T) {
	named := func(status int, name, message string) written {
		return written{Status: status, Type: name, Body: map[string]any{"__type": name, "Message": message}}
	}
	model := func(status int, message, original string) written {
		w := named(424, "ModelError", message)
		w.Body["OriginalStatusCode"], w.Body["OriginalMessage"] = float64(status), original
		return w
	}
	for name, c := range map[string]struct {
		err  *Error
		want written
	}{
		"unknown endpoint":   {EndpointNotFound("e"), named(400, "ValidationError", "Endpoint e not found.")},
		"unknown variant":    {VariantNotFound("e", "v"), named(400, "ValidationError", "Variant v not found for Endpoint e.")},
		"unknown operation":  {errOperation, named(404, "UnknownOperationException", errOperation.Message)},
		"asynchronous":       {errAsync, named(400, "ValidationError", errAsync.Message)},
		"component":          {ComponentNotFound("e", "c"), named(400, "ValidationError", "Inference Component c not found for Endpoint e.")},
		"no components":      {NoComponents("e"), named(400, "ValidationError", NoComponents("e").Message)},
		"no component named": {ComponentRequired("e", Invoke), named(400, "ValidationError", ComponentRequired("e", Invoke).Message)},
		"another's variant":  {NotOnVariant("e", "v", "c"), named(400, "ValidationError", "Variant v of Endpoint e has no Inference Component c.")},
		"unknown model":      {&Error{Status: 404, Message: "m"}, named(400, "ValidationError", "m")},
		"bad coding":         {&Error{Status: 415, Message: "m"}, named(400, "ValidationError", "m")},
		"slow body":          {&Error{Status: 408, Message: "m"}, named(400, "ValidationError", "m")},
		"too large":          {&Error{Status: 413, Message: "m"}, named(413, "ValidationError", "m")},
		"no credentials":     {&Error{Status: 401, Message: "m"}, named(403, "AccessDeniedException", "m")},
		"not allowed":        {&Error{Status: 403, Message: "m"}, named(403, "AccessDeniedException", "m")},
		"named":              {&Error{Status: 403, Name: "InvalidSignatureException", Message: "m"}, named(403, "InvalidSignatureException", "m")},
		"too many":           {&Error{Status: 429, Message: "m"}, named(429, "ThrottlingException", "m")},
		"internal":           {&Error{Status: 500, Message: "m"}, named(500, "InternalFailure", "m")},
		"unreachable":        {&Error{Status: 502, Code: "upstream_unreachable", Message: "m"}, named(503, "ServiceUnavailable", "m")},
		"lost":               {&Error{Status: 502, Code: "upstream_lost", Message: "m"}, named(503, "ServiceUnavailable", "m")},
		"nobody":             {&Error{Status: 503, Code: "no_replica", Message: "m"}, named(503, "ServiceUnavailable", "m")},
		"reset":              {&Error{Status: 502, Code: "upstream_reset", Message: "m"}, model(0, "m", "m")},
		"silent":             {&Error{Status: 504, Message: "m"}, model(0, "m", "m")},
		"engine's 400":       {ModelError(Original{400, `{"a":"b"}`}), model(400, `Received client error (400) from primary with message "{"a":"b"}".`, `{"a":"b"}`)},
		"engine's 500":       {ModelError(Original{500, "x"}), model(500, `Received server error (500) from primary with message "x".`, "x")},
		"engine's long one":  {ModelError(Original{500, strings.Repeat("é", 5000)}), model(500, `Received server error (500) from primary with message "`+strings.Repeat("é", 1948)+`".`, strings.Repeat("é", 2048))},
		"engine's odd bytes": {ModelError(Original{500, "\xff"}), model(500, "Received server error (500) from primary with message \"\ufffd\".", "\ufffd")},
	} {
		got := write(t, SageMaker{}, c.err)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if message, _ := got.Body["Message"].(string); utf8.RuneCountInString(message) > maxMessage {
			t.Errorf("%s: the message is longer than the API allows", name)
		}
	}
	long := EndpointNotFound(strings.Repeat("n", 1000))
	if len(long.Message) > 100 {
		t.Errorf("a long name is echoed: %s", long.Message)
	}
}

func TestErrorsOfTheOpenAIRoute(t *testing.T) {
	answer := func(status int, kind, code, message string) written {
		return written{Status: status, Body: map[string]any{"error": map[string]any{"message": message, "type": kind, "param": nil, "code": code}}}
	}
	for name, c := range map[string]struct {
		err  *Error
		want written
	}{
		"unknown endpoint": {EndpointNotFound("e"), answer(400, "invalid_request_error", "validation_error", "Endpoint e not found.")},
		"unknown variant":  {VariantNotFound("e", "v"), answer(400, "invalid_request_error", "validation_error", "Variant v not found for Endpoint e.")},
		"component":        {ComponentNotFound("e", "c"), answer(400, "invalid_request_error", "validation_error", "Inference Component c not found for Endpoint e.")},
		"none named":       {ComponentRequired("e", NoInvocation), answer(400, "invalid_request_error", "validation_error", ComponentRequired("e", NoInvocation).Message)},
		"header":           {errComponentHeader, answer(400, "invalid_request_error", "validation_error", errComponentHeader.Message)},
		"not JSON":         {&Error{Status: 400, Code: "invalid_json", Message: "m"}, answer(400, "invalid_request_error", "invalid_json", "m")},
		"nobody":           {&Error{Status: 503, Code: "no_replica", Message: "m", RetryAfter: 1}, answer(503, "server_error", "no_replica", "m")},
	} {
		if c.err.RetryAfter > 0 {
			c.want.RetryAfter = "1"
		}
		if diff := cmp.Diff(c.want, write(t, endpointOpenAI{}, c.err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
