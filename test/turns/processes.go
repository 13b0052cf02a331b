package turns

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	startLimit = 30 * time.Second
	pollEvery  = 50 * time.Millisecond
)

// Processes are the children of a driver, in order of their start.
type Processes []*exec.Cmd

// Run starts a command. What it prints goes to where the command says.
func (p *Processes) Run(c *exec.Cmd) error {
	if err := c.Start(); err != nil {
		return err
	}
	*p = append(*p, c)
	return nil
}

// Role runs this program in another role, see [Serve], and reads its URL from its first line.
func (p *Processes) Role(role ...string) (Contender, error) {
	self, err := os.Executable()
	if err != nil {
		return Contender{}, err
	}
	c := exec.Command(self, role...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return Contender{}, err
	}
	if err := p.Run(c); err != nil {
		return Contender{}, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	return Contender{URL: strings.TrimSpace(line), PID: c.Process.Pid}, err
}

// Warmpath runs the router as its users do: probes, metrics and access log on, and the default strategy unless flags say another.
func (p *Processes) Warmpath(ctx context.Context, binary string, engines []string, flags ...string) (Contender, error) {
	addresses, err := FreeAddresses(2)
	if err != nil {
		return Contender{}, err
	}
	args := append([]string{"serve", "--listen", addresses[0], "--admin-listen", addresses[1], "--log-format", "json"}, flags...)
	for _, engine := range engines {
		args = append(args, "--replica", engine)
	}
	c := exec.Command(binary, args...)
	if err := p.Run(c); err != nil {
		return Contender{}, fmt.Errorf("%w; build it first with `make build`", err)
	}
	up := Contender{URL: "http://" + addresses[0], PID: c.Process.Pid}
	return up, Await(ctx, binary, func() (*http.Response, error) { return http.Get("http://" + addresses[1] + "/readyz") })
}

// Stop kills all processes, the latest first, and those that they have started.
func (p *Processes) Stop() {
	for len(*p) > 0 {
		last := len(*p) - 1
		kill((*p)[last])
		*p = (*p)[:last]
	}
}

// kill ends a process and all that it has started. Nobody waits for a drain here.
func kill(c *exec.Cmd) {
	for _, pid := range tree(readStats(), c.Process.Pid) {
		if process, err := os.FindProcess(pid); err == nil {
			_ = process.Kill()
		}
	}
	_ = c.Process.Kill() // where there is no /proc
	_ = c.Wait()         // it was killed: that is its error
}

// Await asks until the answer is 200. The error names who did not become ready.
func Await(ctx context.Context, name string, ask func() (*http.Response, error)) error {
	var last error
	for deadline := time.Now().Add(startLimit); time.Now().Before(deadline); Sleep(ctx, pollEvery) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		resp, err := ask()
		if last = err; err != nil {
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			return nil
		}
		last = errors.New(resp.Status)
	}
	return fmt.Errorf("%s did not become ready within %v: %w", name, startLimit, last)
}

// FreeAddresses gives addresses of loopback where nobody listens.
func FreeAddresses(n int) ([]string, error) {
	addresses := make([]string, n)
	for i := range addresses {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addresses[i] = l.Addr().String()
	}
	return addresses, nil
}
