package architecture

import (
	"bytes"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// A test that sleeps is slow or flaky, except in the virtual time of testing/synctest. The end-to-end suites wait for real processes.
func TestTestsDoNotSleep(t *testing.T) {
	report(t, sleepers(t, os.DirFS("../..")))
}

func TestSleepersAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a_test.go": "package x; func f() { time.Sleep(1) }",
		"b_test.go": `package x; import "testing/synctest"; func f() { time.Sleep(1) }`,
		"c.go":      "package x; func f() { time.Sleep(1) }",
	} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := sleepers(t, os.DirFS(dir)); len(got) != 1 || !strings.HasPrefix(got[0], "a_test.go") {
		t.Errorf("got %v, want a_test.go alone", got)
	}
}

func sleepers(t *testing.T, root fs.FS) (findings []string) {
	t.Helper()
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "test/e2e/") || strings.HasPrefix(path, "internal/architecture/") {
			return err
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		if bytes.Contains(text, []byte("time.Sleep(")) && !bytes.Contains(text, []byte(`"testing/synctest"`)) {
			findings = append(findings, path+": sleeps in real time; wait for the event, or use testing/synctest for virtual time")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return findings
}
