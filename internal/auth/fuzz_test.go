package auth

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// FuzzBegin holds that nobody comes in without a secret, whatever he writes.
func FuzzBegin(f *testing.F) {
	f.Add(head, "", "20261130T020138Z", "{}")
	f.Add("Bearer sk-", "", "", "")
	f.Add(botocoreToken[:len(botocoreToken)-8], "", "", "")
	f.Add("", "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20261130%2Fus-east-1%2Fsagemaker%2Faws4_request&X-Amz-Date=20261130T020138Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=00", "", "{}")
	f.Add("AWS4-HMAC-SHA256 Credential=,SignedHeaders=;;,Signature=,=", "%zz", "x", "")
	f.Fuzz(func(t *testing.T, authorization, query, date, body string) {
		r := &http.Request{Method: http.MethodPost, Host: "h", URL: &url.URL{Path: "/x", RawQuery: query}, Header: http.Header{}}
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		r.Header.Set("X-Amz-Date", date)
		caller, refusal := authenticator(noon).judge(r, []byte(body))
		switch {
		case refusal == nil && strings.Contains(authorization, "sk-"):
		case refusal == nil:
			t.Fatalf("let in as %s", caller.Name)
		case refusal.Code == "" || refusal.AWS == "" || refusal.Message == "":
			t.Fatalf("refused without a reason: %+v", refusal)
		case strings.Contains(refusal.Message, exampleSecret):
			t.Fatal("the refusal gives the secret away")
		}
	})
}

// FuzzToken holds the same for bearer tokens. Only the one that botocore made is good.
func FuzzToken(f *testing.F) {
	f.Add(strings.TrimPrefix(botocoreToken, TokenPrefix) + "=")
	f.Add("c2FnZW1ha2VyLmFtYXpvbmF3cy5jb20vP0FjdGlvbj1DYWxsV2l0aEJlYXJlclRva2Vu")
	f.Fuzz(func(t *testing.T, text string) {
		claim, refusal := authenticator(noon).token(text)
		if refusal == nil && !strings.HasPrefix(botocoreToken, TokenPrefix+text[:100]) && !strings.HasPrefix(sessionToken, TokenPrefix+text[:100]) {
			t.Fatalf("let in as %s", claim.caller.Name)
		}
	})
}
