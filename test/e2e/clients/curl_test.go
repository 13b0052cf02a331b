//go:build e2eclients

package clients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
)

// curl is curl, with HTTP in the version that its option says. The engine is always spoken to in HTTP/1.1.
type curl struct {
	option  string
	version string // that Warmpath must be spoken to with
	engine  func(url string) bool
	open    *exec.Cmd
}

var _ client = (*curl)(nil)

func (c *curl) command(ctx context.Context, url string, request map[string]any) (*exec.Cmd, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	option := c.option
	if c.engine(url) {
		option = "--http1.1"
	}
	command := exec.CommandContext(ctx, "curl", "--silent", "--show-error", "--no-buffer", "--include", "--noproxy", "*", option,
		"--header", "Content-Type: application/json", "--data-binary", "@-", "--write-out", "%{stderr}%{http_version}", url+"/v1/chat/completions")
	command.Stdin = bytes.NewReader(body)
	return command, nil
}

func (c *curl) call(url string, request map[string]any) (o outcome, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	command, err := c.command(ctx, url, request)
	if err != nil {
		return o, err
	}
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		return o, fmt.Errorf("curl: %w: %s", err, said.Bytes())
	}
	if !c.engine(url) && said.String() != c.version {
		return o, fmt.Errorf("curl: spoke HTTP/%s, want %s", said.Bytes(), c.version)
	}
	return response(out)
}

// response reads what curl has printed: a header, or several if there were interim answers, and a body.
func response(printed []byte) (o outcome, err error) {
	for {
		head, rest, whole := bytes.Cut(printed, []byte("\r\n\r\n"))
		if !whole {
			return o, fmt.Errorf("curl: no header in %q", printed)
		}
		version, status, _ := strings.Cut(string(head), " ")
		if printed = rest; strings.HasPrefix(status, "1") {
			continue
		}
		answer := map[string]any{"status": status[:3], "headers": lasting(string(head)), "body": string(rest)}
		if status < "4" {
			return outcome{Answer: answer}, nil
		}
		if !strings.HasPrefix(version, "HTTP/") {
			return o, fmt.Errorf("curl: no status in %q", head)
		}
		return outcome{Error: answer}, nil
	}
}

// lasting is the headers of an answer that are not about one connection and not Warmpath's own.
func lasting(head string) map[string]any {
	headers := map[string]any{}
	for line := range strings.SplitSeq(head, "\r\n") {
		name, value, isHeader := strings.Cut(line, ":")
		name = http.CanonicalHeaderKey(name)
		switch name {
		case "Connection", "Keep-Alive", "Transfer-Encoding", "Content-Length", "Date", "X-Request-Id":
			continue
		}
		if isHeader && !strings.HasPrefix(name, "X-Warmpath-") {
			headers[name] = strings.TrimSpace(value)
		}
	}
	return headers
}

func (c *curl) begin(url string, request map[string]any) error {
	command, err := c.command(context.Background(), url, request)
	if err != nil {
		return err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	c.open = command
	const firstEvents = 3
	lines := bufio.NewReader(out)
	for events := 0; events < firstEvents; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return fmt.Errorf("curl: stream: %w", errors.Join(err, c.leave()))
		}
		if strings.HasPrefix(line, "data: ") {
			events++
		}
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	return nil
}

func (c *curl) leave() error {
	err := c.open.Process.Kill()
	_ = c.open.Wait() // it was killed
	return err
}
