package auth

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"pgregory.net/rapid"
)

// sent is what a client of the AWS SDK puts on the wire, as a server reads it.
type sent struct {
	r    *http.Request
	body []byte
}

var example = aws.Credentials{AccessKeyID: exampleID, SecretAccessKey: exampleSecret}

// drawRequest gives any request that an SDK might sign. The order of the SDK's parameters is that of their decoded names, so names
// that are encoded stay out.
func drawRequest(t *rapid.T) sent {
	body := rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(t, "body")
	segment := rapid.StringMatching(`[a-zA-Z0-9 /%ü~_.-]{1,12}`).Draw(t, "segment")
	query := url.Values{}
	for range rapid.IntRange(0, 3).Draw(t, "parameters") {
		query.Add(rapid.StringMatching(`[a-zA-Z0-9-]{1,4}`).Draw(t, "name"), rapid.StringMatching(`[ -~ü]{0,8}`).Draw(t, "value"))
	}
	target := &url.URL{Scheme: "http", Host: "127.0.0.1:8080", Path: "/endpoints/" + segment + "/invocations", RawPath: "/endpoints/" + url.PathEscape(segment) + "/invocations", RawQuery: query.Encode()}
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for range rapid.IntRange(0, 3).Draw(t, "headers") {
		name := "X-Amzn-Sagemaker-" + rapid.StringMatching(`[A-Z][a-z]{1,5}`).Draw(t, "header")
		r.Header.Add(name, rapid.StringMatching(`[!-~]([ -~]{0,8}[!-~])?`).Draw(t, "value"))
	}
	return sent{r, body}
}

// arrive sends a request over the wire's text.
func (s sent) arrive(t *rapid.T) *http.Request {
	var wire bytes.Buffer
	s.r.Body = io.NopCloser(bytes.NewReader(s.body))
	if err := s.r.Write(&wire); err != nil {
		t.Fatal(err)
	}
	return readWire(t, wire.Bytes())
}

func TestAgreesWithTheSDK(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawRequest(t)
		err := v4.NewSigner().SignHTTP(t.Context(), example, s.r, hashed(s.body), service, "eu-west-1", noon)
		if err != nil {
			t.Fatal(err)
		}
		s.accepted(t)
	})
}

func TestAgreesWithTheSDKsPresignedRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawRequest(t)
		query := s.r.URL.Query()
		query.Set("X-Amz-Expires", strconv.Itoa(rapid.IntRange(1, 604800).Draw(t, "expires")))
		s.r.URL.RawQuery = query.Encode()
		signed, _, err := v4.NewSigner().PresignHTTP(t.Context(), example, s.r, hashed(s.body), service, "eu-west-1", noon)
		if err != nil {
			t.Fatal(err)
		}
		if s.r.URL, err = url.Parse(signed); err != nil {
			t.Fatal(err)
		}
		s.accepted(t)
	})
}

// accepted wants a request to be known as it is, and refused after each change that somebody on the way could make.
func (s sent) accepted(t *rapid.T) {
	caller, refusal := authenticator(noon).judge(s.arrive(t), s.body)
	if refusal != nil || caller.Name != "ci" {
		t.Fatalf("%s: %v", s.r.URL, refusal)
	}
	for name, change := range map[string]func(r *http.Request){
		"method":       func(r *http.Request) { r.Method = http.MethodPut },
		"path":         func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/endpoints/other/invocations", "" },
		"host":         func(r *http.Request) { r.Host = "127.0.0.1:8081" },
		"query":        func(r *http.Request) { r.URL.RawQuery += "&more=1" },
		"added header": func(r *http.Request) { r.Header.Set("X-Amzn-Sagemaker-Target-Variant", "other") },
		"content type": func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
	} {
		r := s.arrive(t)
		change(r)
		if _, refusal := authenticator(noon).judge(r, s.body); refusal == nil {
			t.Errorf("%s: a changed %s is let in", s.r.URL, name)
		}
	}
	if _, refusal := authenticator(noon).judge(s.arrive(t), append(s.body, ' ')); refusal == nil {
		t.Errorf("%s: a changed body is let in", s.r.URL)
	}
	if _, refusal := authenticator(noon.Add(8*24*time.Hour)).judge(s.arrive(t), s.body); refusal == nil {
		t.Errorf("%s: a replay after eight days is let in", s.r.URL)
	}
}
