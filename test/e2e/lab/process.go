package lab

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const (
	startLimit = 30 * time.Second
	stopLimit  = 15 * time.Second
	pollEvery  = 20 * time.Millisecond
)

// end waits for a process that was told to stop, and kills it if it does not.
func end(process *exec.Cmd) error {
	kill := time.AfterFunc(stopLimit, func() { _ = process.Process.Kill() })
	defer kill.Stop()
	return process.Wait()
}

// free is port if nothing listens there, else 0, with which the server takes any.
func free(port int) int {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return 0
	}
	listener.Close()
	return port
}

// Reserve finds an address where nothing listens.
func Reserve(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("address: %v", err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// waitFor polls a page until it answers 200.
func waitFor(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for !answers(ctx, url) {
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not ready after %v", url, startLimit)
		case <-poll.C:
		}
	}
}

func answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// LogFile takes a process's messages. They are shown when the test fails.
func LogFile(t *testing.T, name string) *os.File {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), name)
	if err != nil {
		t.Fatalf("log: %v", err)
	}
	t.Cleanup(func() {
		file.Close()
		if t.Failed() {
			t.Logf("%s said:\n%s", name, lastLines(file.Name(), 20))
		}
	})
	return file
}

func lastLines(path string, count int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-count):], "\n")
}
