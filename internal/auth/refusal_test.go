package auth

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// head is an Authorization header that is right but for what a test changes.
const head = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261130/us-east-1/sagemaker/aws4_request, SignedHeaders=host;x-amz-date, Signature=00"

// TestRefusals has every way for a signature to be refused, with the texts that AWS's services give where they have one.
func TestRefusals(t *testing.T) {
	replace := func(old, new string) []string {
		if !strings.Contains(head, old) {
			panic(old)
		}
		return []string{"X-Amz-Date", "20261130T020138Z", "Authorization", strings.Replace(head, old, new, 1)}
	}
	at := func(date string) []string { return []string{"X-Amz-Date", date, "Authorization", head} }
	for _, tc := range []struct {
		name    string
		headers []string
		query   string
		want    Refusal
	}{
		{"no equal-sign", replace("Signature=00", "Signature"), "", Refusal{CodeIncomplete, "IncompleteSignatureException",
			"'Signature' not a valid key=value pair (missing equal-sign) in Authorization header."}},
		{"twice", replace("Signature=00", "Signature=00, Signature=01"), "", Refusal{CodeIncomplete, "IncompleteSignatureException",
			"Authorization header has 'Signature' more than once."}},
		{"parameters missing", replace("SignedHeaders=host;x-amz-date, Signature=00", "x=y"), "", Refusal{CodeIncomplete, "IncompleteSignatureException",
			"Authorization header requires 'Signature' parameter. Authorization header requires 'SignedHeaders' parameter."}},
		{"no date", []string{"Authorization", head}, "", Refusal{CodeIncomplete, "IncompleteSignatureException",
			"Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header."}},
		{"no such date", at("2026-11-30"), "", Refusal{CodeIncomplete, "IncompleteSignatureException",
			"Date must be in ISO-8601 'basic format'. Got '2026-11-30'. See http://en.wikipedia.org/wiki/ISO_8601"}},
		{"too old", at("20261130T014637Z"), "", Refusal{CodeExpired, "InvalidSignatureException",
			"Signature expired: 20261130T014637Z is now earlier than 20261130T014638Z (20261130T020138Z - 15 min.)"}},
		{"from the future", at("20261130T021639Z"), "", Refusal{CodeExpired, "InvalidSignatureException",
			"Signature not yet current: 20261130T021639Z is still later than 20261130T021638Z (20261130T020138Z + 15 min.)"}},
		{"host not signed", replace("host;", ""), "", Refusal{CodeInvalid, "InvalidSignatureException",
			"'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization."}},
		{"algorithm", replace("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"), "", Refusal{CodeIncomplete, "IncompleteSignatureException",
			"Unsupported AWS 'algorithm': 'AWS4-ECDSA-P256-SHA256' (only AWS4-HMAC-SHA256 for now)."}},
		{"credential", replace("/aws4_request", ""), "", Refusal{CodeIncomplete, "IncompleteSignatureException",
			"Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got 'AKIDEXAMPLE/20261130/us-east-1/sagemaker'"}},
		{"terminator", replace("aws4_request", "aws5"), "", Refusal{CodeInvalid, "InvalidSignatureException",
			"Credential should be scoped with a valid terminator: 'aws4_request', not 'aws5'."}},
		{"region", replace("us-east-1", "mars"), "", Refusal{CodeInvalid, "InvalidSignatureException",
			"Credential should be scoped to a valid region, not 'mars'."}},
		{"service", replace("sagemaker", "s3"), "", Refusal{CodeInvalid, "InvalidSignatureException",
			"Credential should be scoped to correct service: 'sagemaker'."}},
		{"day", replace("20261130", "20261129"), "", Refusal{CodeInvalid, "InvalidSignatureException",
			"Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '20261129' != '20261130', from '20261130T020138Z'."}},
		{"access key", replace("AKIDEXAMPLE", "AKIDOTHER"), "", Refusal{CodeUnknown, "UnrecognizedClientException",
			"The security token included in the request is invalid."}},
		{"header not signed", append(replace("host;", "HOST;"), "X-Amz-Target", "SageMaker.DeleteEndpoint"), "", Refusal{CodeInvalid, "InvalidSignatureException",
			"There were headers present in the request which were not signed: x-amz-target"}},
		{"streaming", append(replace("host;", "host;"), "X-Amz-Content-Sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"), "", Refusal{CodeInvalid, "InvalidSignatureException",
			"signatures of single chunks (x-amz-content-sha256: STREAMING-…) are not supported here; sign the whole body"}},
		{"header and query", replace("host;", "host;"), "X-Amz-Algorithm=AWS4-HMAC-SHA256", Refusal{CodeInvalid, "InvalidSignatureException",
			"Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header."}},
		{"query", replace("host;", "host;"), "a;b", Refusal{CodeIncomplete, "IncompleteSignatureException",
			"the query string is not made of NAME=VALUE pairs in percent-encoding."}},
		{"parameters missing in a query", nil, "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=x&X-Amz-Date=x", Refusal{CodeIncomplete, "IncompleteSignatureException",
			"AWS query-string parameters must include 'X-Amz-Signature'. AWS query-string parameters must include 'X-Amz-SignedHeaders'. Re-examine the query-string parameters."}},
		{"expires", nil, "X-Amz-Algorithm=A&X-Amz-Credential=x&X-Amz-Date=x&X-Amz-Signature=0&X-Amz-SignedHeaders=host&X-Amz-Expires=604801", Refusal{CodeIncomplete, "IncompleteSignatureException",
			"X-Amz-Expires must be a number of seconds from 1 to 604800."}},
		{"expired", nil, "X-Amz-Algorithm=A&X-Amz-Credential=x&X-Amz-Date=20261130T020000Z&X-Amz-Signature=0&X-Amz-SignedHeaders=host&X-Amz-Expires=60", Refusal{CodeExpired, "InvalidSignatureException",
			"Signature expired: 20261130T020100Z is now earlier than 20261130T020138Z"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := authenticator(noon)
			a.Region = "us-east-1"
			r := post(tc.headers...)
			r.URL.RawQuery = tc.query
			_, refusal := a.judge(r, nil)
			if diff := cmp.Diff(&tc.want, refusal); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestMismatchShowsWhatToSign holds the form in which AWS's services explain a signature that does not match.
func TestMismatchShowsWhatToSign(t *testing.T) {
	_, refusal := authenticator(noon).judge(post("X-Amz-Date", "20261130T020138Z", "Authorization", head), []byte("{}"))
	want := "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. " +
		"Consult the service documentation for details.\n\nThe Canonical String for this request should have been\n" +
		"'POST\n/endpoints/chat/invocations\n\nhost:warmpath.internal:8080\nx-amz-date:20261130T020138Z\n\nhost;x-amz-date\n" +
		"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'\n\nThe String-to-Sign should have been\n" +
		"'AWS4-HMAC-SHA256\n20261130T020138Z\n20261130/us-east-1/sagemaker/aws4_request\n"
	if refusal == nil || !strings.HasPrefix(refusal.Message, want) {
		t.Errorf("got %v, want it to begin with %q", refusal, want)
	}
}

// signedWith is a request whose signature is right for what is declared of its body.
func signedWith(payload string) *http.Request {
	r := post("X-Amz-Date", "20261130T020138Z", "X-Amz-Content-Sha256", payload)
	names := []string{"host", "x-amz-content-sha256", "x-amz-date"}
	s := scope{"20261130", "us-east-1", service}
	signature := sign(exampleSecret, s, stringToSign("20261130T020138Z", s, canonicalRequest(r, nil, names, payload)))
	r.Header.Set("Authorization", algorithm+" Credential="+exampleID+"/"+s.String()+", SignedHeaders="+strings.Join(names, ";")+", Signature="+signature)
	return r
}

func TestDeclaredPayload(t *testing.T) {
	for _, tc := range []struct {
		name, payload, body string
		want                string // caller or code
		early               bool   // known before the body is
	}{
		{"hash", hashed([]byte("{}")), "{}", "ci", false},
		{"hash of another body", hashed([]byte("[]")), "{}", CodeInvalid, false},
		{"unsigned", unsignedPayload, "anything", "ci", false},
		{"no hash at all", "abc", "{}", CodeInvalid, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			caller, refusal := authenticator(noon).judge(signedWith(tc.payload), []byte(tc.body))
			if got := outcome(caller, refusal); got != tc.want {
				t.Errorf("got %s, want %s (%v)", got, tc.want, refusal)
			}
		})
	}
	forged := signedWith(hashed(nil))
	forged.Header.Set("Authorization", strings.Replace(forged.Header.Get("Authorization"), "Signature=", "Signature=0", 1))
	if _, refusal := authenticator(noon).Begin(forged); refusal == nil {
		t.Error("a wrong signature of a declared body waits for the body")
	}
}

func TestDateHeader(t *testing.T) {
	for _, date := range []string{"20261130T020138Z", "Mon, 30 Nov 2026 02:01:38 GMT"} {
		r := post("Date", date)
		s := scope{"20261130", "us-east-1", service}
		names := []string{"date", "host"}
		signature := sign(exampleSecret, s, stringToSign("20261130T020138Z", s, canonicalRequest(r, nil, names, emptyPayload)))
		r.Header.Set("Authorization", algorithm+" Credential="+exampleID+"/"+s.String()+",SignedHeaders=date;host,Signature="+signature)
		if caller, refusal := authenticator(noon).judge(r, nil); outcome(caller, refusal) != "ci" {
			t.Errorf("%s: %v", date, refusal)
		}
	}
}

func TestTokens(t *testing.T) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(botocoreToken, TokenPrefix))
	if err != nil {
		t.Fatal(err)
	}
	altered := func(old, new string) string {
		return TokenPrefix + base64.StdEncoding.EncodeToString([]byte(strings.Replace(string(raw), old, new, 1)))
	}
	for _, tc := range []struct {
		name, token string
		after       time.Duration
		want        string // caller or code
		aws         string
	}{
		{"new", botocoreToken, 0, "ci", ""},
		{"of temporary credentials", sessionToken, 0, "ci", ""},
		{"nearly 12 hours old", botocoreToken, 12 * time.Hour, "ci", ""},
		{"older", botocoreToken, 12*time.Hour + time.Second, CodeExpired, "ExpiredTokenException"},
		{"from the future", botocoreToken, -16 * time.Minute, CodeExpired, "ExpiredTokenException"},
		{"longer life", altered("Expires=43200", "Expires=43201"), 0, CodeIncomplete, "IncompleteSignatureException"},
		{"other life", altered("Expires=43200", "Expires=43199"), 0, CodeInvalid, "InvalidSignatureException"},
		{"other host", altered("sagemaker.amazonaws", "sagemaker.example"), 0, CodeInvalid, "InvalidSignatureException"},
		{"other action", altered("CallWithBearerToken", "DeleteEndpoint"), 0, CodeIncomplete, "IncompleteSignatureException"},
		{"other region", altered("us-east-1", "us-east-2"), 0, CodeInvalid, "InvalidSignatureException"},
		{"other access key", altered("AKIDEXAMPLE", "AKIDOTHER"), 0, CodeUnknown, "UnrecognizedClientException"},
		{"no signature", altered("X-Amz-Signature", "x"), 0, CodeIncomplete, "IncompleteSignatureException"},
		{"cut", botocoreToken[:len(botocoreToken)-3], 0, CodeIncomplete, "IncompleteSignatureException"},
		{"empty", TokenPrefix, 0, CodeIncomplete, "IncompleteSignatureException"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			caller, refusal := authenticator(noon.Add(tc.after)).judge(post("Authorization", "Bearer "+tc.token), []byte("any body"))
			if got := outcome(caller, refusal); got != tc.want {
				t.Errorf("got %s, want %s (%v)", got, tc.want, refusal)
			}
			if refusal != nil && refusal.AWS != tc.aws {
				t.Errorf("AWS's name is %s, want %s", refusal.AWS, tc.aws)
			}
		})
	}
}

// A token must not open the control plane, whose path it has signed.
func TestTokenIsNoRequest(t *testing.T) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(botocoreToken, TokenPrefix))
	if err != nil {
		t.Fatal(err)
	}
	host, query, _ := strings.Cut(strings.TrimSuffix(string(raw), "&Version=1"), "/?")
	r := post("X-Amz-Target", "SageMaker.ListEndpoints")
	r.Host, r.URL.Path, r.URL.RawQuery = host, "/", query
	if _, refusal := authenticator(noon).judge(r, nil); refusal == nil || refusal.Code != CodeInvalid {
		t.Errorf("got %v, want %s", refusal, CodeInvalid)
	}
}
