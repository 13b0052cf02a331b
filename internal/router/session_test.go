package router_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/emulator"
	"github.com/warmpath/warmpath/internal/fleet"
)

// keepers starts emulated engines that keep sessions.
func keepers(t *testing.T, n int) []*emulator.Instance {
	t.Helper()
	engines := make([]*emulator.Instance, n)
	for i := range engines {
		e, err := emulator.Listen("127.0.0.1:0", emulator.Options{Models: []string{"m"}, TimeScale: 1000, Sessions: emulator.SessionTTL})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Kill)
		engines[i] = e
	}
	return engines
}

// keeping is a configuration of one pool of emulated engines.
func keeping(strategy string, engines ...*emulator.Instance) string {
	urls := make([]string, len(engines))
	for i, e := range engines {
		urls[i] = e.URL()
	}
	return onePool("engine: vllm, static: ["+strings.Join(urls, ", ")+"]", strategy)
}

// said is what an answer tells of a session.
type said struct {
	status                                int
	code, opened, closed, kept, why, text string
}

// talk sends a body to endpoint e as part of a session.
func (s *site) talk(t testing.TB, session, body string) said {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.data.URL+"/endpoints/e/invocations", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Amzn-SageMaker-Session-Id", session)
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	h := resp.Header
	opened, _, _ := strings.Cut(h.Get("X-Amzn-SageMaker-New-Session-Id"), ";")
	return said{
		status: resp.StatusCode, code: h.Get("X-Warmpath-Code"), opened: opened, closed: h.Get("X-Amzn-SageMaker-Closed-Session-Id"),
		kept: h.Get("X-Warmpath-Replica"), why: h.Get("X-Warmpath-Decision"), text: string(text),
	}
}

// begin opens a session and returns its id and the replica that keeps it.
func (s *site) begin(t testing.TB) (id, kept string) {
	t.Helper()
	got := s.talk(t, "NEW_SESSION", `{"requestType":"NEW_SESSION"}`)
	if got.status != http.StatusOK || got.opened == "" || got.why == "session" {
		t.Fatalf("no session opened: %+v", got)
	}
	return got.opened, got.kept
}

// stays asks a few times as part of a session, which its replica must answer.
func (s *site) stays(t testing.TB, id, kept string) {
	t.Helper()
	for range 4 {
		if got := s.talk(t, id, chatBody); got.status != http.StatusOK || got.kept != kept || got.why != "session" {
			t.Fatalf("got %+v, want an answer of %s", got, kept)
		}
	}
}

func TestSessionsSurviveReloads(t *testing.T) {
	t.Parallel()
	engines := keepers(t, 3)
	s := start(t, keeping("RANDOM", engines...))
	for _, e := range engines {
		s.becomes(t, e.Addr(), fleet.Ready)
	}
	id, kept := s.begin(t)
	s.stays(t, id, kept)
	for _, strategy := range []string{"PREFIX_AWARE", leastOutstanding, kvAware} {
		s.reload(t, keeping(strategy, engines...))
		s.stays(t, id, kept)
	}
	s.reload(t, strings.Replace(keeping(kvAware, engines...), "{pool: p,", "{pool: p, name: renamed,", 1))
	s.stays(t, id, kept)
	if got := s.sum(t, `warmpath_sessions{endpoint="e"`); got != 1 {
		t.Errorf("got %g sessions, want 1", got)
	}
	if got := s.talk(t, id, `{"requestType":"CLOSE"}`); got.status != http.StatusOK || got.closed != id || got.kept != kept {
		t.Errorf("closing it: got %+v", got)
	}
	if got := s.talk(t, id, chatBody); got.status != http.StatusBadRequest || got.code != "session_not_found" {
		t.Errorf("once it is closed: got %+v", got)
	}
	for series, want := range map[string]float64{
		`warmpath_sessions{endpoint="e"`: 0, `warmpath_sessions_opened_total{endpoint="e"`: 1, `warmpath_sessions_ended_total{endpoint="e",reason="closed"`: 1,
	} {
		if got := s.sum(t, series); got != want {
			t.Errorf("%s: got %g, want %g", series, got, want)
		}
	}
}

func TestSessionsEndWithTheirReplica(t *testing.T) {
	t.Parallel()
	engines := keepers(t, 2)
	s := start(t, keeping("RANDOM", engines...))
	for _, e := range engines {
		s.becomes(t, e.Addr(), fleet.Ready)
	}
	sessions := map[string]string{} // by the replica that keeps it
	for len(sessions) < 2 {
		id, kept := s.begin(t)
		sessions[kept] = id
	}
	killed, removed := engines[0], engines[1]
	id := sessions[killed.Addr()]
	killed.Kill()
	eventually(t, "the session is gone with its engine", func() bool {
		got := s.talk(t, id, chatBody)
		if got.status == http.StatusOK {
			t.Errorf("the session was answered by %s", got.kept)
		}
		return got.code == "session_gone"
	})
	if err := killed.Restart(); err != nil {
		t.Fatal(err)
	}
	s.becomes(t, killed.Addr(), fleet.Ready)
	if got := s.talk(t, id, chatBody); got.status != http.StatusBadRequest || got.code != "session_gone" {
		t.Errorf("the engine is back, without its sessions: got %+v", got)
	}
	again, kept := s.begin(t)
	s.stays(t, again, kept)

	id = sessions[removed.Addr()]
	s.stays(t, id, removed.Addr())
	s.reload(t, keeping("RANDOM", killed))
	eventually(t, "the replica has left", func() bool { return s.status(t, removed.Addr()).Replica == "" })
	if got := s.talk(t, id, chatBody); got.status != http.StatusBadRequest || got.code != "session_gone" || !strings.Contains(got.text, "its replica left") {
		t.Errorf("its replica was removed: got %+v", got)
	}
}

func TestSessionsAreForgottenWithTheirEndpoint(t *testing.T) {
	t.Parallel()
	engines := keepers(t, 1)
	file := keeping("RANDOM", engines...)
	s := start(t, file)
	s.becomes(t, engines[0].Addr(), fleet.Ready)
	id, kept := s.begin(t)
	s.stays(t, id, kept)
	s.reload(t, strings.Replace(file, "  e: {", "  other: {", 1))
	s.reload(t, file)
	if got := s.talk(t, id, chatBody); got.status != http.StatusBadRequest || got.code != "session_not_found" {
		t.Errorf("got %+v", got)
	}
	if got := s.sum(t, `warmpath_sessions_ended_total{endpoint="e",reason="forgotten"`); got != 1 {
		t.Errorf("got %g sessions forgotten, want 1", got)
	}
}

// TestDrainingKeepsSessions: a replica that is to leave in peace answers its sessions until they end.
func TestDrainingKeepsSessions(t *testing.T) {
	t.Parallel()
	engines := keepers(t, 2)
	s := start(t, keeping(kvAware, engines...))
	for _, e := range engines {
		s.becomes(t, e.Addr(), fleet.Ready)
	}
	id, kept := s.begin(t)
	if !s.Drain("p", kept, true) {
		t.Fatalf("%s does not drain", kept)
	}
	s.stays(t, id, kept)
	for range 4 {
		if _, other := s.begin(t); other == kept {
			t.Error("a session was opened on a replica that drains")
		}
	}
}
