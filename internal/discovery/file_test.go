package discovery

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/fleet"
)

func TestParseFile(t *testing.T) {
	two := []fleet.Target{{URL: "http://10.0.0.1:8000"}, {URL: "http://10.0.0.2:8000", Draining: true}}
	for _, tc := range []struct {
		name, in string
		want     []fleet.Target
	}{
		{"YAML list", "- http://10.0.0.1:8000\n- {url: \"http://10.0.0.2:8000\", draining: true}\n", two},
		{"YAML mapping", "replicas:\n  - http://10.0.0.1:8000\n  - url: http://10.0.0.2:8000\n    draining: true\n", two},
		{"JSON list", `["http://10.0.0.1:8000", {"url": "http://10.0.0.2:8000", "draining": true}]`, two},
		{"JSON mapping", "{\n\t\"replicas\": [\n\t\t{\"url\": \"http://10.0.0.1:8000\", \"draining\": false},\n\t\t{\"url\": \"http://10.0.0.2:8000\", \"draining\": true}\n\t]\n}\n", two},
		{"no replicas", "[]", nil},
		{"no replicas in a mapping", "replicas: []", nil},
		{"canonical", "[HTTP://Engine/]", []fleet.Target{{URL: "http://engine:80"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseFile("r.yaml", []byte(tc.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestC077_OneReplicaForAnAddressListedTwice: it is in use if any entry says so.
func TestC077_OneReplicaForAnAddressListedTwice(t *testing.T) {
	const once = `{url: "http://10.0.0.1:8000", draining: true}`
	for _, tc := range []struct {
		name, in string
		draining bool
	}{
		{"both drain", "[" + once + ", " + once + "]", true},
		{"the second is in use", "[" + once + ", \"http://10.0.0.1:8000/\"]", false},
		{"the first is in use", "[\"http://10.0.0.1:8000/\", " + once + "]", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseFile("r.yaml", []byte(tc.in))
			want := []fleet.Target{{URL: "http://10.0.0.1:8000", Draining: tc.draining}}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("error %v, -want +got:\n%s", err, diff)
			}
		})
	}
}

func TestParseFileRefuses(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"empty", "", "r.yaml: the file is empty; write [] for no replicas"},
		{"only a comment", "# later\n", "r.yaml: the file is empty"},
		{"text", "http://10.0.0.1:8000", "r.yaml:1:1: is not a list of replicas"},
		{"mapping without list", "{}", "r.yaml:1:1: has no list"},
		{"broken", "[http://10.0.0.1:8000", "is not valid YAML or JSON"},
		{"two documents", "[]\n---\n[]", "keep one document"},
		{"unknown key", "- {url: \"http://a:1\", weight: 3}", "r.yaml:1:23: is not a key here"},
		{"key twice", "- {url: \"http://a:1\", url: \"http://b:1\"}", "r.yaml:1:23: is there twice"},
		{"no url", "- {draining: true}", "r.yaml:1:3: has no url"},
		{"URL is a list", "- [http://a:1]", "r.yaml:1:3: is not a URL"},
		{"draining", "- {url: \"http://a:1\", draining: soon}", "r.yaml:1:33: is not true or false"},
		{"password", "- http://u:hunter2@a:1", "r.yaml:1:3: holds a user name or password"},
		{"all at once", "- a\n- b\n", "r.yaml:1:3: must start with http:// or https://\nr.yaml:2:3: must start"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParseFile("r.yaml", []byte(tc.in))
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
		})
	}
}

func TestExampleFile(t *testing.T) {
	path := filepath.Join("..", "..", "examples", "replicas.yaml")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if targets, err := ParseFile(path, data); err != nil || len(targets) != 3 || !targets[2].Draining {
		t.Errorf("targets are %v, %v", targets, err)
	}
}

// TestC065_BadReplicaFileKeepsTheLastSet: each bad content is reported once, and the good one after it is used.
func TestC065_BadReplicaFileKeepsTheLastSet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "replicas.yaml")
	replace := func(content string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	errs := make(chan error, 16)
	up := start(t, NewFile(FileOptions{Path: path, OnError: func(err error) { errs <- err }}))
	if err := <-errs; !strings.Contains(err.Error(), "no such file") {
		t.Fatalf("error is %v, want that there is no file", err)
	}
	replace("[http://a:1]")
	if got := next(t, up); got[0].URL != "http://a:1" {
		t.Fatalf("first set is %v", got)
	}
	for _, bad := range []string{"[http://a:1, ", "", "[b]"} {
		replace(bad)
		<-errs
	}
	replace("[http://a:1, http://b:1]")
	if got := next(t, up); len(got) != 2 {
		t.Errorf("set after the bad ones is %v, want two replicas", got)
	}
	if len(errs) > 0 {
		t.Errorf("reported twice: %v", <-errs)
	}
}

func FuzzParseFile(f *testing.F) {
	for _, seed := range []string{"- http://a:1", `{"replicas": [{"url": "http://a:1", "draining": true}]}`, "[]", "replicas:", "- {}", "a: &a [*a]", "[http://a:1, HTTP://A:1/]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		targets, err := ParseFile("f", data)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, target := range targets {
			if seen[target.URL] {
				t.Errorf("%s is there twice", target.URL)
			}
			seen[target.URL] = true
		}
		if errs := fleet.New(fleet.Options{}).Apply(targets); len(errs) > 0 {
			t.Errorf("the fleet refuses %v", errs)
		}
	})
}
