package emulator

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

// invoke sends a body to /invocations as part of a session; "" = of none.
func invoke(s *Server, session, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/invocations", strings.NewReader(body))
	if session != "" {
		r.Header.Set("X-Amzn-SageMaker-Session-Id", session)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

const (
	openBody  = `{"requestType":"NEW_SESSION"}`
	closeBody = `{"requestType":"CLOSE"}`
)

func TestSessionsAsInSageMakersContainers(t *testing.T) {
	virtual(t, Options{Sessions: SessionTTL}, func(t *testing.T, s *Server) {
		opened := time.Now().UTC()
		w := invoke(s, "NEW_SESSION", openBody)
		id, expires, _ := strings.Cut(w.Header().Get("X-Amzn-SageMaker-New-Session-Id"), "; Expires=")
		if want := opened.Add(20 * time.Minute).Format("2006-01-02T15:04:05Z"); w.Code != 200 || expires != want || w.Body.String() != "Session "+id+" created" {
			t.Errorf("opened: got %d %s, expires %s, want %s", w.Code, w.Body, expires, want)
		}
		if !regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(id) {
			t.Errorf("an id %q", id)
		}
		for _, session := range []string{"", id, "NEW_SESSION"} {
			if w := invoke(s, session, chatBody("hello", 1, "")); w.Code != 200 || w.Header().Get("X-Amzn-SageMaker-New-Session-Id") != "" {
				t.Errorf("a chat in session %q: got %d %s", session, w.Code, w.Body)
			}
		}
		if w := invoke(s, id, closeBody); w.Code != 200 || w.Header().Get("X-Amzn-SageMaker-Closed-Session-Id") != id || w.Body.String() != "Session "+id+" closed" {
			t.Errorf("closed: got %d %s %v", w.Code, w.Body, w.Header())
		}
		other, _, _ := strings.Cut(invoke(s, "NEW_SESSION", openBody).Header().Get("X-Amzn-SageMaker-New-Session-Id"), ";")
		<-time.After(20 * time.Minute)
		invoke(s, "NEW_SESSION", openBody)
		if len(s.sessions.expires) != 1 {
			t.Errorf("expired sessions stay: %v", s.sessions.expires)
		}
		for session, body := range map[string]string{id: chatBody("hello", 1, ""), other: closeBody, "unknown": openBody} {
			if w := invoke(s, session, body); w.Code != 400 || !strings.Contains(w.Body.String(), "session not found: "+session) {
				t.Errorf("session %s that is not there: got %d %s", session, w.Code, w.Body)
			}
		}
		if w := invoke(s, "", closeBody); w.Code != 424 {
			t.Errorf("closing none: got %d %s", w.Code, w.Body)
		}
		if w := invoke(s, "", `{"requestType":"OPEN"}`); w.Code != 400 {
			t.Errorf("a request that there is not: got %d %s", w.Code, w.Body)
		}
	})
}

func TestSessionsMustBeAskedFor(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, s *Server) {
		for session, body := range map[string]string{"": openBody, "a": chatBody("hello", 1, ""), "NEW_SESSION": openBody} {
			if w := invoke(s, session, body); w.Code != 400 || !strings.Contains(w.Body.String(), "stateful sessions not enabled") {
				t.Errorf("session %q: got %d %s", session, w.Code, w.Body)
			}
		}
		if w := invoke(s, "", chatBody("hello", 1, "")); w.Code != 200 {
			t.Errorf("without: got %d %s", w.Code, w.Body)
		}
	})
	if _, err := New(Options{Sessions: -1}); err == nil {
		t.Error("sessions of less than no time are allowed")
	}
}
