package lab

import (
	"bufio"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

//go:embed serve.py
var server string

// Settings are how one engine is started.
type Settings struct {
	Port    int    // 0 for any
	Slots   int    // sequences that it works on at a time
	Context int    // tokens that each slot has room for
	APIKey  string // asked of its clients; empty = none
}

// Engine is one llama.cpp server.
type Engine struct {
	URL string

	process  *exec.Cmd
	lifeline io.Closer // the server lives as long as its standard input is open
	gone     chan struct{}
}

// StartEngine starts a server with a cold cache and waits until it is healthy. It stops when Stop is called, at the latest when the
// test ends.
func (l Lab) StartEngine(t *testing.T, s Settings) *Engine {
	t.Helper()
	process := exec.Command(l.python, "-c", server, "--model", l.model, "--alias", ModelName, "--port", fmt.Sprint(s.Port),
		"--context", fmt.Sprint(s.Slots*s.Context), "--slots", fmt.Sprint(s.Slots), "--cache-ram", fmt.Sprint(CacheMiB))
	if s.APIKey != "" {
		process.Args = append(process.Args, "--api-key", s.APIKey)
	}
	process.Stderr = LogFile(t, "engine")
	lifeline, err := process.StdinPipe()
	if err != nil {
		t.Fatalf("engine: %v", err)
	}
	announcement, err := process.StdoutPipe()
	if err != nil {
		t.Fatalf("engine: %v", err)
	}
	if err := process.Start(); err != nil {
		t.Fatalf("engine: %v", err)
	}
	e := &Engine{process: process, lifeline: lifeline, gone: make(chan struct{})}
	t.Cleanup(e.Stop)
	line, err := bufio.NewReader(announcement).ReadString('\n')
	go func() {
		defer close(e.gone)
		_ = process.Wait() // how it ends is its own affair
	}()
	url, ready := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if err != nil || !ready {
		t.Fatalf("engine: did not start: printed %q: %v", line, err)
	}
	e.URL = url
	waitFor(t, url+"/health")
	return e
}

// Stop lets the engine shut down in order, and kills it if that takes long.
func (e *Engine) Stop() {
	e.lifeline.Close()
	kill := time.AfterFunc(stopLimit, func() { _ = e.process.Process.Kill() })
	defer kill.Stop()
	<-e.gone
}

// Signal sends a signal to the engine's process.
func (e *Engine) Signal(t *testing.T, signal os.Signal) {
	t.Helper()
	if err := e.process.Process.Signal(signal); err != nil {
		t.Fatalf("engine: %v: %v", signal, err)
	}
}

// Gone is closed when the engine's process has ended.
func (e *Engine) Gone() <-chan struct{} { return e.gone }
