package controlplane

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/warmpath/warmpath/internal/auth"
)

// signed is a call that the AWS SDK has signed at a moment.
func (p *plane) signed(t testing.TB, id, body string, at time.Time) *http.Request {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:8082/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", "SageMaker.ListEndpoints")
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	digest, key := sha256.Sum256([]byte(body)), aws.Credentials{AccessKeyID: id, SecretAccessKey: "secret"}
	if err := v4.NewSigner().SignHTTP(t.Context(), key, r, hex.EncodeToString(digest[:]), "sagemaker", "eu-central-1", at); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCallers(t *testing.T) {
	p := newPlane(t)
	p.auth = auth.New(auth.Options{
		Keys: []auth.Key{{Caller: auth.Caller{Name: "app"}, Secret: "sk-app"}},
		AccessKeys: []auth.AccessKey{
			{Caller: auth.Caller{Name: "pipeline", ControlPlane: true}, ID: "AKIDPIPELINE", Secret: "secret"},
			{Caller: auth.Caller{Name: "reader"}, ID: "AKIDREADER", Secret: "secret"},
		},
		ClockSkew: 15 * time.Minute, Now: func() time.Time { return p.now },
	})
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	tests := []struct {
		name       string
		id         string
		age        time.Duration
		change     func(r *http.Request)
		code, text string
	}{
		{name: "allowed", id: "AKIDPIPELINE"},
		{name: "not allowed", id: "AKIDREADER", code: "AccessDeniedException", text: "User: reader is not authorized to perform: sagemaker:ListEndpoints because"},
		{name: "unknown access key", id: "AKIDOTHER", code: "UnrecognizedClientException", text: "The security token included in the request is invalid."},
		{name: "not signed", id: "AKIDPIPELINE", change: func(r *http.Request) { r.Header.Del("Authorization") }, code: "MissingAuthenticationTokenException", text: "Missing Authentication Token"},
		{name: "API key", id: "AKIDPIPELINE", change: header("Authorization", "Bearer sk-app"), code: "AccessDeniedException", text: "User: app is not authorized"},
		{name: "other operation", id: "AKIDPIPELINE", change: header("X-Amz-Target", "SageMaker.DeleteEndpoint"), code: "InvalidSignatureException", text: "The request signature we calculated"},
		{name: "other body", id: "AKIDPIPELINE", change: func(r *http.Request) { r.Body = http.NoBody }, code: "InvalidSignatureException", text: "The request signature we calculated"},
		{name: "an hour old", id: "AKIDPIPELINE", age: time.Hour, code: "InvalidSignatureException", text: "Signature expired"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := p.signed(t, test.id, "{}", p.now.Add(-test.age))
			if test.change != nil {
				test.change(r)
			}
			a := p.send(t, r)
			code, _ := a.body["__type"].(string)
			if code != test.code || !strings.HasPrefix(a.message(), test.text) || (code != "") != (a.code == http.StatusBadRequest) {
				t.Errorf("got %d %v, want %s: %s", a.code, a.body, test.code, test.text)
			}
		})
	}
}
