// Package telemetry turns what happens to requests and replicas into Prometheus metrics and log lines, and keeps prompts, keys and query strings out of both.
package telemetry

import "time"

// StatusClientClosed is the Status of a request whose client left before any answer could be sent (nginx's convention).
const StatusClientClosed = 499

// The values of Request.Outcome.
const (
	OutcomeOK              = "ok"               // answered in full with a status below 400
	OutcomeClientError     = "client_error"     // the engine found fault with the request
	OutcomeRefused         = "refused"          // Warmpath answered by itself: Request.Code says why
	OutcomeUpstreamError   = "upstream_error"   // no replica gave a usable answer, or the engine answered 5xx
	OutcomeUpstreamAborted = "upstream_aborted" // the engine broke off an answer that had begun
	OutcomeClientCancelled = "client_cancelled" // the client left before its answer was complete
	OutcomeTimeout         = "timeout"          // a limit on the engine's answer ran out
)

// Request is what is known of one request when it has ended: one access line and one set of metric updates.
//
// API, Key, Endpoint, Variant, Replica, Strategy, Decision, Outcome and Code must come from configuration or from Warmpath's own
// constants, never from the client, because they become labels. A request that named no known endpoint leaves Endpoint empty.
type Request struct {
	ID     string
	Method string
	Path   string // URL path without the query: logged, never a label
	API    string // the dialect's name: openai, anthropic, sagemaker
	Key    string // the name of the key that showed who the caller is; empty = none did, or nobody is asked

	Endpoint string
	Variant  string
	Replica  string // the replica that gave the answer or was tried last; empty if none was
	Strategy string
	Decision string // why this replica: affinity, overflow, fallback, random, least_outstanding, least_latency, session, retry

	Status   int    // as sent to the client; StatusClientClosed if the client left before headers
	Outcome  string // one of the Outcome constants
	Code     string // Warmpath's machine-readable reason; empty if the answer is an engine's
	Stream   bool
	Attempts int // requests sent to replicas, 0 or more

	Start      time.Time
	Decide     time.Duration // spent choosing a replica
	Dispatched time.Duration // from Start to the choice of the replica
	Connect    time.Duration // spent on getting a connection
	FirstByte  time.Duration // from Start to the first byte of the answer; as with all phases, zero = did not happen
	FirstToken time.Duration // from Start to the first generated token
	EngineDone time.Duration // from Start to the end of the engine's answer, whole or broken off
	Total      time.Duration // from Start to the end
	Added      time.Duration // Warmpath's own time: from the body being read to the request being handed to the transport

	BytesIn  int64 // body bytes from the client
	BytesOut int64 // body bytes to the client
	Chunks   int64 // content chunks seen in a stream

	PromptTokens int64 // the three counts are the engine's own and hold only if HasUsage
	CachedTokens int64
	OutputTokens int64
	HasUsage     bool
	CachedKnown  bool // CachedTokens was reported too, 0 included, and is not one of several prompts' in the request

	// PredictedHit is the share of the prompt that the strategy believed to be in the replica's cache when it chose it, 0 to 1; it
	// holds only if Predicted: most strategies believe nothing.
	PredictedHit float64
	Predicted    bool

	// PrefixKey is what PREFIX_AWARE places the request by; it holds only if HasPrefixKey.
	PrefixKey    uint64
	HasPrefixKey bool

	// Shadow says that this was the copy of a client's request that a shadow variant got. All else is then about the copy.
	Shadow bool

	Err string // the last upstream error, never body content
}

// interToken is the mean time between the content chunks of a stream, and whether the stream had two or more. An engine may
// put several tokens in one chunk, so it bounds the time per token from above.
func (r *Request) interToken() (time.Duration, bool) {
	if r.Chunks < 2 || r.FirstToken <= 0 || r.Total < r.FirstToken {
		return 0, false
	}
	return (r.Total - r.FirstToken) / time.Duration(r.Chunks-1), true
}

// predictedTokens is the prediction in the engine's tokens, and whether it can be held against what the engine found: the engine
// counts the prompt otherwise than the strategy, which estimates, so its share is what can be compared.
func (r *Request) predictedTokens() (float64, bool) {
	if !r.Predicted || !r.HasUsage || !r.CachedKnown || r.PromptTokens < 0 || r.CachedTokens < 0 {
		return 0, false
	}
	return r.PredictedHit * float64(r.PromptTokens), true
}

// engineTime is how long the engine took for the first byte and for the whole of its answer, as seen from here: from the choice of
// the replica on, so with the connection and the sending. Zero = there was no answer, or nobody heard it to its end.
func (r *Request) engineTime() (first, whole time.Duration) {
	if r.FirstByte <= 0 || r.FirstByte < r.Dispatched {
		return 0, 0
	}
	return r.FirstByte - r.Dispatched, max(0, r.EngineDone-r.Dispatched)
}

// brokenOff says that an answer failed after the client had been told of its success.
func brokenOff(outcome string, status int) bool {
	return status > 0 && status < 400 && faulty(outcome)
}

// failed says that an operator should look: the client got a server error or less than a whole answer through no act of its
// own.
func (r *Request) failed() bool {
	return faulty(r.Outcome) || r.Status >= 500
}

// faulty says that an outcome is the engine's fault or a time limit's.
func faulty(outcome string) bool {
	switch outcome {
	case OutcomeUpstreamError, OutcomeUpstreamAborted, OutcomeTimeout:
		return true
	}
	return false
}
