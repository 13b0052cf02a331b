package aws

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// binaryVariable names a Warmpath to use instead of building one.
const binaryVariable = "WARMPATH_BINARY"

// buildBinary builds the program under test as a release is built, or takes the one that the environment names.
func buildBinary(t *testing.T) (path string) {
	t.Helper()
	if path = os.Getenv(binaryVariable); path != "" {
		return path
	}
	path = filepath.Join(t.TempDir(), "warmpath")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../../..", "-trimpath", "-o", path, "./cmd/warmpath")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	finish(t, build)
	return path
}

// clients are the SDKs of other languages, in a folder of the user's cache.
type clients struct {
	python, node string // the interpreters
	modules      string // Node's packages
}

// installClients puts what clients/ lists into the cache, once for each version of the lists.
func installClients(t *testing.T) clients {
	t.Helper()
	lists := []string{"clients/python/requirements.txt", "clients/node/package.json", "clients/node/package-lock.json"}
	folder := cacheFolder(t, lists)
	bin := filepath.Join(folder, "python", "bin")
	c := clients{python: filepath.Join(bin, "python"), node: filepath.Join(bin, "node"), modules: filepath.Join(folder, "node", "node_modules")}
	// Written last, so that an interrupted installation is not taken for a whole one.
	installed := filepath.Join(folder, "installed")
	if _, err := os.Stat(installed); err == nil {
		return c
	}
	t.Logf("installing boto3, openai and Node into %s", folder)
	finish(t, exec.CommandContext(t.Context(), "python3", "-m", "venv", "--clear", filepath.Join(folder, "python")))
	finish(t, exec.CommandContext(t.Context(), c.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", lists[0]))
	if err := os.CopyFS(filepath.Join(folder, "node"), os.DirFS("clients/node")); err != nil && !os.IsExist(err) {
		t.Fatalf("clients: %v", err)
	}
	npm := exec.CommandContext(t.Context(), filepath.Join(bin, "npm"), "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	npm.Dir = filepath.Join(folder, "node")
	npm.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	finish(t, npm)
	if err := os.WriteFile(installed, nil, 0o600); err != nil {
		t.Fatalf("clients: %v", err)
	}
	return c
}

// cacheFolder is where the clients of these lists belong. Another list, Python or processor is another folder.
func cacheFolder(t *testing.T, lists []string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("clients: cache folder: %v", err)
	}
	sum := sha256.New()
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatalf("clients: %v", err)
		}
		sum.Write(text)
	}
	python := finish(t, exec.CommandContext(t.Context(), "python3", "-c", "import sys, platform; print('python%d.%d-%s' % (*sys.version_info[:2], platform.machine()))"))
	return filepath.Join(cache, "warmpath", fmt.Sprintf("aws-clients-%.6x-%s", sum.Sum(nil), python))
}

// finish runs a command to its end and returns what it printed.
func finish(t *testing.T, command *exec.Cmd) string {
	t.Helper()
	text, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command.Args, " "), err, text)
	}
	return strings.TrimSpace(string(text))
}
