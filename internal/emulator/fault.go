package emulator

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/suggest"
)

// The kinds of fault. Those of the engine's state hold while they are set; the others strike requests, or probes.
const (
	FaultRefuse         = "refuse"           // state: the port refuses connections; open ones live on
	FaultSlow           = "slow"             // state: steps take factor times as long
	FaultStall          = "stall"            // state: the scheduler stops; with refuse, vLLM after SIGTERM under load
	FaultUnhealthy      = "unhealthy"        // probes: /health and /ping answer 503
	FaultReset          = "reset"            // the connection is reset before any answer
	FaultHang           = "hang"             // no byte, or no further byte after some tokens
	FaultStatus         = "status"           // an error status instead of an answer
	FaultRateLimit      = "rate-limit"       // 429 with Retry-After
	FaultResetMidStream = "reset-mid-stream" // the connection is reset after some tokens
	FaultBrokenChunk    = "broken-chunk"     // an invalid chunk size after some tokens
	FaultErrorEvent     = "error-event"      // an error event and [DONE] inside the 200, as when the engine core dies
	FaultNoDone         = "no-done"          // a stream ends cleanly after some tokens, without [DONE]
)

var (
	stateFaults  = []string{FaultRefuse, FaultSlow, FaultStall}
	streamFaults = []string{FaultHang, FaultResetMidStream, FaultBrokenChunk, FaultErrorEvent, FaultNoDone}
	faultKinds   = []string{FaultRefuse, FaultSlow, FaultStall, FaultUnhealthy, FaultReset, FaultHang, FaultStatus,
		FaultRateLimit, FaultResetMidStream, FaultBrokenChunk, FaultErrorEvent, FaultNoDone}
)

// Fault is one entry of a fault script.
type Fault struct {
	Kind        string        `json:"kind"`                 // one of the Fault constants
	Path        string        `json:"path,omitzero"`        // prefix of the paths it strikes; all when empty
	Count       int           `json:"count,omitzero"`       // requests it strikes before it is spent; 0 = no end
	Probability float64       `json:"probability,omitzero"` // of striking a request that matches, up to 1; 0 means 1
	After       int           `json:"after,omitzero"`       // tokens sent before it strikes, for faults inside an answer
	Code        int           `json:"code,omitzero"`        // of FaultStatus, 400 to 599; default 503
	RetryAfter  int           `json:"retry_after,omitzero"` // seconds, of FaultRateLimit; default 1
	Factor      float64       `json:"factor,omitzero"`      // of FaultSlow, above 0; default 2
	For         time.Duration `json:"-"`                    // how long it holds; 0 = until it is removed
}

// ParseFault reads the compact form KIND[,KEY=VALUE]..., as in "reset-mid-stream,after=3,count=2". The keys are path,
// count, probability, after, code, retry-after, factor and for.
func ParseFault(script string) (Fault, error) {
	kind, rest, more := strings.Cut(script, ",")
	f := Fault{Kind: kind}
	for more {
		var option string
		option, rest, more = strings.Cut(rest, ",")
		key, value, ok := strings.Cut(option, "=")
		if !ok {
			return Fault{}, fmt.Errorf("fault %q: %q is not KEY=VALUE", script, option)
		}
		if err := f.set(key, value); err != nil {
			return Fault{}, fmt.Errorf("fault %q: %s: %w", script, key, err)
		}
	}
	if err := f.validate(); err != nil {
		return Fault{}, fmt.Errorf("fault %q: %w", script, err)
	}
	return f, nil
}

func (f *Fault) set(key, value string) (err error) {
	switch key {
	case "path":
		f.Path = value
	case "count":
		f.Count, err = strconv.Atoi(value)
	case "probability":
		f.Probability, err = strconv.ParseFloat(value, 64)
	case "after":
		f.After, err = strconv.Atoi(value)
	case "code":
		f.Code, err = strconv.Atoi(value)
	case "retry-after":
		f.RetryAfter, err = strconv.Atoi(value)
	case "factor":
		f.Factor, err = strconv.ParseFloat(value, 64)
	case "for":
		f.For, err = time.ParseDuration(value)
	default:
		return errors.New("not a key; use path, count, probability, after, code, retry-after, factor or for")
	}
	if err != nil {
		return fmt.Errorf("%q cannot be read: %w", value, err)
	}
	return nil
}

// String returns the compact form that ParseFault reads.
func (f Fault) String() string {
	b := []byte(f.Kind)
	option := func(set bool, key string, value any) {
		if set {
			b = fmt.Appendf(b, ",%s=%v", key, value)
		}
	}
	option(f.Path != "", "path", f.Path)
	option(f.Count != 0, "count", f.Count)
	option(f.Probability != 0, "probability", f.Probability)
	option(f.After != 0, "after", f.After)
	option(f.Code != 0, "code", f.Code)
	option(f.RetryAfter != 0, "retry-after", f.RetryAfter)
	option(f.Factor != 0, "factor", f.Factor)
	option(f.For != 0, "for", f.For)
	return string(b)
}

func (f Fault) validate() error {
	inAnswer := slices.Contains(streamFaults, f.Kind)
	switch {
	case !slices.Contains(faultKinds, f.Kind):
		return unknownKind(f.Kind)
	case f.Count < 0 || f.After < 0 || f.RetryAfter < 0 || f.For < 0:
		return errors.New("count, after, retry-after and for: must not be negative")
	case !(f.Probability >= 0 && f.Probability <= 1):
		return fmt.Errorf("probability: %g is out of range; use 0 to 1", f.Probability)
	case !(f.Factor >= 0 && f.Factor <= math.MaxInt32):
		return fmt.Errorf("factor: %g is out of range; use a number above 0", f.Factor)
	case f.Code != 0 && (f.Code < 400 || f.Code > 599):
		return fmt.Errorf("code: %d is out of range; use 400 to 599", f.Code)
	case slices.Contains(stateFaults, f.Kind) && (f.Path != "" || f.Count != 0 || f.Probability != 0):
		return fmt.Errorf("%s: holds for the whole engine; path, count and probability do not apply", f.Kind)
	case f.After != 0 && !inAnswer:
		return fmt.Errorf("%s: after does not apply; it does to %s", f.Kind, strings.Join(streamFaults, ", "))
	case f.Code != 0 && f.Kind != FaultStatus:
		return fmt.Errorf("%s: code does not apply; use it with %s", f.Kind, FaultStatus)
	case f.RetryAfter != 0 && f.Kind != FaultRateLimit:
		return fmt.Errorf("%s: retry-after does not apply; use it with %s", f.Kind, FaultRateLimit)
	case f.Factor != 0 && f.Kind != FaultSlow:
		return fmt.Errorf("%s: factor does not apply; use it with %s", f.Kind, FaultSlow)
	}
	return nil
}

func unknownKind(kind string) error {
	if meant := suggest.Closest(kind, faultKinds); meant != "" {
		return fmt.Errorf("kind %q: not known; did you mean %s?", kind, meant)
	}
	return fmt.Errorf("kind %q: not known; use one of %s", kind, strings.Join(faultKinds, ", "))
}
