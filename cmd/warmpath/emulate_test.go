package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEmulateServesUntilInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	out, in := io.Pipe()
	c := newEmulateCommand()
	c.SetArgs([]string{"--listen", "127.0.0.1:0", "--count", "2", "--model", "tiny", "--preset", "8b", "--time-scale", "100"})
	c.SetOut(in)
	ended := make(chan error, 1)
	go func() {
		ended <- c.ExecuteContext(ctx)
		in.Close()
	}()
	lines := bufio.NewScanner(out)
	for range 2 {
		if !lines.Scan() {
			t.Fatal("no line for an engine")
		}
		url, rest, _ := strings.Cut(lines.Text(), " ")
		if want := " model tiny, preset 8b, 65536 tokens of cache"; rest != want {
			t.Errorf("got %q, want %q", rest, want)
		}
		resp, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"model":"tiny","prompt":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("got %s", resp.Status)
		}
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Errorf("got %v, want a clean end", err)
	}
}

func TestEmulateErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	for _, tt := range []struct {
		args  string
		want  string
		usage bool
	}{
		{"--listen " + address, "emulate: " + address + " is in use; pick another with --listen", false},
		{"--listen 9000", `emulate: --listen: "9000" is not HOST:PORT`, true},
		{"--listen 127.0.0.1:99999", `emulate: --listen: "99999" is not a port; use 0 to 65535`, true},
		{"--listen 127.0.0.1:65535 --count 2", "emulate: --count: 2 ports from 65535 on end above 65535", true},
		{"--count 0", "emulate: --count: 0 is out of range; use 1 or more", true},
		{"--slots -1", "emulate: --slots: -1 is out of range", true},
		{"--preset 3b", `emulate: --preset: preset "3b": not known; use 70b, 8b or slots`, true},
		{"--cache-tokens 8", "emulate: --cache-tokens: 8 is less than one block; use 16 or more", true},
		{"--time-scale 0", "emulate: --time-scale: 0 is out of range", true},
		{"--fault resett", `emulate: --fault: fault "resett": kind "resett": not known; did you mean reset?`, true},
		{"--fault reset,after=1", "emulate: --fault: fault \"reset,after=1\": reset: after does not apply", true},
	} {
		c := newEmulateCommand()
		c.SilenceErrors, c.SilenceUsage = true, true
		c.SetArgs(strings.Fields(tt.args))
		err := c.ExecuteContext(t.Context())
		var usage usageError
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) || errors.As(err, &usage) != tt.usage {
			t.Errorf("%s: got error %v (usage %t), want %q", tt.args, err, errors.As(err, &usage), tt.want)
		}
	}
}

func TestConsecutive(t *testing.T) {
	for listen, want := range map[string][]string{
		"127.0.0.1:9000": {"127.0.0.1:9000", "127.0.0.1:9001"},
		"127.0.0.1:0":    {"127.0.0.1:0", "127.0.0.1:0"},
		"[::1]:9000":     {"[::1]:9000", "[::1]:9001"},
		":9000":          {":9000", ":9001"},
	} {
		got, err := consecutive(listen, 2)
		if err != nil {
			t.Errorf("%s: %v", listen, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", listen, diff)
		}
	}
}
