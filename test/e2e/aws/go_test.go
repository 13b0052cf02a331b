package aws

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// goClients are AWS's SDKs for Go.
type goClients struct {
	*rig
	runtime *sagemakerruntime.Client
	control *sagemaker.Client
}

func testGo(t *testing.T, r *rig) {
	g := goClients{r, r.open.runtime(leadID, leadSecret), r.open.controlPlane(leadID, leadSecret)}
	for _, test := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"invoke", g.testInvoke}, {"invoke-errors", g.testInvokeErrors},
		{"stream", g.testStream}, {"slow-reader", g.testSlowReader}, {"leaves", g.testLeaves}, {"stream-errors", g.testStreamErrors}, {"killed", g.testKilled},
		{"sessions", g.testSessions},
		{"components", g.testComponents}, {"component-life", g.testComponentLife},
		{"shadow", g.testShadow},
		{"control-plane", g.testControlPlane}, {"validation", g.testValidation}, {"refused-features", g.testRefusedFeatures},
		{"signatures", g.testSignatures}, {"permissions", g.testPermissions}, {"presigned", g.testPresigned}, {"skew", g.testSkew},
		{"openai", g.testOpenAI}, {"openai-errors", g.testOpenAIErrors}, {"openai-auth", g.testOpenAIAuth},
	} {
		t.Run(test.name, test.run)
	}
	r.open.becomesIdle(t, "go")
	r.closed.becomesIdle(t, "go")
}

// runtime is a client of the data listener.
func (r *router) runtime(id, secret string, options ...func(*sagemakerruntime.Options)) *sagemakerruntime.Client {
	return sagemakerruntime.New(sagemakerruntime.Options{
		BaseEndpoint: aws.String(r.Data), Region: region, HTTPClient: unhurried{}, Credentials: credentials.NewStaticCredentialsProvider(id, secret, ""),
	}, options...)
}

// controlPlane is a client of the control plane.
func (r *router) controlPlane(id, secret string, options ...func(*sagemaker.Options)) *sagemaker.Client {
	return sagemaker.New(sagemaker.Options{
		BaseEndpoint: aws.String(r.Control), Region: region, HTTPClient: unhurried{}, Credentials: credentials.NewStaticCredentialsProvider(id, secret, ""),
	}, options...)
}

// unhurried is the SDK's HTTP client, and hands bodies over in one piece. As it is, the SDK closes a request's body when the answer
// begins; net/http, which has sent it and looks whether more is to come, takes that for a failure and closes the connection under the
// answer. Nobody is so fast over a network, but containers of this process are, once in some dozens of calls.
type unhurried struct{}

var awsClient = awshttp.NewBuildableClient()

// Do sends a request.
func (unhurried) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return awsClient.Do(r)
}

// once makes a client try no call again.
func once(o *sagemakerruntime.Options) { o.RetryMaxAttempts = 1 }

// headers of the answer that an SDK's output was read from.
func headers(t *testing.T, m middleware.Metadata) http.Header {
	t.Helper()
	raw, ok := awsmiddleware.GetRawResponse(m).(*smithyhttp.Response)
	if !ok {
		t.Fatal("the SDK kept no answer")
	}
	return raw.Header
}

// invocation is a call with an order to a container.
func invocation(endpoint string, o order) *sagemakerruntime.InvokeEndpointInput {
	return &sagemakerruntime.InvokeEndpointInput{EndpointName: &endpoint, ContentType: aws.String("application/json"), Body: o.body()}
}

func (o order) body() []byte {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings and numbers
	}
	return text
}

// wantError checks the type, the status and the beginning of the text of an error that an SDK of AWS has raised.
func wantError(t *testing.T, err error, name string, status int, text string) {
	t.Helper()
	var api smithy.APIError
	var answer *smithyhttp.ResponseError
	switch {
	case !errors.As(err, &api) || !errors.As(err, &answer):
		t.Errorf("got %v, want %s", err, name)
	case api.ErrorCode() != name || answer.HTTPStatusCode() != status || !strings.HasPrefix(api.ErrorMessage(), text):
		t.Errorf("got %d %s %q, want %d %s %q…", answer.HTTPStatusCode(), api.ErrorCode(), api.ErrorMessage(), status, name, text)
	}
}
