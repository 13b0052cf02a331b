//go:build e2eclients

package clients

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/warmpath/warmpath/test/e2e/lab"
)

// callLimit ends a call that hangs. The slowest takes a few seconds, and so does the start of a client, on a machine that is not busy.
const callLimit = 2 * time.Minute

// client is somebody else's, or a program around it.
type client interface {
	// call makes a request and returns what the client gave: an answer, the events of a stream, or an error.
	call(url string, request map[string]any) (outcome, error)
	// begin makes a request for a stream and returns when the client has read its first events.
	begin(url string, request map[string]any) error
	// leave closes the stream that was begun.
	leave() error
}

// program is a client that takes orders, as clients.py says.
type program struct {
	name     string // also of the endpoint that it makes
	process  *exec.Cmd
	orders   *json.Encoder
	outcomes *bufio.Reader
}

var _ client = (*program)(nil)

// startProgram runs until the test ends, which ends the program's standard input.
func startProgram(t *testing.T, name, command string, arguments ...string) *program {
	t.Helper()
	p := &program{name: name, process: exec.Command(command, arguments...)}
	p.process.Env = append(os.Environ(), "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
	p.process.Stderr = lab.LogFile(t, "client")
	in, err := p.process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		kill := time.AfterFunc(callLimit, func() { _ = p.process.Process.Kill() })
		defer kill.Stop()
		if err := p.process.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	p.orders, p.outcomes = json.NewEncoder(in), bufio.NewReader(out)
	return p
}

// follow gives one order and waits for what comes of it.
func (p *program) follow(do, url string, request map[string]any) (o outcome, err error) {
	kill := time.AfterFunc(callLimit, func() { _ = p.process.Process.Kill() })
	defer kill.Stop()
	if err := p.orders.Encode(map[string]any{"do": do, "url": url, "name": p.name, "request": request}); err != nil {
		return o, fmt.Errorf("%s: %w", do, err)
	}
	line, err := p.outcomes.ReadBytes('\n')
	if err != nil && err != io.EOF {
		return o, fmt.Errorf("%s: %w", do, err)
	}
	if err := json.Unmarshal(line, &o); err != nil {
		return o, fmt.Errorf("%s: the client has said %q: %w", do, line, err)
	}
	return o, nil
}

// must is an order that has an answer.
func (p *program) must(do, url string, request map[string]any) (answer any, err error) {
	o, err := p.follow(do, url, request)
	if err == nil && o.Error != nil {
		err = fmt.Errorf("%s: %v", do, o.Error)
	}
	return o.Answer, err
}

func (p *program) call(url string, request map[string]any) (outcome, error) {
	return p.follow("call", url, request)
}

func (p *program) begin(url string, request map[string]any) error {
	_, err := p.must("begin", url, request)
	return err
}

func (p *program) leave() error {
	_, err := p.must("leave", "", nil)
	return err
}
