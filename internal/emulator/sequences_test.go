package emulator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestRequestsAreTheServers(t *testing.T) {
	long := strings.Repeat("word ", 60)
	tests := []struct{ name, path, body string }{
		{"chat", "/v1/chat/completions", `{"model":"emulated","messages":[{"role":"user","content":"` + long + `"}],"max_tokens":40}`},
		{"two answers", "/v1/completions", `{"model":"emulated","prompt":"` + long + `","n":2}`},
		{"two prompts", "/v1/completions", `{"model":"emulated","prompt":["` + long + `","b"],"max_tokens":3}`},
		{"embeddings", "/v1/embeddings", ` {"model":"emulated","input":"` + long + `"}` + "\n"},
		{"messages", "/v1/messages", `{"model":"emulated","max_tokens":20,"messages":[{"role":"user","content":"` + long + `"}]}`},
		{"salt", "/invocations", `{"model":"emulated","prompt":"` + long + `","cache_salt":"x"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, err := New(Options{})
			if err != nil {
				t.Fatal(err)
			}
			j, err := generators[test.path].parse([]byte(strings.TrimSpace(test.body)))
			if err != nil {
				t.Fatal(err)
			}
			g, err := s.start(j, "id")
			if err != nil {
				t.Fatal(err)
			}
			var want []*Request
			for _, q := range g.sequences {
				want = append(want, &q.Request)
			}
			got, err := Requests(test.path, []byte(test.body), s.config.BlockSize)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Request{}), cmpopts.IgnoreFields(Request{}, "Data")); diff != "" {
				t.Errorf("Requests (-server +got):\n%s", diff)
			}
		})
	}
}

func TestRequestsRefuses(t *testing.T) {
	for _, test := range []struct{ name, path, body string }{
		{"no generation", "/v1/models", `{}`},
		{"no JSON", "/v1/completions", `{`},
		{"nothing to say", "/v1/completions", `{"prompt":""}`},
		{"no messages", "/v1/chat/completions", `{"messages":[]}`},
	} {
		if got, err := Requests(test.path, []byte(test.body), 16); err == nil {
			t.Errorf("%s: got %d requests, want an error", test.name, len(got))
		}
	}
}
