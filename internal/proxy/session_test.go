package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/internal/dialect"
	"github.com/warmpath/warmpath/internal/endpoint"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/routing"
)

const (
	openBody   = `{"requestType":"NEW_SESSION"}`
	closeBody  = `{"requestType":"CLOSE"}`
	streamChat = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`
	sessionID  = "X-Amzn-SageMaker-Session-Id"
)

var sessionIDs atomic.Int64

// keepSessions answers as SageMaker's containers do that keep sessions. attributes follow the ids it makes.
func keepSessions(attributes string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case string(body) == openBody:
			w.Header().Set("X-Amzn-SageMaker-New-Session-Id", fmt.Sprint("s-", sessionIDs.Add(1), attributes))
			_, _ = io.WriteString(w, "created")
		case string(body) == closeBody:
			w.Header().Set("X-Amzn-SageMaker-Closed-Session-Id", r.Header.Get(sessionID))
			_, _ = io.WriteString(w, "closed")
		case bytes.Contains(body, []byte(`"stream":true`)):
			w.Header().Set("Content-Type", "text/event-stream")
			say(w, anEvent)
		default:
			writeJSON(w, 200, chatAnswer)
		}
	}
}

// newKeeper starts an engine that keeps sessions and does not say for how long.
func newKeeper(t testing.TB) *replica { return newReplica(t, keepSessions("")) }

// openSession opens a session and returns its id and the replica that keeps it.
func (g *rig) openSession(t testing.TB) (id, kept string) {
	t.Helper()
	resp, body := g.ask(t, invokePath, openBody, sessionID, "NEW_SESSION")
	id, _, _ = strings.Cut(resp.Header.Get("X-Amzn-SageMaker-New-Session-Id"), ";")
	if resp.StatusCode != 200 || id == "" {
		t.Fatalf("no session opened: %d %s", resp.StatusCode, body)
	}
	return id, resp.Header.Get("X-Warmpath-Replica")
}

// replicaOf finds a replica of the fleet by its id.
func (g *rig) replicaOf(t testing.TB, id string) *fleet.Replica {
	t.Helper()
	for _, r := range g.fleet.View().Replicas {
		if r.ID() == id {
			return r
		}
	}
	t.Fatalf("no replica %s", id)
	return nil
}

// refused asks as part of a session and returns the error and its code, which must be a ValidationError.
func (g *rig) refused(t *testing.T, id string, headers ...string) (message, code string) {
	t.Helper()
	resp, body := g.ask(t, invokePath, chatBody, append(headers, sessionID, id)...)
	e := failed(t, resp, body)
	if resp.StatusCode != 400 || e.Name != "ValidationError" {
		t.Errorf("got %d %s, want a ValidationError", resp.StatusCode, body)
	}
	return e.Message, resp.Header.Get("X-Warmpath-Code")
}

// TestASessionStaysWithItsReplica: whatever the strategy would choose, on every path, streamed or not, many at once.
func TestASessionStaysWithItsReplica(t *testing.T) {
	for _, strategy := range routing.Names() {
		t.Run(strategy, func(t *testing.T) {
			g := newRig(t, strategy, newKeeper(t), newKeeper(t), newKeeper(t), newKeeper(t))
			var all sync.WaitGroup
			for range 3 {
				id, kept := g.openSession(t)
				for i := range 8 {
					path, body := invokePath, chatBody
					switch i % 4 {
					case 1:
						path, body = streamPath, streamChat
					case 2:
						path = openAIPath
					case 3:
						path = "/invocations"
					}
					all.Go(func() {
						body = strings.Replace(body, "hello", fmt.Sprint("hello ", i), 1)
						resp, _ := g.ask(t, path, body, sessionID, id)
						if h := resp.Header; resp.StatusCode != 200 || h.Get("X-Warmpath-Replica") != kept || h.Get("X-Warmpath-Decision") != "session" {
							t.Errorf("%s: got %d of %s for %s, want %s for its session", path, resp.StatusCode, h.Get("X-Warmpath-Replica"), h.Get("X-Warmpath-Decision"), kept)
						}
					})
				}
			}
			all.Wait()
			g.idle(t)
			if n := g.sessions.Count("default"); n != 3 {
				t.Errorf("got %d sessions, want 3", n)
			}
		})
	}
}

// TestSessionsSpread: the same bytes open every session, and yet they must not all be kept by one replica, unless the client says so.
func TestSessionsSpread(t *testing.T) {
	for _, strategy := range routing.Names() {
		g := newRig(t, strategy, newKeeper(t), newKeeper(t), newKeeper(t))
		open := func(n int, headers ...string) (kept map[string]int) {
			kept = map[string]int{}
			for range n {
				resp, _ := g.ask(t, invokePath, openBody, append(headers, sessionID, "NEW_SESSION")...)
				kept[resp.Header.Get("X-Warmpath-Replica")]++
				g.idle(t)
			}
			return kept
		}
		if kept := open(40); len(kept) != 3 {
			t.Errorf("%s: sessions are kept by %v, want all three", strategy, kept)
		}
		if kept := open(20, "X-Amzn-SageMaker-Prefix-Aware-Id", "tenant"); strategy == routing.NamePrefixAware && len(kept) != 1 {
			t.Errorf("%s: those of one tenant are kept by %v, want one", strategy, kept)
		}
	}
}

// TestSessionsBeatThresholdsAndWeights: nothing that keeps other requests away from a replica or a variant keeps those of its sessions.
func TestSessionsBeatThresholdsAndWeights(t *testing.T) {
	wait := make(chan struct{})
	keeper := newKeeper(t)
	g := newRig(t, routing.NameLeastOutstanding, keeper)
	id, kept := g.openSession(t)
	busy := newReplica(t, func(http.ResponseWriter, *http.Request) { <-wait })
	defer close(wait)
	g.apply(t, keeper.URL, busy.URL)
	leases := make([]*fleet.Lease, 50)
	for i := range leases {
		leases[i] = g.fleet.Acquire(func(*fleet.View) *fleet.Replica { return g.replicaOf(t, kept) })
		defer leases[i].Release()
	}
	other := *g.endpoint.Variants[0]
	other.Name = "other"
	g.endpoint.Variants[0].Weight = 0
	g.endpoint.Variants = append(g.endpoint.Variants, &other)
	for range 20 {
		resp, body := g.ask(t, invokePath, chatBody, sessionID, id)
		if h := resp.Header; resp.StatusCode != 200 || h.Get("X-Warmpath-Replica") != kept || h.Get("X-Amzn-Invoked-Production-Variant") != "main" {
			t.Fatalf("got %d %s of %v", resp.StatusCode, body, h)
		}
	}
	if resp, body := g.ask(t, invokePath, chatBody, sessionID, id, "X-Amzn-SageMaker-Target-Variant", "main"); resp.StatusCode != 200 {
		t.Errorf("its own variant asked for: got %d %s", resp.StatusCode, body)
	}
	want := "Session " + id + " is kept by main, not by other; ask for that one, or start another session with NEW_SESSION."
	if message, code := g.refused(t, id, "X-Amzn-SageMaker-Target-Variant", "other"); message != want || code != "session_mismatch" {
		t.Errorf("another variant asked for: got %s, %q", code, message)
	}
	g.endpoint.Variants = g.endpoint.Variants[1:] // as a reload may rename it
	if resp, body := g.ask(t, invokePath, chatBody, sessionID, id); resp.StatusCode != 200 || resp.Header.Get("X-Amzn-Invoked-Production-Variant") != "other" {
		t.Errorf("its variant renamed: got %d %s", resp.StatusCode, body)
	}
}

func TestSessionsThatAreNotThere(t *testing.T) {
	g := newRig(t, routing.NameRandom, newKeeper(t), newReplica(t, keepSessions("; Expires=tomorrow")))
	now := time.Now()
	var moved atomic.Int64
	g.clock = func() time.Time { return now.Add(time.Duration(moved.Load())) }
	g.endpoint.SessionTTL = time.Hour
	closed, _ := g.openSession(t)
	expired, _ := g.openSession(t)
	g.ask(t, invokePath, closeBody, sessionID, closed)
	moved.Store(int64(time.Hour - 1))
	if resp, body := g.ask(t, invokePath, chatBody, sessionID, expired); resp.StatusCode != 200 {
		t.Errorf("before it expires: got %d %s", resp.StatusCode, body)
	}
	moved.Store(int64(time.Hour))
	for _, id := range []string{closed, expired, "never-opened"} {
		want := "Session " + id + " not found: it has expired, was closed, or was not opened through this router; start another with NEW_SESSION."
		if message, code := g.refused(t, id); message != want || code != "session_not_found" {
			t.Errorf("%s: got %s, %q", id, code, message)
		}
		resp, body := g.ask(t, openAIPath, chatBody, sessionID, id)
		if resp.StatusCode != 400 || !strings.Contains(body, `"code":"validation_error"`) || resp.Header.Get("X-Warmpath-Code") != "session_not_found" {
			t.Errorf("%s, OpenAI's path: got %d %s", id, resp.StatusCode, body)
		}
		if resp, body := g.ask(t, "/v1/chat/completions", chatBody, sessionID, id); resp.StatusCode != 200 {
			t.Errorf("%s, a path without sessions: got %d %s", id, resp.StatusCode, body)
		}
	}
	if n := g.sessions.Count("default"); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

func TestEnginesSayWhenSessionsExpire(t *testing.T) {
	expires := time.Now().UTC().Add(2 * time.Hour).Truncate(time.Second)
	g := newRig(t, routing.NameRandom, newReplica(t, keepSessions("; Expires="+expires.Format(time.RFC3339))))
	id, _ := g.openSession(t)
	if pin, ok := g.sessions.Find("default", id); !ok || pin.Expires.Sub(expires).Abs() > 2*time.Second { // Date has seconds
		t.Errorf("it expires at %v, want %v", pin.Expires, expires)
	}
}

// TestASessionWaitsForItsReplica: one that is not ready now gets none of the session's requests, nor does another.
func TestASessionWaitsForItsReplica(t *testing.T) {
	engines := []*replica{newKeeper(t), newKeeper(t), newKeeper(t)}
	g := newRig(t, routing.NameKVAware, engines...)
	id, kept := g.openSession(t)
	r := g.replicaOf(t, kept)
	for name, c := range map[string]struct {
		out, back func()
		serves    bool
	}{
		"unhealthy": {func() { g.fleet.SetHealth(r, false) }, func() { g.fleet.SetHealth(r, true) }, false},
		"asleep":    {func() { g.fleet.SetAsleep(r, true) }, func() { g.fleet.SetAsleep(r, false) }, false},
		"ejected":   {func() { g.fleet.Eject(r) }, func() { g.fleet.Restore(r) }, false},
		"draining":  {func() { g.fleet.Drain(kept, true) }, func() { g.fleet.Drain(kept, false) }, true},
	} {
		c.out()
		resp, body := g.ask(t, invokePath, chatBody, sessionID, id)
		switch {
		case c.serves && (resp.StatusCode != 200 || resp.Header.Get("X-Warmpath-Replica") != kept):
			t.Errorf("%s: got %d %s", name, resp.StatusCode, body)
		case !c.serves:
			if e := failed(t, resp, body); resp.StatusCode != 503 || e.Name != "ServiceUnavailable" || resp.Header.Get("Retry-After") != "1" || resp.Header.Get("X-Warmpath-Code") != "session_not_ready" {
				t.Errorf("%s: got %d %s %v", name, resp.StatusCode, body, resp.Header)
			}
		}
		c.back()
		if resp, body := g.ask(t, invokePath, chatBody, sessionID, id); resp.StatusCode != 200 || resp.Header.Get("X-Warmpath-Replica") != kept {
			t.Errorf("%s, and back: got %d %s", name, resp.StatusCode, body)
		}
	}
	for _, each := range g.fleet.View().Replicas {
		g.fleet.SetHealth(each, false)
	}
	if resp, body := g.ask(t, invokePath, chatBody, sessionID, id); resp.StatusCode != 200 {
		t.Errorf("nothing is ready, so all are tried: got %d %s", resp.StatusCode, body)
	}
}

func TestASessionEndsWithItsReplica(t *testing.T) {
	a, b := newKeeper(t), newKeeper(t)
	g := newRig(t, routing.NameRandom, a, b)
	lost, kept := g.openSession(t)
	g.replicaOf(t, kept).MarkLost()
	for range 2 { // each is told
		if message, code := g.refused(t, lost); code != "session_gone" || message != "Session "+lost+" is gone: the engine that kept it has died or was restarted; start another with NEW_SESSION." {
			t.Errorf("its process lost: got %s, %q", code, message)
		}
	}
	removed, kept := g.openSession(t)
	stays := a.URL
	if strings.HasSuffix(stays, kept) {
		stays = b.URL
	}
	g.apply(t, stays)
	for range 2 {
		if message, code := g.refused(t, removed); code != "session_gone" || message != "Session "+removed+" is gone: its replica left the endpoint; start another with NEW_SESSION." {
			t.Errorf("its replica removed: got %s, %q", code, message)
		}
		g.apply(t, a.URL, b.URL) // another one, under its address
	}
	id, _ := g.openSession(t)
	elsewhere := endpoint.Pool{Name: "elsewhere", Fleet: fleet.New(fleet.Options{}), Outlier: g.pool.Outlier, Transport: g.pool.Transport}
	g.endpoint.Variants[0].Pool = &elsewhere
	if _, code := g.refused(t, id); code != "session_gone" {
		t.Errorf("its pool left the endpoint: got %s", code)
	}
}

// TestTheRequestThatFindsItsSessionLost is told so itself, and is sent nowhere else.
func TestTheRequestThatFindsItsSessionLost(t *testing.T) {
	a, b := newKeeper(t), newKeeper(t)
	g := newRig(t, routing.NameRandom, a, b)
	id, kept := g.openSession(t)
	g.access(t, 1)
	for _, r := range []*replica{a, b} {
		if strings.HasSuffix(r.URL, kept) {
			r.CloseClientConnections()
			r.Close()
		}
	}
	if _, code := g.refused(t, id); code != "session_gone" {
		t.Errorf("got %s", code)
	}
	if l := g.access(t, 2)[1]; l.Attempts != 1 || l.Decision != "session" || l.Outcome != "upstream_error" || l.Replica != kept {
		t.Errorf("logged %+v", l)
	}
}

// TestSessionsAreNotSentElsewhere: what the replica answers is the answer.
func TestSessionsAreNotSentElsewhere(t *testing.T) {
	var broken atomic.Bool
	breaking := func(t *testing.T, fail http.HandlerFunc) *replica {
		keep := keepSessions("")
		return newReplica(t, func(w http.ResponseWriter, r *http.Request) {
			if broken.Load() {
				fail(w, r)
				return
			}
			keep(w, r)
		})
	}
	for name, c := range map[string]struct {
		fail   http.HandlerFunc
		status int
		code   string
	}{
		"503":        {func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 503, "{}") }, 424, ""},
		"429":        {func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 429, "{}") }, 424, ""},
		"400":        {func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 400, "{}") }, 424, ""},
		"breaks off": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 424, "upstream_reset"},
	} {
		t.Run(name, func(t *testing.T) {
			broken.Store(false)
			g := newRig(t, routing.NameRandom, breaking(t, c.fail), breaking(t, c.fail))
			id, _ := g.openSession(t)
			g.access(t, 1)
			broken.Store(true)
			resp, body := g.ask(t, invokePath, chatBody, sessionID, id)
			if e := failed(t, resp, body); resp.StatusCode != c.status || e.Name != "ModelError" || resp.Header.Get("X-Warmpath-Code") != c.code {
				t.Errorf("got %d %s, code %s", resp.StatusCode, body, resp.Header.Get("X-Warmpath-Code"))
			}
			if l := g.access(t, 2)[1]; l.Attempts != 1 || l.Decision != "session" {
				t.Errorf("logged %+v", l)
			}
			broken.Store(false)
			if resp, body := g.ask(t, invokePath, chatBody, sessionID, id); resp.StatusCode != 200 {
				t.Errorf("the session did not survive: got %d %s", resp.StatusCode, body)
			}
		})
	}
}

// TestNewSessionsAreRetriedUntilTheyMayBeOpen: before an answer as any request, and never once one has begun.
func TestNewSessionsAreRetriedUntilTheyMayBeOpen(t *testing.T) {
	g := newRigAt(t, routing.NameRandom, refusing, newKeeper(t).URL)
	for range 5 {
		g.openSession(t)
	}

	var opened atomic.Int64
	half := func(w http.ResponseWriter, _ *http.Request) {
		opened.Add(1)
		w.Header().Set("X-Amzn-SageMaker-New-Session-Id", "s-half")
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	g = newRig(t, routing.NameRandom, newReplica(t, half), newReplica(t, half))
	resp, body := g.ask(t, invokePath, openBody, sessionID, "NEW_SESSION")
	if e := failed(t, resp, body); e.Name != "ModelError" || opened.Load() != 1 || g.sessions.Count("default") != 0 {
		t.Errorf("got %d %s; %d sessions were opened", resp.StatusCode, body, opened.Load())
	}
	if resp, _ := g.ask(t, invokePath, chatBody); resp.StatusCode != 424 || opened.Load() != 3 {
		t.Errorf("without a session: got %d after %d attempts, want 2", resp.StatusCode, opened.Load()-1)
	}
}

// TestErrorsOpenNoSession: what an engine says beside an error is not believed.
func TestErrorsOpenNoSession(t *testing.T) {
	g := newRig(t, routing.NameRandom, newReplica(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amzn-SageMaker-New-Session-Id", "s-1")
		writeJSON(w, 400, "{}")
	}))
	g.ask(t, invokePath, openBody, sessionID, "NEW_SESSION")
	if n := g.sessions.Count("default"); n != 0 {
		t.Errorf("%d sessions", n)
	}
}

// TestKVAwareLearnsOfSessions: it knows what the replica holds afterwards, and nothing of opening and closing.
func TestKVAwareLearnsOfSessions(t *testing.T) {
	keeper := newKeeper(t)
	g := newRig(t, routing.NameKVAware, keeper)
	id, kept := g.openSession(t)
	g.access(t, 1) // the strategy knows how it ended
	learner := g.endpoint.Variants[0].Strategy.(routing.Learner)
	if l := learner.Learned(); l.IndexBlocks != 0 {
		t.Errorf("%d blocks are believed cached of a request that opens a session", l.IndexBlocks)
	}
	g.apply(t, keeper.URL, newKeeper(t).URL)
	g.fleet.Drain(kept, true) // where no strategy would have sent it
	long := strings.Replace(chatBody, "hello", strings.Repeat("a long document ", 500), 1)
	if resp, body := g.ask(t, invokePath, long, sessionID, id); resp.StatusCode != 200 {
		t.Fatalf("got %d %s", resp.StatusCode, body)
	}
	g.access(t, 2)
	g.fleet.Drain(kept, false)
	e, err := g.proxy.Explain(invokePath, http.Header{}, []byte(long))
	if err != nil || len(e.Order) != 2 || e.Order[0].Replica != kept || e.Order[0].Cost.HitTokens == 0 || e.Order[1].Cost.HitTokens > 0 {
		t.Errorf("explained %+v, %v", e, err)
	}
}

func TestExplainOfASession(t *testing.T) {
	g := newRig(t, routing.NamePrefixAware, newKeeper(t), newKeeper(t), newKeeper(t))
	id, kept := g.openSession(t)
	e, err := g.proxy.Explain(invokePath, http.Header{dialect.HeaderSession: {id}}, []byte(chatBody))
	if err != nil || len(e.Order) != 1 || e.Order[0].Replica != kept || e.Order[0].Reason != routing.Session {
		t.Errorf("explained %+v, %v", e, err)
	}
	if _, err = g.proxy.Explain(invokePath, http.Header{dialect.HeaderSession: {"unknown"}}, []byte(chatBody)); err == nil {
		t.Error("an unknown session is explained")
	}
}

// TestASessionDoesNotMoveFromALostReplica: its request waits, as one that has nowhere to go.
func TestASessionDoesNotMoveFromALostReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemoryNet()
		n.engine(t, "bad:80", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get(sessionID) == "NEW_SESSION" {
				w.Header().Set("X-Amzn-SageMaker-New-Session-Id", "s-1")
				writeJSON(w, 200, "{}")
				return
			}
			<-r.Context().Done()
		})
		n.engine(t, "good:80", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, "{}") })
		g := assemble(t, routing.NameRandom, n.dial, "http://bad")
		client := n.client(t, g)
		ask := func(session string) (int, string) {
			req, _ := http.NewRequest(http.MethodPost, "http://proxy"+invokePath, strings.NewReader(chatBody))
			req.Header.Set(sessionID, session)
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			return resp.StatusCode, string(body)
		}
		ask("NEW_SESSION")
		g.apply(t, "http://bad", "http://good")
		bad := g.replicaOf(t, "bad:80")
		began := time.Now()
		time.AfterFunc(time.Minute, bad.MarkLost)
		if status, body := ask("s-1"); status != 400 || !strings.Contains(body, "is gone") || time.Since(began) != time.Minute+lostPatience {
			t.Errorf("got %d %s after %s", status, body, time.Since(began))
		}
		synctest.Wait()
		if l := g.access(t, 2)[1]; l.Attempts != 1 || l.Code != "session_gone" || g.inFlight() != 0 {
			t.Errorf("logged %+v", l)
		}
	})
}

// TestStrangersLearnNothingOfSessions: who may not use an endpoint is told only that, of what is there and of what is not.
func TestStrangersLearnNothingOfSessions(t *testing.T) {
	g := newGuardedRig(t, newKeeper(t))
	resp, _ := g.ask(t, invokePath, openBody, sessionID, "NEW_SESSION", "X-Api-Key", "sk-mine")
	id, _, _ := strings.Cut(resp.Header.Get("X-Amzn-SageMaker-New-Session-Id"), ";")
	for _, session := range []string{id, "unknown"} {
		resp, body := g.ask(t, invokePath, chatBody, sessionID, session, "X-Api-Key", "sk-theirs")
		if e := failed(t, resp, body); e.Name != "AccessDeniedException" {
			t.Errorf("%s: got %d %s", session, resp.StatusCode, body)
		}
	}
	resp, body := g.ask(t, invokePath, chatBody, sessionID, "unknown", "X-Api-Key", "sk-mine")
	if e := failed(t, resp, body); e.Name != "ValidationError" || resp.Header.Get("X-Warmpath-Code") != "session_not_found" {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
	for i, l := range g.access(t, 4) {
		if l.Endpoint != "default" {
			t.Errorf("request %d is logged without its endpoint: %+v", i, l)
		}
	}
}

// Two components may share a pool, and still a session is kept by the one in which it was opened.
func TestASessionStaysInItsComponent(t *testing.T) {
	g := newRig(t, routing.NameLeastOutstanding, newKeeper(t))
	component := func(name string) *endpoint.Variant {
		return &endpoint.Variant{Name: "main", Component: name, Weight: 1, Pool: g.pool, Strategy: g.endpoint.Variants[0].Strategy}
	}
	g.endpoint.ByComponent, g.endpoint.NameOnly, g.endpoint.Variants = true, true, []*endpoint.Variant{component("a"), component("b")}
	g.retable()
	resp, _ := g.ask(t, invokePath, openBody, sessionID, "NEW_SESSION", componentHeader, "b")
	id := resp.Header.Get("X-Amzn-SageMaker-New-Session-Id")
	if resp, body := g.ask(t, invokePath, chatBody, sessionID, id, componentHeader, "b"); resp.StatusCode != 200 || resp.Header.Get("X-Warmpath-Decision") != "session" {
		t.Errorf("by its component: got %d %s of %v", resp.StatusCode, body, resp.Header)
	}
	want := "Session " + id + " is kept by main/b, not by main/a; ask for that one, or start another session with NEW_SESSION."
	if message, code := g.refused(t, id, componentHeader, "a"); message != want || code != "session_mismatch" {
		t.Errorf("by another: got %s, %q", code, message)
	}
	if _, code := g.refused(t, id); code != "inference_component_required" {
		t.Errorf("without one: got %s", code)
	}
}
