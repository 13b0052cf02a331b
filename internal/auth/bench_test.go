package auth

import (
	"net/http"
	"testing"
)

// BenchmarkJudge is what a request costs by its credentials; a signature hashes the body.
func BenchmarkJudge(b *testing.B) {
	signedBody := func(size int) (*http.Request, []byte) {
		body := make([]byte, size)
		r := signedWith(hashed(body))
		return r, body
	}
	small, smallBody := signedBody(2 << 10)
	large, largeBody := signedBody(64 << 10)
	for _, bc := range []struct {
		name string
		r    *http.Request
		body []byte
	}{
		{"key", post("Authorization", "Bearer sk-b"), nil},
		{"token", post("Authorization", "Bearer "+botocoreToken), nil},
		{"signature/2KB", small, smallBody},
		{"signature/64KB", large, largeBody},
	} {
		b.Run(bc.name, func(b *testing.B) {
			a := authenticator(noon)
			b.ReportAllocs()
			for b.Loop() {
				if _, refusal := a.judge(bc.r, bc.body); refusal != nil {
					b.Fatal(refusal)
				}
			}
		})
	}
}
