//go:build e2eclients

package clients

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/test/e2e/lab"
)

// sdks is the module that has the clients for Go, and installs the others.
const sdks = "../aws"

// installed is where the clients are.
type installed struct {
	Python, Node, Modules string
	golang                string
}

// install installs the clients, once for each user, and builds the program around those for Go.
func install(t *testing.T) (i installed) {
	t.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatalf("clients: %v: install curl", err)
	}
	said := lab.Output(t, "go", "run", "-C", sdks, "./clients/install")
	if err := json.Unmarshal([]byte(said[strings.LastIndexByte(said, '\n')+1:]), &i); err != nil {
		t.Fatalf("clients: %v: %s", err, said)
	}
	i.golang = filepath.Join(t.TempDir(), "golang")
	lab.Output(t, "go", "build", "-C", sdks, "-o", i.golang, "./clients/golang")
	return i
}

func (i installed) pythonClient(name string) []string { return []string{i.Python, "clients.py", name} }

func (i installed) nodeClient() []string { return []string{i.Node, "openai.mjs", i.Modules} }

func (i installed) goClient(name string) []string { return []string{i.golang, name} }
