//go:build e2e

package fleet

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	// firstPort is where engines listen, each at a port of its own, if nobody else does. It lies below the ports that systems give to
	// outgoing connections, so that an engine finds its port free when it returns.
	firstPort = 21731

	startLimit = 30 * time.Second // for what must come; a busy machine may take its time
	pollEvery  = 10 * time.Millisecond
)

// output is what a process has printed, the last of it if that is much: a line a request adds up.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.buf.Len() > 1<<20 {
		o.buf.Next(o.buf.Len() / 2)
	}
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// process is one run of the binary.
type process struct {
	*exec.Cmd
	stderr output
	ended  chan struct{} // closed when it has been waited for
}

// run starts the binary. It is killed when the test ends, if it still runs; what it said is shown if the test fails.
func run(t testing.TB, stdout io.Writer, args ...string) *process {
	t.Helper()
	return runWith(t, stdout, nil, args...)
}

// runWith is run with a standard input.
func runWith(t testing.TB, stdout io.Writer, stdin io.Reader, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(binary, args...), ended: make(chan struct{})}
	p.Stdin, p.Stdout, p.Stderr = stdin, stdout, &p.stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.Wait() // its exit code is read from ProcessState
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%v said at last:\n%s", args, tail(p.stderr.String(), 30))
		}
	})
	return p
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.Process.Kill()
	<-p.ended
}

// exit waits for the process to end by itself and returns its exit code.
func (p *process) exit(t testing.TB, limit time.Duration) int {
	t.Helper()
	select {
	case <-p.ended:
		return p.ProcessState.ExitCode()
	case <-time.After(limit):
		t.Fatalf("it still runs %s after it was to end", limit)
		return -1
	}
}

// tail is the last lines of a log, without those that say that all is well.
func tail(text string, lines int) string {
	var all []string
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "level=INFO msg=request") {
			all = append(all, line)
		}
	}
	return strings.Join(all[max(0, len(all)-lines):], "")
}

// engine is a `warmpath emulate` process.
type engine struct {
	*process
	address string
	args    []string
}

// ports counts the ports that engines were given.
var ports atomic.Int32

// startEngines starts count engines, each a process of its own.
func startEngines(t testing.TB, count int, args ...string) []*engine {
	t.Helper()
	engines := make([]*engine, count)
	for i := range engines {
		engines[i] = &engine{address: free(firstPort + int(ports.Add(1))), args: args}
		engines[i].start(t)
	}
	return engines
}

// start runs the engine, anew if it has run before, and returns when it listens.
func (e *engine) start(t testing.TB) {
	t.Helper()
	out, in := io.Pipe()
	e.process = run(t, in, append([]string{"emulate", "--listen", e.address}, e.args...)...)
	line, err := bufio.NewReader(out).ReadString('\n')
	url, _, ok := strings.Cut(line, " ")
	if err != nil || !ok {
		t.Fatalf("engine: printed %q: %v", line, err)
	}
	e.address = strings.TrimPrefix(url, "http://")
	go func() { _, _ = io.Copy(io.Discard, out) }()
}

func (e *engine) url() string { return "http://" + e.address }

// fault puts a fault of the emulator in force.
func (e *engine) fault(t testing.TB, script string) {
	t.Helper()
	resp, err := http.Post(e.url()+"/emulator/faults", "application/json", strings.NewReader(fmt.Sprintf("%q", script)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("fault %s: %s: %s", script, resp.Status, text)
	}
}

// free is the address of that port if nothing listens there, else one with which the engine takes any.
func free(port int) string {
	address := fmt.Sprintf("127.0.0.1:%d", port)
	l, err := net.Listen("tcp", address)
	if err != nil {
		return "127.0.0.1:0"
	}
	l.Close()
	return address
}

// router is a `warmpath serve` process.
type router struct {
	*process
	path        string // of its configuration
	data, admin string // base URLs
}

var servingLine = regexp.MustCompile(`msg=serving data=(\S+) admin=(\S+)`)

// startRouter serves a configuration, whose listeners take any port, and returns when it is ready.
func startRouter(t testing.TB, configuration string, args ...string) *router {
	t.Helper()
	r := &router{path: filepath.Join(t.TempDir(), "warmpath.yaml")}
	r.configure(t, configuration)
	r.process = run(t, nil, append([]string{"serve", "-c", r.path, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)...)
	eventually(t, startLimit, "it says where it serves", func() bool {
		at := servingLine.FindStringSubmatch(r.stderr.String())
		if at == nil {
			return false
		}
		r.data, r.admin = "http://"+at[1], "http://"+at[2]
		return true
	})
	eventually(t, startLimit, "it is ready", func() bool { return answers(r.admin+"/readyz") == http.StatusOK })
	return r
}

// configure puts a configuration in the file's place in one step, as careful tools do.
func (r *router) configure(t testing.TB, text string) {
	t.Helper()
	next := r.path + ".next"
	err := os.WriteFile(next, []byte(text), 0o600)
	if err = errors.Join(err, os.Rename(next, r.path)); err != nil {
		t.Fatal(err)
	}
}

func (r *router) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := r.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// configuration is one pool of engines and one endpoint with a strategy.
func configuration(strategy string, engines ...*engine) string {
	urls := make([]string, len(engines))
	for i, e := range engines {
		urls[i] = e.url()
	}
	return configurationOf(strategy, urls)
}

func configurationOf(strategy string, urls []string) string {
	routing := "{strategy: " + strategy + "}"
	if strategy == "PREFIX_AWARE" {
		routing = "{strategy: PREFIX_AWARE, prefix_length: 1024, concurrency_threshold: 16}"
	}
	return fmt.Sprintf("data: {drain: {delay: 3s, limit: 30s}}\npools: {engines: {engine: vllm, static: [%s]}}\nendpoints: {chat: {variants: [{pool: engines, routing: %s}]}}\n",
		strings.Join(urls, ", "), routing)
}

// answers asks for a page on a new connection and returns its status, 0 if there is no answer.
func answers(url string) int {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// eventually waits for a condition.
func eventually(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	over := time.After(limit)
	for !condition() {
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("within %s it did not come about that %s", limit, what)
		}
	}
}

// pause waits for time to pass, under a load that goes on.
func pause(d time.Duration) { <-time.After(d) }
