package aws

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/test/e2e/aws/clients"
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

// installClients puts the SDKs of other languages into the user's cache.
func installClients(t *testing.T) clients.Installed {
	t.Helper()
	installed, err := clients.Install(t.Context(), t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	return installed
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
