//go:build e2e

// Package fleet runs the real binary, router and emulated engines as processes, kills, reloads and drains them under load, and
// counts what clients notice.
package fleet

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binary is the program under test, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "warmpath-e2e-")
	if err == nil {
		binary = filepath.Join(dir, "warmpath")
		err = build(binary)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// build makes the binary as a release is made.
func build(path string) error {
	cmd := exec.Command("go", "build", "-C", "../../..", "-trimpath", "-ldflags", "-s -w -X main.version=v0.0.0-e2e", "-o", path, "./cmd/warmpath")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}
