// Package health finds out which replicas can serve and what their engines say of themselves: it probes them, watches how they answer, reads their metrics, and tells the fleet.
package health

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
)

// Outcome is what one attempt says about the replica that it went to.
type Outcome uint8

// The outcomes. Only the last three count against a replica.
const (
	// Success is an answer that came whole, or the first of its content for a trial.
	Success Outcome = iota
	// ClientFault is a 4xx: the replica answered, and it was right.
	ClientFault
	// Cancelled is a client that left before the answer was complete. It says nothing about the replica.
	Cancelled
	// LocalFault is Warmpath's own lack of ports, files or memory. It says nothing about the replica.
	LocalFault
	// Overloaded is a 503 or 429: try another replica. An engine whose queue is full is not broken.
	Overloaded
	// ServerFault is any other 5xx, an error event in a 200, a connection that broke before or within the answer, or no first byte
	// in time.
	ServerFault
	// Unreachable is a connection that could not be made, except for Refused: no route, no such name, no answer in time.
	Unreachable
	// Refused is a connection that the replica's host refused: its process is gone.
	Refused
)

var outcomeNames = [...]string{
	Success: "success", ClientFault: "client_fault", Cancelled: "cancelled", LocalFault: "local_fault",
	Overloaded: "overloaded", ServerFault: "server_fault", Unreachable: "unreachable", Refused: "refused",
}

// String is the outcome as logs and metrics name it.
func (o Outcome) String() string { return outcomeNames[o] }

// answered says that the replica did its work.
func (o Outcome) answered() bool { return o == Success || o == ClientFault }

// accuses says that the attempt counts against the replica.
func (o Outcome) accuses() bool { return o >= ServerFault }

// OfStatus is the outcome of an answer with that status code, as far as the code tells.
func OfStatus(code int) Outcome {
	switch {
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		return Overloaded
	case code >= 500:
		return ServerFault
	case code >= 400:
		return ClientFault
	}
	return Success
}

// exhausted are the errors of a dialer whose own host has run out.
var exhausted = []error{syscall.EADDRNOTAVAIL, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM}

// OfError is the outcome of a round trip that failed with err, which must not be nil. A cancelled context counts as
// Cancelled: a caller that cancels for a reason of its own, such as a timeout, names the outcome itself.
func OfError(err error) Outcome {
	if errors.Is(err, context.Canceled) {
		return Cancelled
	}
	for _, own := range exhausted {
		if errors.Is(err, own) {
			return LocalFault
		}
	}
	var op *net.OpError
	switch {
	case !errors.As(err, &op) || op.Op != "dial":
		return ServerFault
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	}
	return Unreachable
}
