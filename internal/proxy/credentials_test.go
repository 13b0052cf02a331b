package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/auth"
	"github.com/warmpath/warmpath/internal/routing"
)

// newGuardedRig is a rig whose endpoint is called with keys: one for it, one for another endpoint, and an access key.
func newGuardedRig(t testing.TB, replicas ...*replica) *rig {
	t.Helper()
	g := newRig(t, routing.NameRandom, replicas...)
	g.settings.Auth = auth.New(auth.Options{
		Keys: []auth.Key{
			{Caller: auth.Caller{Name: "mine", Endpoints: []string{"default"}}, Secret: "sk-mine"},
			{Caller: auth.Caller{Name: "theirs", Endpoints: []string{"other"}}, Secret: "sk-theirs"},
		},
		AccessKeys: []auth.AccessKey{{Caller: auth.Caller{Name: "sdk"}, ID: "AKIDEXAMPLE", Secret: "secret"}},
		ClockSkew:  15 * time.Minute, Now: time.Now,
	})
	return g
}

// sendSigned sends a request that the AWS SDK has signed, with a body of which it may be told another.
func (g *rig) sendSigned(t testing.TB, path, signedBody, body string, at time.Time) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, g.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	digest := sha256.Sum256([]byte(signedBody))
	err = v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "secret"}, req, hex.EncodeToString(digest[:]), "sagemaker", "us-east-1", at)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(answer)
}

// TestCredentialsEndHere: what lets a client in reaches no engine, and its key's name reaches log and metrics.
func TestCredentialsEndHere(t *testing.T) {
	engine := newReplica(t, nil)
	g := newGuardedRig(t, engine)
	for i, send := range []func() (*http.Response, string){
		func() (*http.Response, string) {
			return g.ask(t, "/v1/chat/completions?x=1", chatBody, "Authorization", "Bearer sk-mine", "X-Api-Key", "sk-theirs")
		},
		func() (*http.Response, string) {
			return g.sendSigned(t, "/v1/chat/completions?x=1", chatBody, chatBody, time.Now())
		},
	} {
		name := []string{"mine", "sdk"}[i]
		if resp, body := send(); resp.StatusCode != 200 || body != chatAnswer {
			t.Fatalf("%s: got %d %s", name, resp.StatusCode, body)
		}
		seen := engine.received()[i]
		for _, header := range []string{"Authorization", "X-Api-Key", "X-Amz-Date"} {
			if got := seen.header.Get(header); got != "" {
				t.Errorf("%s: the engine got %s: %s", name, header, got)
			}
		}
		if seen.uri != "/v1/chat/completions?x=1" {
			t.Errorf("%s: the engine got %s", name, seen.uri)
		}
		if l := g.access(t, i+1)[i]; l.Key != name {
			t.Errorf("%s: logged %+v", name, l)
		}
	}
	if strings.Contains(g.log.String(), "sk-") {
		t.Error("a key is in the log")
	}
}

func TestPresignedRequests(t *testing.T) {
	engine := newReplica(t, nil)
	g := newGuardedRig(t, engine)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/chat/completions?x=1&X-Amz-Expires=60", nil)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256([]byte(chatBody))
	target, _, err := v4.NewSigner().PresignHTTP(t.Context(), aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "secret"}, req, hex.EncodeToString(digest[:]), "sagemaker", "us-east-1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if resp, body := g.post(t, strings.TrimPrefix(target, g.URL), chatBody); resp.StatusCode != 200 {
		t.Fatalf("got %d %s", resp.StatusCode, body)
	}
	if got := engine.received()[0].uri; got != "/v1/chat/completions?x=1" {
		t.Errorf("the engine got %s", got)
	}
}

