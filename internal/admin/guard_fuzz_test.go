package admin

import "testing"

// FuzzLocalHost looks for a spelling of a stranger's name that passes.
func FuzzLocalHost(f *testing.F) {
	for _, s := range []string{"", "www", "127.0.0.1", "[::1]", "[::1]:80", "localhost", ".localhost", "fe80::1%", "a:1", "[", "]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, prefix string) {
		for _, suffix := range []string{"", ".", ":8081", ".:8081"} {
			if host := prefix + ".evil.example" + suffix; localHost(host, []string{"admin.example"}) {
				t.Errorf("localHost(%q) = true", host)
			}
		}
	})
}
