package aws

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime/types"
)

func (g goClients) testInvoke(t *testing.T) {
	out, err := g.runtime.InvokeEndpoint(t.Context(), &sagemakerruntime.InvokeEndpointInput{
		EndpointName: aws.String("go"), ContentType: aws.String("text/x-prompt"), Accept: aws.String("application/json"), Body: []byte("What is warm?"),
		CustomAttributes: aws.String("trace=7; c000b4f9"), InferenceId: aws.String("go-invoke"), PrefixAwareId: aws.String("tenant-7 / doc 12"),
		TargetModel: aws.String("adapter.tar.gz"), EnableExplanations: aws.String("`false`"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var got echo
	if err := json.Unmarshal(out.Body, &got); err != nil {
		t.Fatalf("%v in %s", err, out.Body)
	}
	if got.Container != "go-a" || got.Path != "/invocations" || got.Body != "What is warm?" {
		t.Errorf("the engine got %+v", got)
	}
	for name, want := range map[string]string{
		"content-type": "text/x-prompt", "accept": "application/json",
		"x-amzn-sagemaker-custom-attributes": "trace=7; c000b4f9", "x-amzn-sagemaker-inference-id": "go-invoke",
		"x-amzn-sagemaker-prefix-aware-id": "tenant-7 / doc 12", "x-amzn-sagemaker-target-model": "adapter.tar.gz",
		"x-amzn-sagemaker-enable-explanations": "`false`", "authorization": "", "x-amz-date": "", "user-agent": "",
	} {
		if got.Headers[name] != want {
			t.Errorf("the engine got %s: %q, want %q", name, got.Headers[name], want)
		}
	}
	if aws.ToString(out.ContentType) != "application/json" || aws.ToString(out.InvokedProductionVariant) != "a" || aws.ToString(out.CustomAttributes) != "answered-by=go-a" {
		t.Errorf("got content type %q, variant %q, attributes %q", aws.ToString(out.ContentType), aws.ToString(out.InvokedProductionVariant), aws.ToString(out.CustomAttributes))
	}
	id, known := awsmiddleware.GetRequestIDMetadata(out.ResultMetadata)
	if h := headers(t, out.ResultMetadata); !known || id == "" || h.Get("X-Warmpath-Replica") == "" || h.Get("X-Warmpath-Decision") == "" {
		t.Errorf("got request id %q and headers %v", id, h)
	}
	if how := g.ledger.await(t.Context(), "go-invoke"); how != "whole" {
		t.Errorf("the engine saw it end %s", how)
	}

	in := invocation("go", order{})
	in.TargetVariant = aws.String("b")
	if out, err = g.runtime.InvokeEndpoint(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if aws.ToString(out.InvokedProductionVariant) != "b" || !strings.Contains(string(out.Body), `"container":"go-b"`) {
		t.Errorf("variant b was asked for; %q answered: %s", aws.ToString(out.InvokedProductionVariant), out.Body)
	}
}

func (g goClients) testInvokeErrors(t *testing.T) {
	const notFound = "Endpoint missing not found."
	for _, test := range []struct {
		name   string
		change func(*sagemakerruntime.InvokeEndpointInput)
		want   string
		status int
		text   string
	}{
		{"unknown endpoint", func(in *sagemakerruntime.InvokeEndpointInput) { in.EndpointName = aws.String("missing") }, "ValidationError", 400, notFound},
		{"unknown variant", func(in *sagemakerruntime.InvokeEndpointInput) { in.TargetVariant = aws.String("c") }, "ValidationError", 400, ""},
		{"prefix id too long", func(in *sagemakerruntime.InvokeEndpointInput) { in.PrefixAwareId = aws.String(strings.Repeat("x", 65)) }, "ValidationError", 400,
			"1 validation error detected: Value '" + strings.Repeat("x", 63) + "' at 'prefixAwareId' failed to satisfy constraint: Member must have length less than or equal to 64"},
		{"prefix id of no print", func(in *sagemakerruntime.InvokeEndpointInput) { in.PrefixAwareId = aws.String("a\tb") }, "ValidationError", 400,
			"1 validation error detected: Value 'a\tb' at 'prefixAwareId' failed to satisfy constraint: Member must satisfy regular expression pattern"},
		{"inference id too long", func(in *sagemakerruntime.InvokeEndpointInput) { in.InferenceId = aws.String(strings.Repeat("x", 65)) }, "ValidationError", 400, "1 validation error"},
		{"body too large", func(in *sagemakerruntime.InvokeEndpointInput) { in.Body = make([]byte, 2*maxBody) }, "ValidationError", 413, ""},
		{"no replica", func(in *sagemakerruntime.InvokeEndpointInput) { in.EndpointName = aws.String("empty") }, "ServiceUnavailable", 503, ""},
		{"replica that is down", func(in *sagemakerruntime.InvokeEndpointInput) { in.EndpointName = aws.String("down") }, "ServiceUnavailable", 503, ""},
	} {
		in := invocation("go", order{})
		test.change(in)
		_, err := g.runtime.InvokeEndpoint(t.Context(), in, once)
		t.Run(test.name, func(t *testing.T) { wantError(t, err, test.want, test.status, test.text) })
	}

	_, err := g.runtime.InvokeEndpoint(t.Context(), invocation("go", order{Mode: "status", Status: http.StatusInternalServerError, Text: "out of cheese"}))
	var model *types.ModelError
	if !errors.As(err, &model) || aws.ToInt32(model.OriginalStatusCode) != 500 || aws.ToString(model.OriginalMessage) != "out of cheese" {
		t.Errorf("the engine answered 500; got %v", err)
	}
	wantError(t, err, "ModelError", http.StatusFailedDependency, "Received server error (500) from ")
	_, err = g.runtime.InvokeEndpoint(t.Context(), invocation("go-hasty", order{Mode: "mute"}))
	if !errors.As(err, &model) || aws.ToInt32(model.OriginalStatusCode) != 0 {
		t.Errorf("the engine said nothing in time; got %v", err)
	}
	wantError(t, err, "ModelError", http.StatusFailedDependency, "")
	_, err = g.runtime.InvokeEndpointAsync(t.Context(), &sagemakerruntime.InvokeEndpointAsyncInput{EndpointName: aws.String("go"), InputLocation: aws.String("s3://bucket/key")})
	wantError(t, err, "ValidationError", http.StatusBadRequest, "")
	if err == nil || !strings.Contains(err.Error(), "asynchronous invocations are not supported") {
		t.Errorf("asynchronous: got %v", err)
	}
}
