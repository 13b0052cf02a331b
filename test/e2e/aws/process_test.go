package aws

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	startLimit = 30 * time.Second // for what must come; a busy machine may take its time
	pollEvery  = 20 * time.Millisecond

	nobody = "http://127.0.0.1:1" // where nothing listens
)

// output is what a process has said, the last of it if that is much.
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
func run(t *testing.T, binary string, stdout io.Writer, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(binary, args...), ended: make(chan struct{})}
	p.Stdout, p.Stderr = stdout, &p.stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.Wait() // nobody asks for its exit code
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%v said at last:\n%s", args, p.complaints(30))
		}
	})
	return p
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.Process.Kill()
	<-p.ended
}

// complaints is the last lines that the process said, without those that say that all is well.
func (p *process) complaints(lines int) string {
	var all []string
	for line := range strings.Lines(p.stderr.String()) {
		if !strings.Contains(line, "level=INFO msg=request") {
			all = append(all, line)
		}
	}
	return strings.Join(all[max(0, len(all)-lines):], "")
}

// startEngines runs emulated engines in one process and returns their URLs.
func startEngines(t *testing.T, binary string, count int, args ...string) (*process, []string) {
	t.Helper()
	out, in := io.Pipe()
	p := run(t, binary, in, append([]string{"emulate", "--listen", "127.0.0.1:0", "--count", strconv.Itoa(count)}, args...)...)
	lines := bufio.NewReader(out)
	urls := make([]string, count)
	for i := range urls {
		line, err := lines.ReadString('\n')
		url, _, ok := strings.Cut(line, " ")
		if err != nil || !ok {
			t.Fatalf("engines: printed %q: %v", line, err)
		}
		urls[i] = url
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return p, urls
}

// router is a `warmpath serve` process.
type router struct {
	*process
	binary, path         string
	Data, Admin, Control string // base URLs
}

var (
	servingLine = regexp.MustCompile(`msg=serving data=(\S+) admin=(\S+)`)
	controlLine = regexp.MustCompile(`control_plane=(\S+)`)
)

// startRouter serves a configuration whose listeners take any port, and returns when it is ready.
func startRouter(t *testing.T, binary, configuration string) *router {
	t.Helper()
	r := &router{binary: binary, path: filepath.Join(t.TempDir(), "warmpath.yaml")}
	if err := os.WriteFile(r.path, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	r.start(t)
	return r
}

// start runs the router, anew if it has run before.
func (r *router) start(t *testing.T) {
	t.Helper()
	r.process = run(t, r.binary, nil, "serve", "-c", r.path, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	eventually(t, "the router says where it serves", func() bool {
		said := r.stderr.String()
		at, control := servingLine.FindStringSubmatch(said), controlLine.FindStringSubmatch(said)
		if at == nil || control == nil {
			select {
			case <-r.ended:
				t.Fatalf("the router has ended:\n%s", said)
			default:
			}
			return false
		}
		r.Data, r.Admin, r.Control = "http://"+at[1], "http://"+at[2], "http://"+control[1]
		return true
	})
	eventually(t, "the router is ready", func() bool { return status(r.Admin+"/readyz") == http.StatusOK })
}

// metric is the sum of the router's series whose line begins with prefix.
func (r *router) metric(t *testing.T, prefix string) (sum float64) {
	t.Helper()
	resp, err := http.Get(r.Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, prefix) {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			t.Fatalf("metrics: %q: %v", line, err)
		}
		sum += value
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return sum
}

// becomesIdle waits until no request is in flight in the pools whose name begins with prefix.
func (r *router) becomesIdle(t *testing.T, prefix string) {
	t.Helper()
	eventually(t, "nothing is in flight in "+prefix, func() bool { return r.metric(t, `warmpath_in_flight{pool="`+prefix) == 0 })
}

// status asks for a page and returns its status, 0 if there is no answer.
func status(url string) int {
	client := &http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	over := time.After(startLimit)
	for !condition() {
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("within %s it did not come about that %s", startLimit, what)
		}
	}
}
