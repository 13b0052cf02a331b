// Package lab runs the real Warmpath in front of real llama.cpp servers, for the suites that test it there.
package lab

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// ModelName is what the engines call their model.
const ModelName = "tiny"

const (
	// Slots is how many sequences an engine works on at a time.
	Slots = 2
	// CacheMiB is an engine's memory for idle sequences, beside its slots. It holds about four of 3,000 tokens, at 1 KiB a token.
	CacheMiB = 13

	// firstPort is where the engines listen if nobody else does, so that the same prompts go to the same replicas in
	// every run. It lies below the ports that systems give to outgoing connections.
	firstPort = 28431
)

// Lab is what every run needs: an engine, a model and the program under test.
type Lab struct {
	python string
	model  string
	binary string
}

// New installs the engine, once for each user, writes the model and builds Warmpath, or takes the one that WARMPATH_BINARY names.
// It fails the test if it cannot.
func New(t *testing.T) Lab {
	t.Helper()
	return Lab{python: filepath.Join(llamacpp.Install(t), "python"), model: writeModel(t), binary: warmpathBinary(t)}
}

// NewRouter is New for suites that bring engines of their own.
func NewRouter(t *testing.T) Lab {
	t.Helper()
	return Lab{binary: warmpathBinary(t)}
}

// StartEngines starts count servers with cold caches, each of whose slots has room for context tokens, waits until all are
// healthy and returns their base URLs. They stop when the returned function is called, at the latest when the test ends.
func (l Lab) StartEngines(t *testing.T, count, context int) (urls []string, stop func()) {
	t.Helper()
	var stops []func()
	for i := range count {
		e := l.StartEngine(t, Settings{Port: free(firstPort + i), Slots: Slots, Context: context})
		urls = append(urls, e.URL)
		stops = append(stops, e.Stop)
	}
	return urls, func() {
		for _, stopOne := range stops {
			stopOne()
		}
	}
}

// Command is Warmpath with these arguments, not yet started.
func (l Lab) Command(ctx context.Context, arguments ...string) *exec.Cmd {
	return exec.CommandContext(ctx, l.binary, arguments...)
}

// StartWarmpath serves a configuration and returns when it is ready, which it asks at the admin address. It stops, and must exit
// cleanly, when the returned function is called; it is killed if it still runs when the test ends.
func (l Lab) StartWarmpath(t *testing.T, configuration, admin string) (stop func()) {
	t.Helper()
	stop, _ = l.StartLoggedWarmpath(t, configuration, admin)
	return stop
}

// StartLoggedWarmpath is StartWarmpath, and names the file with what Warmpath says.
func (l Lab) StartLoggedWarmpath(t *testing.T, configuration, admin string) (stop func(), said string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "warmpath.yaml")
	if err := os.WriteFile(path, []byte(configuration), 0o600); err != nil {
		t.Fatalf("configuration: %v", err)
	}
	warmpath := exec.Command(l.binary, "serve", "-c", path)
	log := LogFile(t, "warmpath")
	warmpath.Stdout, warmpath.Stderr = log, log
	if err := warmpath.Start(); err != nil {
		t.Fatalf("warmpath: %v", err)
	}
	t.Cleanup(func() { _ = warmpath.Process.Kill() })
	waitFor(t, "http://"+admin+"/readyz")
	return func() {
		_ = warmpath.Process.Signal(syscall.SIGTERM)
		if err := end(warmpath); err != nil {
			t.Errorf("warmpath: after SIGTERM: %v, want a clean exit", err)
		}
	}, log.Name()
}

// Warmpath runs a command of the program under test to its end, which must be a good one, and returns its standard output.
func (l Lab) Warmpath(t *testing.T, arguments ...string) []byte {
	t.Helper()
	command := exec.CommandContext(t.Context(), l.binary, arguments...)
	command.Stderr = LogFile(t, "warmpath")
	text, err := command.Output()
	if err != nil {
		t.Fatalf("warmpath %s: %v", strings.Join(arguments, " "), err)
	}
	return text
}