func TestCallersAreRefused(t *testing.T) {
	engine := newReplica(t, nil)
	g := newGuardedRig(t, engine)
	now := time.Now()
	key := func(path, value string) func() (*http.Response, string) {
		return func() (*http.Response, string) { return g.ask(t, path, chatBody, "Authorization", value) }
	}
	signed := func(path, body string, at time.Time) func() (*http.Response, string) {
		return func() (*http.Response, string) { return g.sendSigned(t, path, chatBody, body, at) }
	}
	const chat, messages, invoke = "/v1/chat/completions", "/v1/messages", "/endpoints/default/invocations"
	for _, tc := range []struct {
		name   string
		send   func() (*http.Response, string)
		status int
		code   string
		text   string // of the body
	}{
		{"no key", key(chat, ""), 401, "credentials_missing", `"type":"authentication_error"`},
		{"wrong key", key(chat, "Bearer x"), 401, "credentials_unknown", `"code":"credentials_unknown"`},
		{"key of another endpoint", key(chat, "Bearer sk-theirs"), 403, "access_denied", `"code":"access_denied"`},
		{"wrong key for Anthropic", key(messages, "Bearer x"), 401, "credentials_unknown", `"type":"authentication_error"`},
		{"denied for Anthropic", key(messages, "Bearer sk-theirs"), 403, "access_denied", `"type":"permission_error"`},
		{"signed for another body", signed(chat, chatBody+" ", now), 401, "signature_invalid", `The request signature we calculated`},
		{"no key for SageMaker", key(invoke, ""), 403, "credentials_missing", `{"__type":"MissingAuthenticationTokenException","Message":"Missing Authentication Token`},
		{"wrong key for SageMaker", key(invoke, "Bearer x"), 403, "credentials_unknown", `{"__type":"UnrecognizedClientException"`},
		{"denied for SageMaker", key(invoke, "Bearer sk-theirs"), 403, "access_denied", `{"__type":"AccessDeniedException"`},
		{"altered for SageMaker", signed(invoke, chatBody+" ", now), 403, "signature_invalid", `{"__type":"InvalidSignatureException","Message":"The request signature we calculated`},
		{"replayed for SageMaker", signed(invoke, chatBody, now.Add(-16*time.Minute)), 403, "signature_expired", `{"__type":"InvalidSignatureException","Message":"Signature expired: `},
	} {
		resp, body := tc.send()
		if resp.StatusCode != tc.status || resp.Header.Get("X-Warmpath-Code") != tc.code || !strings.Contains(body, tc.text) {
			t.Errorf("%s: got %d %s %s", tc.name, resp.StatusCode, resp.Header.Get("X-Warmpath-Code"), body)
		}
		if challenge := resp.Header.Get("WWW-Authenticate"); (challenge == "Bearer") == (tc.code == "access_denied") {
			t.Errorf("%s: WWW-Authenticate is %q", tc.name, challenge)
		}
	}
	if n := len(engine.received()); n != 0 {
		t.Errorf("the engine got %d requests", n)
	}
	g.idle(t)
}

// TestC074_StrangersSendNoBody: a client that asks before it sends its body is told at once that its key is wrong, and to go on if it
// is right.
func TestC074_StrangersSendNoBody(t *testing.T) {
	g := newGuardedRig(t, newReplica(t, nil))
	for key, want := range map[string]string{"x": "HTTP/1.1 401 Unauthorized", "sk-mine": "HTTP/1.1 100 Continue"} {
		c, err := net.Dial("tcp", g.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 60\r\nExpect: 100-continue\r\nAuthorization: Bearer "+key+"\r\n\r\n")
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || strings.TrimSpace(line) != want {
			t.Errorf("%s: got %q, %v, want %q", key, line, err, want)
		}
	}
}

// TestModelsOfACaller: the list has what the caller may use.
func TestModelsOfACaller(t *testing.T) {
	g := newGuardedRig(t, newReplica(t, nil))
	g.endpoint.Models = []string{"a"}
	other := *g.endpoint
	other.Name, other.Models = "other", []string{"b"}
	g.retable(&other)
	for key, want := range map[string]string{"sk-mine": "a", "sk-theirs": "b"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.URL+"/v1/models", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", key)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var list struct{ Data []struct{ ID string } }
		if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]struct{ ID string }{{want}}, list.Data); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
	if resp, body := g.post(t, "/v1/models", ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %d %s", resp.StatusCode, body)
	}
}

// TestTunnelsNeedCredentials: what leaves HTTP is asked for them too.
func TestTunnelsNeedCredentials(t *testing.T) {
	engine := newReplica(t, nil)
	g := newGuardedRig(t, engine)
	resp, body := g.ask(t, "/v1/realtime", "", "Connection", "Upgrade", "Upgrade", "websocket")
	if resp.StatusCode != http.StatusUnauthorized || len(engine.received()) != 0 {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
	resp, body = g.ask(t, "/v1/realtime", "", "Connection", "Upgrade", "Upgrade", "websocket", "Authorization", "Bearer sk-theirs")
	if resp.StatusCode != http.StatusForbidden || len(engine.received()) != 0 {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
	g.ask(t, "/v1/realtime", "", "Connection", "Upgrade", "Upgrade", "websocket", "Authorization", "Bearer sk-mine")
	if seen := engine.received(); len(seen) != 1 || seen[0].header.Get("Authorization") != "" || bytes.Contains(seen[0].body, []byte("sk")) {
		t.Errorf("the engine got %+v", seen)
	}
}
