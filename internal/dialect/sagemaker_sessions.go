package dialect

import (
	"net/http"
	"strings"
	"time"
)

// The headers of stateful sessions, in the form of Go's header maps.
const (
	// HeaderSession is the session that a request belongs to, or NewSession.
	HeaderSession = "X-Amzn-Sagemaker-Session-Id"
	// HeaderNewSession is by which an engine says that it has opened a session: "ID; Expires=2026-11-30T12:00:00Z".
	HeaderNewSession = "X-Amzn-Sagemaker-New-Session-Id"
	// HeaderClosedSession is the id of a session that the engine has closed.
	HeaderClosedSession = "X-Amzn-Sagemaker-Closed-Session-Id"
)

// NewSession is sent in place of an id by a client that wants a session opened.
const NewSession = "NEW_SESSION"

// maxSession is the longest id that a client can send (SageMaker Runtime API, type SessionIdHeader), in bytes.
const maxSession = 256

// HasSessions says whether the API that was called has sessions: SageMaker's, and all that there is below an endpoint's name.
func (r Route) HasSessions() bool { return r.Endpoint != "" || r.Dialect == SageMaker{} }

// OpenedSession reads which session an engine has opened with its answer, and for how long: 0 = it does not say. Its time of expiry is
// taken from its Date, so that its clock need not agree with ours. ok is false if it has opened none that a client could ask for.
func OpenedSession(h http.Header, now time.Time) (id string, lasts time.Duration, ok bool) {
	id, attributes, _ := strings.Cut(h.Get(HeaderNewSession), ";")
	id = strings.TrimSpace(id)
	if id == "" || len(id) > maxSession {
		return "", 0, false
	}
	for attribute := range strings.SplitSeq(attributes, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(attribute), "=")
		if at, err := time.Parse(time.RFC3339, value); err == nil && strings.EqualFold(name, "Expires") {
			lasts = max(0, at.Sub(engineTime(h, now)))
		}
	}
	return id, lasts, true
}

// engineTime is the time by an engine's clock when it began to answer; now if it does not say.
func engineTime(h http.Header, now time.Time) time.Time {
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		return date
	}
	return now
}

// SessionNotFound is the answer to the id of a session that was never opened here, or has ended.
func SessionNotFound(id string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: "session_not_found",
		Message: "Session " + clip(id, maxEchoed) + " not found: it has expired, was closed, or was not opened through this router; start another with NEW_SESSION."}
}

// SessionGone is the answer to the id of a session that nobody keeps any more, for a reason such as "its replica left".
func SessionGone(id, why string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: "session_gone",
		Message: "Session " + clip(id, maxEchoed) + " is gone: " + why + "; start another with NEW_SESSION."}
}

// SessionMismatch is the answer to a request of a session that asks for another variant or inference component than the session's.
func SessionMismatch(id, keeper, asked string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: "session_mismatch",
		Message: "Session " + clip(id, maxEchoed) + " is kept by " + keeper + ", not by " + asked +
			"; ask for that one, or start another session with NEW_SESSION."}
}
