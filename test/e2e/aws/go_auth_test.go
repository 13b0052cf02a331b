package aws

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime"
)

// tamperer changes a request after it has been signed, as somebody in between would.
type tamperer func(*http.Request)

func (change tamperer) Do(r *http.Request) (*http.Response, error) {
	change(r)
	return unhurried{}.Do(r)
}

// invoke is a call that is of no interest but for its error.
func invoke(ctx context.Context, endpoint string, c *sagemakerruntime.Client) error {
	_, err := c.InvokeEndpoint(ctx, invocation(endpoint, order{}))
	return err
}

func (g goClients) testSignatures(t *testing.T) {
	ctx := t.Context()
	lead := g.closed.runtime(leadID, leadSecret)
	in := invocation("go", order{})
	in.CustomAttributes, in.PrefixAwareId = aws.String("a  b=c/d"), aws.String("tenant 7")
	out, err := lead.InvokeEndpoint(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{leadSecret, leadID, "authorization", "x-amz-date"} {
		if bytes.Contains(out.Body, []byte(secret)) {
			t.Errorf("the engine got %s: %s", secret, out.Body)
		}
	}
	stream, err := lead.InvokeEndpointWithResponseStream(ctx, streamOf("go-llm", chat("Hello.", 3)))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := read(stream.GetStream()); err != nil || !bytes.Contains(text, []byte("[DONE]")) {
		t.Errorf("a signed stream: got %v and %s", err, text)
	}
	altered := func(change tamperer) *sagemakerruntime.Client {
		return g.closed.runtime(leadID, leadSecret, func(o *sagemakerruntime.Options) { o.HTTPClient = change })
	}
	for _, test := range []struct {
		name   string
		client *sagemakerruntime.Client
		want   string
	}{
		{"no credentials", g.closed.runtime("", "", func(o *sagemakerruntime.Options) { o.Credentials = aws.AnonymousCredentials{} }), "MissingAuthenticationTokenException"},
		{"unknown key", g.closed.runtime("AKIANOBODY", leadSecret), "UnrecognizedClientException"},
		{"wrong secret", g.closed.runtime(leadID, guestSecret), "InvalidSignatureException"},
		{"altered body", altered(func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", int(r.ContentLength))))
		}), "InvalidSignatureException"},
		{"altered path", altered(func(r *http.Request) { r.URL.Path = strings.Replace(r.URL.Path, "/go/", "/python/", 1) }), "InvalidSignatureException"},
		{"altered header", altered(func(r *http.Request) { r.Header.Set("X-Amzn-Sagemaker-Target-Variant", "b") }), "InvalidSignatureException"},
	} {
		err := invoke(ctx, "go", test.client)
		t.Run(test.name, func(t *testing.T) { wantError(t, err, test.want, http.StatusForbidden, "") })
	}
}

func (g goClients) testPermissions(t *testing.T) {
	ctx := t.Context()
	guest := g.closed.runtime(guestID, guestSecret)
	if err := invoke(ctx, "go", guest); err != nil {
		t.Errorf("the guest's own endpoint: %v", err)
	}
	wantError(t, invoke(ctx, "go-hasty", guest), "AccessDeniedException", http.StatusForbidden, "")
	if _, err := g.closed.controlPlane(leadID, leadSecret).ListEndpoints(ctx, nil); err != nil {
		t.Errorf("the lead's control plane: %v", err)
	}
	for want, c := range map[string]*sagemaker.Client{
		"AccessDeniedException":               g.closed.controlPlane(guestID, guestSecret),
		"InvalidSignatureException":           g.closed.controlPlane(leadID, guestSecret),
		"UnrecognizedClientException":         g.closed.controlPlane("AKIANOBODY", guestSecret),
		"MissingAuthenticationTokenException": g.closed.controlPlane("", "", func(o *sagemaker.Options) { o.Credentials = aws.AnonymousCredentials{} }),
	} {
		_, err := c.ListEndpoints(ctx, nil)
		wantError(t, err, want, http.StatusBadRequest, "")
	}
}

// testPresigned signs in the query.
func (g goClients) testPresigned(t *testing.T) {
	body := order{}.body()
	for _, test := range []struct {
		name, sent string
		made       time.Time
		want       int
	}{
		{"as it was made", string(body), time.Now(), http.StatusOK},
		{"another body", "x" + string(body), time.Now(), http.StatusForbidden},
		{"too late", string(body), time.Now().Add(-2 * time.Minute), http.StatusForbidden},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.closed.Data+"/endpoints/go/invocations?X-Amz-Expires=60", strings.NewReader(test.sent))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		sum := sha256.Sum256(body)
		credentials := aws.Credentials{AccessKeyID: leadID, SecretAccessKey: leadSecret}
		url, signed, err := v4.NewSigner().PresignHTTP(t.Context(), credentials, req, hex.EncodeToString(sum[:]), "sagemaker", region, test.made)
		if err != nil {
			t.Fatal(err)
		}
		if req.URL, err = req.URL.Parse(url); err != nil {
			t.Fatal(err)
		}
		for name, values := range signed {
			req.Header[name] = values
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != test.want {
			t.Errorf("%s: got %s %s, want %d", test.name, resp.Status, text, test.want)
		}
	}
}

// wrongClock is a signer whose clock is not the router's.
type wrongClock struct {
	*v4.Signer
	by time.Duration
}

// SignHTTP signs at another time.
//
//nolint:revive // AWS's interface has so many arguments
func (w wrongClock) SignHTTP(ctx context.Context, credentials aws.Credentials, r *http.Request, payload, service, region string, at time.Time, options ...func(*v4.SignerOptions)) error {
	return w.Signer.SignHTTP(ctx, credentials, r, payload, service, region, at.Add(w.by), options...)
}

func (g goClients) testSkew(t *testing.T) {
	for by, ok := range map[time.Duration]bool{-time.Hour: false, time.Hour: false, -10 * time.Minute: true, 10 * time.Minute: true} {
		c := g.closed.runtime(leadID, leadSecret, func(o *sagemakerruntime.Options) { o.HTTPSignerV4 = wrongClock{v4.NewSigner(), by} })
		err := invoke(t.Context(), "go", c)
		t.Run(fmt.Sprint(by), func(t *testing.T) {
			switch {
			case !ok:
				wantError(t, err, "InvalidSignatureException", http.StatusForbidden, "Signature ")
			case err != nil:
				t.Error(err)
			}
		})
	}
}
