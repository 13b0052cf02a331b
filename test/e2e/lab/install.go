package lab

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/test/e2e/lab/tinymodel"
)

// binaryVariable names a Warmpath to use instead of building one.
const binaryVariable = "WARMPATH_BINARY"

// llamacpp carries llama.cpp's whole server. MIT licence.
var llamacpp = Package{Name: "xllamacpp", Release: "2026.10.11549"}

// Repository is the root of the source tree, seen from the folder of a suite, in which its tests run.
func Repository(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatalf("repository: %v", err)
	}
	return root
}

// Package is one of PyPI's.
type Package struct {
	Name, Release string
	// Python is the only version that it runs on, such as 3.12; empty = that of python3.
	Python string
	// Fill installs it by the Python of its environment; nil = Pip does, by name and release.
	Fill func(python string)
}

// Install puts the package into an environment of its own in the user's cache, once, and returns the folder of its programs,
// python among them.
func (p Package) Install(t *testing.T) (programs string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("%s: cache folder: %v", p.Name, err)
	}
	folder := filepath.Join(cache, "warmpath")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatalf("%s: %v", p.Name, err)
	}
	interpreter, version := p.interpreter(t)
	environment := filepath.Join(folder, fmt.Sprintf("%s-%s-python%s", p.Name, p.Release, version))
	programs = filepath.Join(environment, "bin")
	// Written last, so that an interrupted installation is not taken for a whole one.
	installed := filepath.Join(environment, "installed")
	if _, err := os.Stat(installed); err == nil {
		return programs
	}
	t.Logf("installing %s %s into %s", p.Name, p.Release, environment)
	Output(t, interpreter, "-m", "venv", "--clear", environment)
	if python := filepath.Join(programs, "python"); p.Fill != nil {
		p.Fill(python)
	} else {
		Pip(t, python, p.Name+"=="+p.Release)
	}
	if err := os.WriteFile(installed, nil, 0o644); err != nil {
		t.Fatalf("%s: %v", p.Name, err)
	}
	return programs
}

// Pip installs packages into the environment of a Python, with pip's options among them. What they need compiled is compiled when it
// is first used.
func Pip(t *testing.T, python string, packages ...string) {
	t.Helper()
	Output(t, python, append([]string{"-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"}, packages...)...)
}

// interpreter finds the Python that the package asks for, on the path or among pyenv's, and its version.
func (p Package) interpreter(t *testing.T) (path, version string) {
	t.Helper()
	candidates := []string{"python" + p.Python}
	if p.Python == "" {
		candidates = []string{"python3"}
	} else if home, err := os.UserHomeDir(); err == nil {
		found, _ := filepath.Glob(filepath.Join(cmp.Or(os.Getenv("PYENV_ROOT"), filepath.Join(home, ".pyenv")), "versions", p.Python+".*", "bin", "python3"))
		candidates = append(candidates, found...)
	}
	for _, candidate := range candidates {
		// A shim of pyenv can be there without the version that it stands for.
		said, err := exec.CommandContext(t.Context(), candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").Output()
		if version = strings.TrimSpace(string(said)); err == nil && (p.Python == "" || version == p.Python) {
			return candidate, version
		}
	}
	t.Fatalf("%s: no Python %s: install it with pip and venv, and put it into PATH", p.Name, p.Python)
	return "", ""
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
