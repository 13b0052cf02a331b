// Package lab runs the real Warmpath in front of real llama.cpp servers, for the suites that test it there.
package lab

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
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

//go:embed serve.py
var server string

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
	return Lab{python: installEngine(t), model: writeModel(t), binary: warmpathBinary(t)}
}

// StartEngines starts count servers with cold caches, each of whose slots has room for context tokens, waits until all are
// healthy and returns their base URLs. They stop when the returned function is called, at the latest when the test ends.
func (l Lab) StartEngines(t *testing.T, count, context int) (urls []string, stop func()) {
	t.Helper()
	var stops []func()
	for i := range count {
		url, stopOne := l.startEngine(t, free(firstPort+i), context)
		urls = append(urls, url)
		stops = append(stops, stopOne)
	}
	for _, url := range urls {
		waitFor(t, url+"/health")
	}
	return urls, func() {
		for _, stopOne := range stops {
			stopOne()
		}
	}
}

func (l Lab) startEngine(t *testing.T, port, context int) (url string, stop func()) {
	t.Helper()
	engine := exec.Command(l.python, "-c", server, "--model", l.model, "--alias", ModelName, "--port", fmt.Sprint(port),
		"--context", fmt.Sprint(Slots*context), "--slots", fmt.Sprint(Slots), "--cache-ram", fmt.Sprint(CacheMiB))
	engine.Stderr = LogFile(t, "engine")
	lifeline, err := engine.StdinPipe() // the server lives as long as its standard input is open
	if err != nil {
		t.Fatalf("engine: %v", err)
	}
	announcement, err := engine.StdoutPipe()
	if err != nil {
		t.Fatalf("engine: %v", err)
	}
	if err := engine.Start(); err != nil {
		t.Fatalf("engine: %v", err)
	}
	stop = func() {
		lifeline.Close()
		_ = end(engine) // it was told to stop: how it does is its own affair
	}
	t.Cleanup(stop)
	line, err := bufio.NewReader(announcement).ReadString('\n')
	url, ready := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if err != nil || !ready {
		t.Fatalf("engine: did not start: printed %q: %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, announcement) }()
	return url, stop
}

// StartWarmpath serves a configuration and returns when it is ready, which it asks at the admin address. It stops, and must exit
// cleanly, when the returned function is called; it is killed if it still runs when the test ends.
func (l Lab) StartWarmpath(t *testing.T, configuration, admin string) (stop func()) {
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
	}
}
