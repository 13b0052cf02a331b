package aws

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"
)

// clientLimit is for a whole language.
const clientLimit = 5 * time.Minute

// testPython runs the tests of boto3 and of OpenAI's client for Python.
func (r *rig) testPython(t *testing.T) {
	r.runClient(t, "python", r.clients.Python, "-W", "ignore", "-m", "unittest", "discover", "-v", "-s", "clients/python")
}

// testNode runs the tests of AWS's and OpenAI's clients for JavaScript.
func (r *rig) testNode(t *testing.T) {
	r.runClient(t, "node", r.clients.Node, "--test", "--test-isolation=none", "--test-timeout=60000", "--test-reporter=spec", "clients/node/runtime.test.js", "clients/node/openai.test.js")
}

// runClient runs tests in another language to their end, and looks that they leave nothing behind.
func (r *rig) runClient(t *testing.T, language string, command ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientLimit)
	defer cancel()
	client := exec.CommandContext(ctx, command[0], command[1:]...)
	client.Env = append(os.Environ(), "WARMPATH_RIG="+r.describe(t, language), "NODE_PATH="+r.clients.Modules, "PYTHONDONTWRITEBYTECODE=1")
	text, err := client.CombinedOutput()
	t.Logf("%s\n%s", client.Args, text)
	if err != nil {
		t.Fatal(err)
	}
	r.open.becomesIdle(t, language)
	r.closed.becomesIdle(t, language)
}
