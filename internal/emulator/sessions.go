package emulator

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// SessionTTL is how long a stateful session lasts in SageMaker's containers, vLLM's among them.
const SessionTTL = 20 * time.Minute

// invocationsPath is where SageMaker's containers take requests, those of sessions included.
const invocationsPath = "/invocations"

const (
	headerSession       = "X-Amzn-Sagemaker-Session-Id"
	headerNewSession    = "X-Amzn-Sagemaker-New-Session-Id"
	headerClosedSession = "X-Amzn-Sagemaker-Closed-Session-Id"
	newSession          = "NEW_SESSION"
)

// sessions are those that one engine process keeps. Nothing stands in them: a client sees whether its session is known where it asks.
type sessions struct {
	ttl time.Duration // 0 = none are kept

	mu      sync.Mutex
	expires map[string]time.Time
}

// open makes a session.
func (s *sessions) open() (id string, expires time.Time) {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	id = fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(s.expires, func(_ string, at time.Time) bool { return !now.Before(at) })
	if s.expires == nil {
		s.expires = map[string]time.Time{}
	}
	s.expires[id] = now.Add(s.ttl)
	return id, s.expires[id]
}

func (s *sessions) known(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.expires[id])
}

func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.expires, id)
}

// session does what a request has to do with sessions, as SageMaker's containers do. It reports whether that was all.
func (x *exchange) session(body jsontext.Value) (done bool, err error) {
	var in struct {
		Kind *string `json:"requestType"`
	}
	_ = unmarshal(body, &in) // what is of another shape asks for no session
	id, s := x.r.Header.Get(headerSession), &x.server.sessions
	switch {
	case in.Kind != nil && *in.Kind != newSession && *in.Kind != "CLOSE":
		return false, badRequest("requestType", "requestType: Input should be 'NEW_SESSION' or 'CLOSE'")
	case s.ttl == 0 && (in.Kind != nil || id != ""):
		return false, badRequest("", "Invalid payload. stateful sessions not enabled, "+headerSession+" header not supported")
	case id != "" && id != newSession && !s.known(id):
		return false, badRequest("", "Bad request: session not found: "+id)
	case in.Kind == nil:
		return false, nil
	case *in.Kind == newSession:
		created, expires := s.open()
		x.w.Header().Set(headerNewSession, created+"; Expires="+expires.UTC().Format(time.RFC3339))
		_, _ = fmt.Fprintf(x.w, "Session %s created", created)
	case id == "" || id == newSession:
		return false, newWireError(http.StatusFailedDependency, "Failed Dependency", "", "Failed to close session: invalid session_id: "+id)
	default:
		s.end(id)
		x.w.Header().Set(headerClosedSession, id)
		_, _ = fmt.Fprintf(x.w, "Session %s closed", id)
	}
	return true, nil
}
