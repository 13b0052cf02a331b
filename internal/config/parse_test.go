package config

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestErrorsGolden parses testdata/errors/*.yaml and compares everything that is said about each with its .txt.
func TestErrorsGolden(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "errors", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	env := fakeEnv{"KEY": "hunter2", "HOST": "hunter2.internal", "NUMBER": "12"}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			read := func(path string) ([]byte, error) {
				if content, ok := goldenFiles[filepath.Base(path)]; ok {
					return []byte(content), nil
				}
				return nil, os.ErrNotExist
			}
			_, err = Parse("warmpath.yaml", data, env.lookUp, read)
			if err == nil {
				t.Fatal("parsed, want errors")
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("a secret or a value of the environment is in: %v", err)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", []byte(err.Error()+"\n"))
		})
	}
}

// goldenFiles are the files that golden configurations name.
var goldenFiles = map[string]string{"good.key": "hunter2\n", "empty.key": "\n", "two-lines.key": "hunter2\nhunter2\n"}

// TestC065_EveryVersionOfTheFileIsReported replaces a good file by bad ones: each change arrives, and the good one that
// ends it loads.
func TestC065_EveryVersionOfTheFileIsReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "warmpath.yaml")
	replace := func(text string) {
		t.Helper()
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	replace(minimal)
	ctx, cancel := context.WithCancel(t.Context())
	loaded := make(chan error, 16)
	stopped := Watch(ctx, path, func() {
		_, err := Load(path, fakeEnv{}.lookUp)
		loaded <- err
	})
	for i, version := range []struct{ text, want string }{
		{"pools: {engines: [", "is not valid YAML"},
		{"", "the file is empty"},
		{strings.Replace(minimal, "pool: engines", "pool: engine", 1), `there is no pool "engine"; did you mean "engines"?`},
		{minimal + "# good again\n", ""},
		{"pools: 3", "is a single value"},
		{minimal + "# and again\n", ""},
	} {
		replace(version.text)
		select {
		case err := <-loaded:
			if (err == nil) != (version.want == "") || (err != nil && !strings.Contains(err.Error(), version.want)) {
				t.Errorf("version %d: %v, want %q", i, err, version.want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("version %d was not reported", i)
		}
	}
	cancel()
	<-stopped
}

// FuzzParse: no input panics; it is an error, in which no secret stands, or a configuration that validates.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/errors/*.yaml", "../../examples/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("pools: &p {x: *p}"))
	f.Add([]byte("? [a]\n: b"))
	f.Add([]byte("pools: {a: {static: ['http://${KEY}:1'], api_key: '${KEY}', api_key_file: k}}"))
	const fromEnv, fromFile = "b7f3Environment", "c9d1File"
	env := func(name string) (string, bool) { return fromEnv, name != "NONE" }
	read := func(string) ([]byte, error) { return []byte(fromFile), nil }
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := Parse("f.yaml", data, env, read)
		if err != nil {
			if strings.Contains(err.Error(), fromEnv) || strings.Contains(err.Error(), fromFile) {
				t.Errorf("a secret is in: %v", err)
			}
			return
		}
		again := newReport("f.yaml")
		validate(cfg, again)
		if err := again.result(); err != nil {
			t.Errorf("accepted, and then: %v", err)
		}
		asJSON, err := json.Marshal(cfg)
		if err != nil {
			t.Error(err)
		}
		if text := fmt.Sprintf("%v %+v %#v %s", cfg, *cfg, *cfg, asJSON); strings.Contains(text, fromFile) {
			t.Error("a secret is printed")
		}
	})
}
