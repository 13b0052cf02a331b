package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// dialError is the error of a dialer that failed with errno.
func dialError(errno syscall.Errno) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}
}

func TestOfStatus(t *testing.T) {
	tests := map[int]Outcome{
		200: Success, 204: Success, 302: Success,
		400: ClientFault, 401: ClientFault, 404: ClientFault, 413: ClientFault, 422: ClientFault,
		429: Overloaded, 503: Overloaded,
		500: ServerFault, 501: ServerFault, 502: ServerFault, 504: ServerFault, 599: ServerFault,
	}
	for code, want := range tests {
		if got := OfStatus(code); got != want {
			t.Errorf("OfStatus(%d): got %s, want %s", code, got, want)
		}
	}
}

func TestOfError(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want Outcome
	}{
		{"port refuses", fmt.Errorf("attempt: %w", dialError(syscall.ECONNREFUSED)), Refused},
		{"no route", dialError(syscall.EHOSTUNREACH), Unreachable},
		{"dial timeout", &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, Unreachable},
		{"no such name", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}, Unreachable},
		{"no ports left here", dialError(syscall.EADDRNOTAVAIL), LocalFault},
		{"no files left here", dialError(syscall.EMFILE), LocalFault},
		{"reset while reading", &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, ServerFault},
		{"connection ended", io.EOF, ServerFault},
		{"cut short", io.ErrUnexpectedEOF, ServerFault},
		{"no answer in time", context.DeadlineExceeded, ServerFault},
		{"client left", fmt.Errorf("attempt: %w", context.Canceled), Cancelled},
		{"anything else", errors.New("malformed HTTP response"), ServerFault},
	}
	for _, tt := range tests {
		if got := OfError(tt.err); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestOfErrorOfRealDials holds that Go's dialer still reports what OfError reads.
func TestOfErrorOfRealDials(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancelLate := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancelLate()
	tests := []struct {
		name string
		ctx  context.Context
		want Outcome
	}{
		{"closed port", t.Context(), Refused},
		{"client left", cancelled, Cancelled},
		{"dial timeout", late, Unreachable},
	}
	for _, tt := range tests {
		conn, err := (&net.Dialer{}).DialContext(tt.ctx, "tcp", address)
		if err == nil {
			conn.Close()
			t.Errorf("%s: the dial succeeded", tt.name)
			continue
		}
		if got := OfError(err); got != tt.want {
			t.Errorf("%s: got %s for %v, want %s", tt.name, got, err, tt.want)
		}
	}
}

func TestOutcomeNames(t *testing.T) {
	seen := map[string]bool{}
	for o := Success; o <= Refused; o++ {
		if name := o.String(); name == "" || seen[name] {
			t.Errorf("outcome %d: name %q is empty or taken", o, name)
		} else {
			seen[name] = true
		}
	}
}
