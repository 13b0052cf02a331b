package auth

import (
	"net/http"
	"strings"
	"testing"
)

// TestSignatureSuite takes requests of AWS's Signature Version 4 test suite (aws-signing-test-suite/v4), in the header and in the
// query. Those whose paths a server would have to normalise are not among them.
func TestSignatureSuite(t *testing.T) {
	const (
		credential = "AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
		inQuery    = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20150830%2Fus-east-1%2Fservice%2Faws4_request&X-Amz-Date=20150830T123600Z&X-Amz-SignedHeaders=host&X-Amz-Expires=3600&X-Amz-Signature="
	)
	head := func(names, signature string) string {
		return "X-Amz-Date:20150830T123600Z\nAuthorization:AWS4-HMAC-SHA256 Credential=" + credential + ", SignedHeaders=" + names + ", Signature=" + signature
	}
	for _, tc := range []struct{ name, target, headers string }{
		{"get-vanilla", "/", head("host;x-amz-date", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31")},
		{"get-unreserved", "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
			head("host;x-amz-date", "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f")},
		{"get-slashes-unnormalized", "//example//", head("host;x-amz-date", "87cca117541a147f6df867677d98a7d80dff226d2bfca9e4ffa899665623c7e5")},
		{"get-vanilla-query-order-key-case", "/?Param2=value2&Param1=value1",
			head("host;x-amz-date", "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500")},
		{"get-vanilla-query-order-value", "/?Param1=value2&Param1=value1",
			head("host;x-amz-date", "5772eed61e12b33fae39ee5e7012498b51d56abc0abb7c60486157bd471c4694")},
		{"get-vanilla-query-order-encoded", "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1",
			head("host;x-amz-date", "371d3713e185cc334048618a97f809c9ffe339c62934c032af5a0e595648fcac")},
		{"get-vanilla-query-unreserved", "/?-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz=-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
			head("host;x-amz-date", "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197")},
		{"get-header-key-duplicate", "/", "My-Header1:value2\nMy-Header1:value2\nMy-Header1:value1\n" +
			head("host;my-header1;x-amz-date", "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea")},
		{"get-header-value-trim", "/", "My-Header1: value1\nMy-Header2: \"a   b   c\"\n" +
			head("host;my-header1;my-header2;x-amz-date", "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736")},
		{"query: get-vanilla-query-order-encoded", "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1&" + inQuery +
			"c5f1848ceec943ac2ca68ee720460c23aaae30a2300586597ada94c4a65e4787", "X-Amz-Date:20150830T123600Z"},
		{"query: get-vanilla-utf8-query", "/?\u1234=bar&" + inQuery +
			"0bdd809b1519ac4f0c1dc3540e2cc46bd0c7f778eda408b2ebf3b913d21ff600", "X-Amz-Date:20150830T123600Z"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			suiteRequest(t, "GET "+tc.target+" HTTP/1.1\nHost:example.amazonaws.com\n"+tc.headers+"\n\n")
		})
	}
	t.Run("post-x-www-form-urlencoded-parameters", func(t *testing.T) {
		suiteRequest(t, "POST / HTTP/1.1\nContent-Type:application/x-www-form-urlencoded; charset=utf-8\nHost:example.amazonaws.com\nContent-Length:13\n"+
			"x-amz-content-sha256:9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e\n"+
			head("content-length;content-type;host;x-amz-content-sha256;x-amz-date", "328d1b9eaadca9f5818ef05e8392801e091653bafec24fcab71e7344e7f51422")+
			"\n\nParam1=value1")
	})
}

// suiteRequest checks a signature alone: the suite's service is not SageMaker.
func suiteRequest(t *testing.T, text string) {
	t.Helper()
	r, body := readRequest(t, []byte(strings.Replace(text, "\n\n", "\r\n\r\n", 1)))
	query, refusal := queryOf(r.URL)
	if refusal != nil {
		t.Fatal(refusal)
	}
	p, refusal := suiteParts(r, query)
	if refusal != nil {
		t.Fatal(refusal)
	}
	_, s, refusal := parseCredential(p.credential)
	if refusal != nil {
		t.Fatal(refusal)
	}
	check := signed{parts: p, scope: s, secret: exampleSecret, request: r, query: query}
	if refusal := check.matches(hashed(body)); refusal != nil {
		t.Error(refusal)
	}
}

func suiteParts(r *http.Request, query map[string][]string) (parts, *Refusal) {
	value, found := strings.CutPrefix(r.Header.Get("Authorization"), algorithm+" ")
	if !found {
		return parseQuery(query)
	}
	p, refusal := parseAuthorization(algorithm, value)
	if refusal != nil {
		return p, refusal
	}
	return p.dated(r.Header)
}
