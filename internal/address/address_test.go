package address

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"address and port", "http://10.0.0.1:8000", "http://10.0.0.1:8000"},
		{"upper case", "HTTP://Engine-1.Internal:8000", "http://engine-1.internal:8000"},
		{"trailing slash", "http://10.0.0.1:8000/", "http://10.0.0.1:8000"},
		{"base path", "https://gpu.example/llm/", "https://gpu.example:443/llm"},
		{"port of http", "http://10.0.0.1", "http://10.0.0.1:80"},
		{"port of https", "https://10.0.0.1", "https://10.0.0.1:443"},
		{"port with zeros", "http://10.0.0.1:08000", "http://10.0.0.1:8000"},
		{"IPv6", "http://[::1]:8000", "http://[::1]:8000"},
		{"IPv6 without port", "http://[2001:DB8::1]", "http://[2001:db8::1]:80"},
		{"IPv6 zone", "http://[fe80::1%25eth0]:8000", "http://[fe80::1%25eth0]:8000"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Parse(tc.in)
			if err != nil || got != tc.want {
				t.Errorf("Parse(%q) = %q, %v, want %q", tc.in, got, err, tc.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"empty", "", "must start with http"},
		{"no scheme", "10.0.0.1:8000", "is not a URL"},
		{"name and port", "engine:8000", "must start with http"},
		{"other scheme", "grpc://10.0.0.1:8000", "must start with http"},
		{"no host", "http://:8000", "has no host"},
		{"password", "http://user:hunter2@10.0.0.1:8000", "password"},
		{"query", "http://10.0.0.1:8000?x=hunter2", "query"},
		{"bare query", "http://10.0.0.1:8000?", "query"},
		{"fragment", "http://10.0.0.1:8000#hunter2", "fragment"},
		{"port zero", "http://10.0.0.1:0", "port"},
		{"port too large", "http://10.0.0.1:65536", "port"},
		{"zone that is no text", "http://[::%25\x9c]", "host"},
		{"port is a name", "http://10.0.0.1:hunter2", "is not a URL"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Parse(tc.in)
			if err == nil {
				t.Fatalf("Parse(%q) = %q, want an error", tc.in, got)
			}
			if !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("Parse(%q): %v, want %q and no secret", tc.in, err, tc.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"http://10.0.0.1:8000", "https://[::1]/a/", "http://u:p@h", "http://h:80?q#f", "http://[::%25\x9c]", "http://[fe80::1%25e]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		once, err := Parse(raw)
		if err != nil {
			return
		}
		twice, err := Parse(once)
		if err != nil || twice != once {
			t.Errorf("Parse(%q) = %q, and that parses to %q, %v", raw, once, twice, err)
		}
	})
}
