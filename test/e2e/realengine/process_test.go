package realengine

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// contextTokens gives each of an engine's slots room for the longest prompt.
	contextTokens = 16384
	slots         = 2
	// cacheMiB holds about four documents of 3,000 tokens at 1 KiB a token.
	cacheMiB = 13

	// firstPort is where the replicas listen if nobody else does, so that the same prompts go to the same replicas in
	// every run. It lies below the ports that systems give to outgoing connections.
	firstPort = 28431

	startLimit = 30 * time.Second
	stopLimit  = 15 * time.Second
	pollEvery  = 20 * time.Millisecond
)

// laboratory is what every run needs: an engine, a model and the program under test.
type laboratory struct {
	python string
	model  string
	binary string
}

// startEngines starts count servers with cold caches, waits until all are healthy and returns their addresses. They
// stop when the returned function is called.
func (l laboratory) startEngines(t *testing.T, count int) (addresses []string, stop func()) {
	t.Helper()
	var stops []func()
	for i := range count {
		address, stopOne := l.startEngine(t, free(firstPort+i))
		addresses = append(addresses, address)
		stops = append(stops, stopOne)
	}
	for _, address := range addresses {
		waitFor(t, address+"/health")
	}
	return addresses, func() {
		for _, stopOne := range stops {
			stopOne()
		}
	}
}

func (l laboratory) startEngine(t *testing.T, port int) (address string, stop func()) {
	t.Helper()
	engine := exec.Command(l.python, "serve.py", "--model", l.model, "--alias", modelName, "--port", fmt.Sprint(port),
		"--context", fmt.Sprint(contextTokens), "--slots", fmt.Sprint(slots), "--cache-ram", fmt.Sprint(cacheMiB))
	engine.Stderr = logFile(t, "engine")
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
		end(engine)
	}
	t.Cleanup(stop)
	line, err := bufio.NewReader(announcement).ReadString('\n')
	address, ready := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if err != nil || !ready {
		t.Fatalf("engine: did not start: printed %q: %v", line, err)
	}
	go io.Copy(io.Discard, announcement)
	return address, stop
}

// startWarmpath serves a configuration in front of the engines and returns its address. It stops, and must exit
// cleanly, when the returned function is called.
func (l laboratory) startWarmpath(t *testing.T, r routing, replicas []string) (address string, stop func()) {
	t.Helper()
	data, admin := reserve(t), reserve(t)
	path := filepath.Join(t.TempDir(), "warmpath.yaml")
	if err := os.WriteFile(path, []byte(r.configuration(data, admin, replicas)), 0o644); err != nil {
		t.Fatalf("configuration: %v", err)
	}
	warmpath := exec.Command(l.binary, "serve", "-c", path)
	log := logFile(t, "warmpath")
	warmpath.Stdout, warmpath.Stderr = log, log
	if err := warmpath.Start(); err != nil {
		t.Fatalf("warmpath: %v", err)
	}
	t.Cleanup(func() { warmpath.Process.Kill() })
	waitFor(t, "http://"+admin+"/readyz")
	return "http://" + data, func() {
		warmpath.Process.Signal(syscall.SIGTERM)
		if err := end(warmpath); err != nil {
			t.Errorf("warmpath: after SIGTERM: %v, want a clean exit", err)
		}
	}
}

// routing is how one run chooses replicas.
type routing struct {
	strategy     string
	prefixLength int // 0 for strategies without a prefix window
	threshold    int
}

func (r routing) String() string {
	if r.prefixLength == 0 {
		return r.strategy
	}
	return fmt.Sprintf("%s %d", r.strategy, r.prefixLength)
}

func (r routing) configuration(data, admin string, replicas []string) string {
	knobs := ""
	if r.prefixLength > 0 {
		knobs = fmt.Sprintf(", prefix_length: %d, concurrency_threshold: %d", r.prefixLength, r.threshold)
	}
	return fmt.Sprintf(`data:
  listen: %s
  drain: {delay: 0s, limit: 10s}
admin: {listen: %s}
pools:
  engines:
    engine: llamacpp
    static: [%s]
endpoints:
  chat:
    models: [%s]
    variants:
      - name: main
        pool: engines
        weight: 1
        routing: {strategy: %s%s}
`, data, admin, strings.Join(replicas, ", "), modelName, r.strategy, knobs)
}

// end waits for a process that was told to stop, and kills it if it does not.
func end(process *exec.Cmd) error {
	kill := time.AfterFunc(stopLimit, func() { process.Process.Kill() })
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

// reserve finds an address where nothing listens.
func reserve(t *testing.T) string {
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

// logFile takes a process's messages. They are shown when the test fails.
func logFile(t *testing.T, name string) *os.File {
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
