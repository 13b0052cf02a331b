package auth

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The example pair of AWS's documentation, with which its test suite is signed.
const (
	exampleID     = "AKIDEXAMPLE"
	exampleSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
)

// noon is when botocore made the signatures of these tests.
var noon = time.Date(2026, 11, 30, 2, 1, 38, 0, time.UTC)

func authenticator(now time.Time) *Authenticator {
	return New(Options{
		Keys: []Key{
			{Caller{Name: "team-a", Endpoints: []string{"chat"}}, "sk-a"},
			{Caller{Name: "team-b"}, "sk-b"},
			{Caller{Name: "nobody"}, ""},
		},
		AccessKeys: []AccessKey{{Caller{Name: "ci", ControlPlane: true}, exampleID, exampleSecret}},
		ClockSkew:  15 * time.Minute,
		Now:        func() time.Time { return now },
	})
}

// judge takes a request through both steps.
func (a *Authenticator) judge(r *http.Request, body []byte) (*Caller, *Refusal) {
	claim, refusal := a.Begin(r)
	if refusal != nil {
		return nil, refusal
	}
	return claim.Prove(body)
}

func post(headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://warmpath.internal:8080/endpoints/chat/invocations", nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func TestC082_APIKeys(t *testing.T) {
	for _, tc := range []struct {
		name    string
		headers []string
		want    string // caller or code
	}{
		{"bearer", []string{"Authorization", "Bearer sk-a"}, "team-a"},
		{"scheme in lower case", []string{"Authorization", "bearer   sk-b "}, "team-b"},
		{"X-Api-Key", []string{"X-Api-Key", "sk-b"}, "team-b"},
		{"Authorization wins", []string{"Authorization", "Bearer sk-a", "X-Api-Key", "sk-b"}, "team-a"},
		{"a good X-Api-Key does not heal a bad Authorization", []string{"Authorization", "Bearer x", "X-Api-Key", "sk-b"}, CodeUnknown},
		{"scheme in upper case", []string{"Authorization", "BEARER sk-b"}, "team-b"},
		{"no space", []string{"Authorization", "Bearersk-a"}, CodeMissing},
		{"other case", []string{"Authorization", "Bearer SK-A"}, CodeUnknown},
		{"more", []string{"Authorization", "Bearer sk-a " + "a"}, CodeUnknown},
		{"long", []string{"Authorization", "Bearer " + strings.Repeat("sk-a", 1<<18)}, CodeUnknown},
		{"not ASCII", []string{"Authorization", "Bearer sk-ä"}, CodeUnknown},
		{"nothing but the scheme", []string{"Authorization", "Bearer"}, CodeUnknown},
		{"empty header", []string{"Authorization", ""}, CodeMissing},
		{"empty X-Api-Key", []string{"X-Api-Key", ""}, CodeUnknown},
		{"unknown", []string{"Authorization", "Bearer sk-c"}, CodeUnknown},
		{"a beginning", []string{"Authorization", "Bearer sk-"}, CodeUnknown},
		{"empty", []string{"Authorization", "Bearer "}, CodeUnknown},
		{"two keys", []string{"X-Api-Key", "sk-a", "X-Api-Key", "sk-b"}, CodeMissing},
		{"two headers", []string{"Authorization", "Bearer sk-a", "Authorization", "Bearer sk-b"}, CodeIncomplete},
		{"basic", []string{"Authorization", "Basic c2stYTo="}, CodeMissing},
		{"the access key's secret", []string{"Authorization", "Bearer " + exampleSecret}, CodeUnknown},
		{"none", nil, CodeMissing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			caller, refusal := authenticator(noon).judge(post(tc.headers...), nil)
			if got := outcome(caller, refusal); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func outcome(c *Caller, r *Refusal) string {
	if r != nil {
		return r.Code
	}
	return c.Name
}

func TestMay(t *testing.T) {
	limited := &Caller{Endpoints: []string{"chat"}}
	for _, tc := range []struct {
		name     string
		caller   *Caller
		endpoint string
		want     bool
	}{
		{"named", limited, "chat", true},
		{"other", limited, "code", false},
		{"no list", &Caller{}, "code", true},
		{"nobody is asked", nil, "code", true},
	} {
		if got := tc.caller.May(tc.endpoint); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestNobodyIsAsked(t *testing.T) {
	var off *Authenticator
	caller, refusal := off.judge(post("Authorization", "Bearer anything"), nil)
	if caller != nil || refusal != nil || !caller.May("chat") || !caller.MayControl() {
		t.Errorf("got %v, %v, want anybody", caller, refusal)
	}
	r := post("Authorization", "Bearer anything")
	off.Strip(r)
	if r.Header.Get("Authorization") == "" {
		t.Error("credentials that are not for Warmpath do not reach the engine")
	}
}

func TestMayControl(t *testing.T) {
	for want, caller := range map[bool]*Caller{true: {ControlPlane: true}, false: {Name: "x"}} {
		if got := caller.MayControl(); got != want {
			t.Errorf("%+v: got %v, want %v", caller, got, want)
		}
	}
}

func TestStrip(t *testing.T) {
	r := post("Authorization", "x", "X-Api-Key", "x", "X-Amz-Date", "x", "X-Amz-Content-Sha256", "x", "X-Amz-Security-Token", "x",
		"X-Amzn-Sagemaker-Session-Id", "kept", "Date", "kept")
	r.URL.RawQuery = "model=a%20b&X-Amz-Algorithm=x&X%2DAmz-Signature=y&n=1"
	authenticator(noon).Strip(r)
	want := http.Header{"X-Amzn-Sagemaker-Session-Id": {"kept"}, "Date": {"kept"}}
	if diff := cmp.Diff(want, r.Header); diff != "" || r.URL.RawQuery != "model=a%20b&n=1" {
		t.Errorf("query %q, header (-want +got):\n%s", r.URL.RawQuery, diff)
	}
}

// botocore 1.43.11 made these with the example pair; the second is of temporary credentials.
const (
	botocoreToken = TokenPrefix + "c2FnZW1ha2VyLmFtYXpvbmF3cy5jb20vP0FjdGlvbj1DYWxsV2l0aEJlYXJlclRva2VuJlgtQW16LUFsZ29yaXRobT1BV1M0LUhNQUMtU0hBMjU2JlgtQW16LUNyZWRlbnRpYWw9QUtJREVYQU1QTEUlMkYyMDI2MTEzMCUyRnVzLWVhc3QtMSUyRnNhZ2VtYWtlciUyRmF3czRfcmVxdWVzdCZYLUFtei1EYXRlPTIwMjYxMTMwVDAyMDEzOFomWC1BbXotRXhwaXJlcz00MzIwMCZYLUFtei1TaWduZWRIZWFkZXJzPWhvc3QmWC1BbXotU2lnbmF0dXJlPWMzNzNmZTYzNzUzYjY4YzRjZjMzOTEzNjJmNDQzYjViOTY2MzU2NjIxMTIxNmIzZTIxMWI3OGQwZWJmM2FhY2QmVmVyc2lvbj0x"
	sessionToken  = TokenPrefix + "c2FnZW1ha2VyLmFtYXpvbmF3cy5jb20vP0FjdGlvbj1DYWxsV2l0aEJlYXJlclRva2VuJlgtQW16LUFsZ29yaXRobT1BV1M0LUhNQUMtU0hBMjU2JlgtQW16LUNyZWRlbnRpYWw9QUtJREVYQU1QTEUlMkYyMDI2MTEzMCUyRnVzLWVhc3QtMSUyRnNhZ2VtYWtlciUyRmF3czRfcmVxdWVzdCZYLUFtei1EYXRlPTIwMjYxMTMwVDAyMDEzOFomWC1BbXotRXhwaXJlcz00MzIwMCZYLUFtei1TaWduZWRIZWFkZXJzPWhvc3QmWC1BbXotU2VjdXJpdHktVG9rZW49U0VTU0lPTiUyRiUyQiUzRCZYLUFtei1TaWduYXR1cmU9OWVjYjNmNjc1OWMyOWE4ZTgwYzQwMTE2ZWRiNjdkZWViNzIzNGJmNjg4YTg5NDRjMzRkZmIwNjFhY2QwMmI1NSZWZXJzaW9uPTE="
)

func TestBotocore(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:18401/endpoints/my-endpoint/invocations?b=2&a=x%20y%2Fz", nil)
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "X-Amzn-Sagemaker-Prefix-Aware-Id": {"tenant-7/doc  12"}, "User-Agent": {"x"},
		"X-Amz-Date":    {"20261130T020138Z"},
		"Authorization": {"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261130/us-east-1/sagemaker/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amzn-sagemaker-prefix-aware-id, Signature=c9056ff97c8517a9cfd25897fb010c5d143d02c75e5dba724e60fab93b234ab8"},
	}
	if caller, refusal := authenticator(noon).judge(r, []byte(`{"a":1}`)); outcome(caller, refusal) != "ci" {
		t.Errorf("a signed request: %v", refusal)
	}
	if _, refusal := authenticator(noon).judge(r, []byte(`{"a":2}`)); refusal == nil || refusal.Code != CodeInvalid {
		t.Errorf("another body: %v", refusal)
	}
}

// TestCapturedRequests takes what SDKs sent, whose secret is not known: all is found to be in order but the signature itself.
func TestCapturedRequests(t *testing.T) {
	for _, name := range []string{"boto3", "go", "js"} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", name+".http"))
			if err != nil {
				t.Fatal(err)
			}
			r, body := readRequest(t, data)
			at, err := time.Parse(timeLayout, r.Header.Get("X-Amz-Date"))
			if err != nil {
				t.Fatal(err)
			}
			_, refusal := authenticator(at.Add(time.Second)).judge(r, body)
			if refusal == nil || !strings.HasPrefix(refusal.Message, "The request signature we calculated does not match") {
				t.Errorf("got %v, want a signature that does not match", refusal)
			}
		})
	}
}

func readRequest(t *testing.T, data []byte) (*http.Request, []byte) {
	t.Helper()
	r := readWire(t, data)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r, body
}

// readWire is the head of a request as a server reads it.
func readWire(t interface{ Fatal(...any) }, data []byte) *http.Request {
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(data)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}
