package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/dialect"
	"github.com/warmpath/warmpath/internal/endpoint"
	"github.com/warmpath/warmpath/internal/routing"
)

// shade gives the rig's endpoint a shadow variant "next" over replicas at these addresses, and returns a rig that has them.
func (g *rig) shade(t testing.TB, share float64, urls ...string) *rig {
	t.Helper()
	n := assemble(t, routing.NameLeastOutstanding, nil, urls...)
	t.Cleanup(g.proxy.Close) // before the replicas close, which wait for their requests
	next := *n.endpoint.Variants[0]
	next.Name = "next"
	g.endpoint.Shade(&next, share, endpoint.NewRoom(256))
	return n
}

// shadow is the rig's shadow variant, for tests that change it.
func (g *rig) shadow() *endpoint.Variant { return g.endpoint.Shadows[0].Variant() }

// copies waits until n copies have ended, and gives their outcomes: "outcome reason" to how many.
func (g *rig) copies(t testing.TB, n int) map[string]int {
	t.Helper()
	var found map[string]int
	eventually(t, fmt.Sprintf("%d copies have ended", n), func() bool {
		found = map[string]int{}
		sum := 0
		for line := range strings.Lines(scrape(g)) {
			var outcome, reason string
			var count int
			if _, err := fmt.Sscanf(line, `warmpath_shadow_requests_total{endpoint="default",outcome=%q,reason=%q,variant="next"} %d`, &outcome, &reason, &count); err == nil {
				found[strings.TrimSpace(outcome+" "+reason)] = count
				sum += count
			}
		}
		return sum >= n
	})
	return found
}

// dropped counts the copies that were not made because of a limit.
func (g *rig) dropped(limit string) (n int) {
	for line := range strings.Lines(scrape(g)) {
		if rest, ok := strings.CutPrefix(line, `warmpath_shadow_dropped_total{endpoint="default",limit="`+limit+`",variant="next"} `); ok {
			_, _ = fmt.Sscan(rest, &n)
		}
	}
	return n
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = io.WriteString(w, text)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A copy is what the engine of the client's own variant gets, on every API, and shows in no metric of clients.
func TestShadowGetsWhatTheClientSent(t *testing.T) {
	const invocation = `{"messages":[{"role":"user","content":"hello"}]}`
	for _, c := range []struct {
		path, body string
		headers    []string
	}{
		{"/v1/chat/completions", chatBody, nil},
		{"/v1/chat/completions", strings.Replace(chatBody, `"m"`, `"alias"`, 1), []string{"X-Request-Id", "mine"}},
		{"/v1/chat/completions", zipped(t, chatBody), []string{"Content-Encoding", "gzip"}},
		{"/v1/completions?x=1", `{"model":"m","prompt":"hello","stream":true}`, nil},
		{"/v1/embeddings", `{"model":"m","input":"hello"}`, nil},
		{"/v1/messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hello"}]}`, nil},
		{"/v1/audio/speech", `{"model":"m","input":"hello"}`, nil},
		{"/endpoints/default/openai/v1/chat/completions", chatBody, nil},
		{invokePath, invocation, nil},
		{invokePath, invocation, []string{dialect.HeaderTargetVariant, "main"}},
		{streamPath, invocation, []string{dialect.HeaderPrefix + "Inference-Id", "i"}},
	} {
		t.Run(c.path, func(t *testing.T) {
			production, shadow := newReplica(t, nil), newReplica(t, nil)
			g := newRig(t, routing.NamePrefixAware, production)
			g.endpoint.Models, g.endpoint.Aliases = []string{"m"}, map[string]string{"alias": "m"}
			g.retable()
			n := g.shade(t, 1, shadow.URL)
			resp, _ := g.ask(t, c.path, c.body, c.headers...)
			if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Warmpath-Replica") != g.fleet.View().Replicas[0].ID() {
				t.Errorf("the client got %s from %s", resp.Status, resp.Header.Get("X-Warmpath-Replica"))
			}
			if diff := cmp.Diff(map[string]int{"ok": 1}, g.copies(t, 1)); diff != "" {
				t.Errorf("copies (-want +got):\n%s", diff)
			}
			want, got := production.received()[0], shadow.received()[0]
			want.header.Del(dialect.HeaderTargetVariant) // means nothing to a copy
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(received{})); diff != "" {
				t.Errorf("what the engines got (-client's +shadow's):\n%s", diff)
			}
			if l := g.access(t, 1)[0]; l.Replica != g.fleet.View().Replicas[0].ID() {
				t.Errorf("logged %+v", l)
			}
			for line := range strings.Lines(scrape(g)) {
				if strings.Contains(line, `"next"`) && !strings.HasPrefix(line, "warmpath_shadow_") {
					t.Errorf("a copy counts in %s", line)
				}
			}
			n.idle(t)
		})
	}
}

// troubles are the ways in which a shadow's engine can behave, and how its copies then end. Engines that hold their request do so until
// it is cut.
var troubles = map[string]struct {
	answer  http.HandlerFunc // nil = nobody listens
	outcome string           // "" = never, before Close
}{
	"down":  {nil, "upstream_error upstream_unreachable"},
	"hangs": {hang(0), ""},
	"hangs, headed": {func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}, ""},
	"never ends":    {hang(3), ""},
	"fails":         {func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 500, "{}") }, "upstream_error"},
	"is busy":       {func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 503, "{}") }, "upstream_error"},
	"finds fault":   {func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 400, "{}") }, "client_error"},
	"breaks off":    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "upstream_error upstream_reset"},
	"breaks inside": {func(w http.ResponseWriter, _ *http.Request) { say(w, anEvent); panic(http.ErrAbortHandler) }, "upstream_aborted"},
	"says more": {func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</early>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-Late")
		say(w, anEvent)
		w.Header().Set("X-Late", "1")
	}, "ok"},
}

// unlike takes out of an answer's header what differs from one answer to the next.
func unlike(h http.Header) {
	for _, name := range []string{"X-Request-Id", "X-Amzn-Requestid", "X-Warmpath-Decision", "Date"} {
		h.Del(name)
	}
}

// Whatever a shadow's engine does, its clients' answers are those of an endpoint without a shadow, and come without it.
func TestClientsKnowNothingOfTheirShadows(t *testing.T) {
	const clients = 6
	for name, trouble := range troubles {
		for _, path := range []string{"/v1/chat/completions", invokePath, streamPath} {
			t.Run(name+path, func(t *testing.T) {
				t.Parallel()
				g := newRig(t, routing.NameKVAware, newReplica(t, nil))
				plain, answer := g.ask(t, path, chatBody)
				unlike(plain.Header)
				at := refusing
				if trouble.answer != nil {
					at = newReplica(t, trouble.answer).URL
				}
				n := g.shade(t, 1, at)
				var running sync.WaitGroup
				for range clients {
					running.Go(func() {
						resp, got := g.ask(t, path, chatBody)
						unlike(resp.Header)
						if resp.StatusCode != http.StatusOK || got != answer {
							t.Errorf("got %d %q, without a shadow %q", resp.StatusCode, got, answer)
						}
						if diff := cmp.Diff(plain.Header, resp.Header); diff != "" {
							t.Errorf("header (-without +with a shadow):\n%s", diff)
						}
					})
				}
				running.Wait()
				outcome := trouble.outcome
				if outcome == "" {
					eventually(t, "all copies are under way", func() bool { return n.inFlight() == clients })
					g.proxy.Close()
					outcome = "client_cancelled"
				}
				got := g.copies(t, clients)
				if got["refused no_replica"] > 0 || got[outcome] == 0 || len(got) > 1 {
					t.Errorf("copies ended %v, want all %q", got, outcome)
				}
				n.idle(t)
				g.idle(t)
				if strings.Contains(scrape(g), "warmpath_retries_total") {
					t.Error("something was sent again")
				}
			})
		}
	}
}

func TestPanicOfAShadowEndsNobodyElse(t *testing.T) {
	held := countBodies(t)
	g := newRig(t, routing.NameRandom, newReplica(t, nil))
	n := g.shade(t, 1, refusing)
	g.shadow().Strategy = panics{}
	for range 3 {
		if resp, answer := g.post(t, "/v1/chat/completions", chatBody); resp.StatusCode != http.StatusOK || answer != chatAnswer {
			t.Errorf("the client got %s %s", resp.Status, answer)
		}
	}
	if got := g.copies(t, 3); got["upstream_error"] != 3 {
		t.Errorf("copies ended %v", got)
	}
	eventually(t, "the panics are logged", func() bool { return strings.Count(g.log.String(), "a strategy's fault") == 3 })
	n.idle(t)
	g.access(t, 3)
	eventually(t, "no body is held", func() bool { return held() == 0 })
}

func TestShadowsAreBounded(t *testing.T) {
	for limit, bound := range map[string]func(*rig){
		"requests": func(g *rig) { g.endpoint.Shadows[0].Room = endpoint.NewRoom(2) },
		"memory":   func(g *rig) { g.proxy.shadows.bodies = endpoint.NewRoom(int64(2*len(chatBody) + 1)) },
	} {
		t.Run(limit, func(t *testing.T) {
			held := countBodies(t)
			release, engine := holding(t)
			g := newRig(t, routing.NameRandom, newReplica(t, nil))
			n := g.shade(t, 1, engine.URL)
			bound(g)
			for range 5 {
				g.post(t, "/v1/chat/completions", chatBody)
			}
			eventually(t, "two copies are under way", func() bool { return n.inFlight() == 2 })
			if got := g.dropped(limit); got != 3 {
				t.Errorf("%d dropped of 5, want 3", got)
			}
			release()
			g.copies(t, 2)
			n.idle(t)
			for i := range 4 { // what they had taken is free again
				g.post(t, "/v1/chat/completions", chatBody)
				g.copies(t, 3+i)
			}
			if got := g.dropped(limit); got != 3 {
				t.Errorf("%d dropped, want 3 as before", got)
			}
			g.access(t, 9)
			eventually(t, "no body is held", func() bool { return held() == 0 })
		})
	}
}

// A small body can decode to a large one, which then is what a copy keeps.
func TestShadowsKeepNoMoreThanTheyMay(t *testing.T) {
	g := newRig(t, routing.NameRandom, newReplica(t, nil))
	g.endpoint.Models, g.endpoint.Aliases = []string{"m"}, map[string]string{"alias": "m"}
	g.retable()
	shadow := newReplica(t, nil)
	g.shade(t, 1, shadow.URL)
	g.proxy.shadows.bodies = endpoint.NewRoom(1 << 20)
	for _, model := range []string{"alias", "m"} { // written anew for the engine, or passed on as it is
		body := zipped(t, `{"model":"`+model+`","messages":[{"role":"user","content":"`+strings.Repeat("a", 1<<20)+`"}]}`)
		if resp, _ := g.ask(t, "/v1/chat/completions", body, "Content-Encoding", "gzip"); resp.StatusCode != http.StatusOK {
			t.Errorf("the client got %s", resp.Status)
		}
	}
	g.copies(t, 1)
	if n := g.dropped("memory"); n != 1 || len(shadow.received()) != 1 || shadow.received()[0].length > 1<<16 {
		t.Errorf("%d dropped, %d copied, want one each, and the small one copied", n, len(shadow.received()))
	}
}

func TestClientThatLeavesLeavesItsShadow(t *testing.T) {
	release, shadow := holding(t)
	g := newRig(t, routing.NameRandom, newReplica(t, hang(0)))
	n := g.shade(t, 1, shadow.URL)
	c := openRequest(t, g, "/v1/chat/completions", chatBody)
	eventually(t, "the copy is under way", func() bool { return len(shadow.received()) == 1 })
	reset(c)
	if l := g.access(t, 1)[0]; l.Outcome != "client_cancelled" {
		t.Errorf("logged %+v", l)
	}
	release()
	if got := g.copies(t, 1); got["ok"] != 1 {
		t.Errorf("the copy ended %v", got)
	}
	if got := string(shadow.received()[0].body); got != chatBody {
		t.Errorf("its engine got %q", got)
	}
	n.idle(t)
}

func TestWhatIsNotCopied(t *testing.T) {
	shadow := newReplica(t, nil)
	g := newRig(t, routing.NameRandom, newReplica(t, nil))
	g.shade(t, 0, refusing) // a share of nothing
	g.shade(t, 1, shadow.URL)
	for _, path := range []string{"/v1/responses/r1", "/v1/models"} {
		if resp, err := http.Get(g.URL + path); err != nil || resp.Body.Close() != nil {
			t.Fatal(err)
		}
	}
	g.post(t, "/v1/chat/completions", "{")
	g.ask(t, invokePath, chatBody, dialect.HeaderSession, "NEW_SESSION")
	g.ask(t, streamPath, chatBody, dialect.HeaderSession, "s1")
	g.ask(t, invokePath, chatBody, dialect.HeaderTargetVariant, "next") // a shadow serves nobody
	lines := g.access(t, 6)                                             // in the order in which they ended
	if strings.Contains(scrape(g), "warmpath_shadow_requests_total{") || len(shadow.received()) > 0 {
		t.Errorf("copied: %v", g.copies(t, 1))
	}
	if !slices.ContainsFunc(lines, func(l accessLine) bool { return l.Code == "variant_not_found" }) {
		t.Errorf("logged %+v", lines)
	}
}

func TestShadowGetsItsShare(t *testing.T) {
	g := newRigAt(t, routing.NameRandom, "http://10.0.0.1:8000")
	engine := &cannedEngine{media: "application/json", length: int64(len(chatAnswer)), reads: []string{chatAnswer}}
	g.pool.Transport = engine
	n := g.shade(t, 0.25, "http://10.0.0.2:8000")
	n.pool.Transport = engine
	for range 1000 {
		g.direct(chatBody)
	}
	g.access(t, 1000)
	n.idle(t)
	var sum int
	for _, count := range g.copies(t, 150) {
		sum += count
	}
	if sum > 350 {
		t.Errorf("%d copies of 1000, want about 250", sum)
	}
}

// A shadow has one attempt, and its failures and its requests are none of the endpoint's retry budget.
func TestShadowsAreNotRetried(t *testing.T) {
	busy := func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 503, "{}") }
	shadows := []*replica{newReplica(t, busy), newReplica(t, busy)}
	g := newRig(t, routing.NameRandom, newReplica(t, nil))
	var bought atomic.Int64
	g.endpoint.Budget = endpoint.NewBudget(0.2, func() time.Time { bought.Add(1); return time.Now() })
	g.shade(t, 1, shadows[0].URL, shadows[1].URL, refusing)
	for range 10 {
		g.post(t, "/v1/chat/completions", chatBody)
	}
	g.copies(t, 10)
	if n := len(shadows[0].received()) + len(shadows[1].received()); n > 10 {
		t.Errorf("%d requests for 10 copies", n)
	}
	if n := bought.Load(); n != 10 {
		t.Errorf("the budget was asked %d times for 10 requests of clients", n)
	}
}

// Close cuts copies off even where a client that leaves would not, and clients are served on.
func TestCloseCutsShadowsOff(t *testing.T) {
	g := newRig(t, routing.NameRandom, newReplica(t, nil))
	n := g.shade(t, 1, newReplica(t, hang(1)).URL)
	n.pool.KeepOnDisconnect = true
	for range 4 {
		g.post(t, "/v1/chat/completions", chatBody)
	}
	eventually(t, "the copies are under way", func() bool { return n.inFlight() == 4 })
	g.proxy.Close()
	if left := n.inFlight(); left != 0 {
		t.Errorf("%d copies are in flight after Close", left)
	}
	if resp, _ := g.post(t, "/v1/chat/completions", chatBody); resp.StatusCode != http.StatusOK {
		t.Errorf("the client got %s", resp.Status)
	}
	if got := g.copies(t, 4); got["client_cancelled"] != 4 || len(got) != 1 {
		t.Errorf("copies ended %v", got)
	}
}

// Requests that begin while Close is under way are served, copied or not.
func TestCloseUnderLoad(t *testing.T) {
	g := newRig(t, routing.NameRandom, newReplica(t, nil))
	n := g.shade(t, 1, newReplica(t, nil).URL)
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for range 25 {
				if w := g.direct(chatBody); w.Code != http.StatusOK {
					t.Errorf("a client got %d", w.Code)
				}
			}
		})
	}
	running.Go(g.proxy.Close)
	running.Wait()
	if left := n.inFlight(); left != 0 {
		t.Errorf("%d copies are in flight", left)
	}
	g.access(t, 100)
}

func TestShadowTimesOutAsTheEndpointSays(t *testing.T) {
	g := newRig(t, routing.NameRandom, newReplica(t, nil))
	g.endpoint.Timeouts.FirstByte = 20 * time.Millisecond
	n := g.shade(t, 1, newReplica(t, hang(0)).URL)
	g.direct(chatBody)
	if got := g.copies(t, 1); got["timeout upstream_timeout"] != 1 {
		t.Errorf("the copy ended %v", got)
	}
	n.idle(t)
}

// What the operator compares: tokens and times of copies, and at debug level a line for each.
func TestShadowsAreObserved(t *testing.T) {
	stream := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		say(w, "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n")
		say(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n")
	}
	g := newRig(t, routing.NameRandom, newReplica(t, nil))
	g.proxy.Log = slog.New(slog.NewJSONHandler(g.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	shadow := newReplica(t, stream)
	n := g.shade(t, 1, shadow.URL)
	g.ask(t, "/v1/chat/completions", chatBody, "X-Request-Id", "mine")
	g.copies(t, 1)
	page := scrape(g)
	for _, want := range []string{"prompt_tokens_total 7", "cached_prompt_tokens_total 4", "output_tokens_total 2", "ttft_seconds_count 1", "request_seconds_count 1"} {
		name, value, _ := strings.Cut(want, " ")
		if line := "warmpath_shadow_" + name + `{endpoint="default",variant="next"} ` + value; !strings.Contains(page, line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
	eventually(t, "both requests are logged", func() bool { return strings.Count(g.log.String(), `"msg":"request"`) == 2 })
	for text := range strings.Lines(g.log.String()) {
		var l struct {
			Level, ID, Replica, Variant, Outcome string
			Shadow                               bool
		}
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(err)
		}
		if l.ID != "mine" || l.Outcome != "ok" || l.Shadow != (l.Variant == "next") || l.Shadow != (l.Level == "DEBUG") || l.Shadow != (l.Replica == n.fleet.View().Replicas[0].ID()) {
			t.Errorf("logged %s", text)
		}
	}
}

func TestExplainShowsShadows(t *testing.T) {
	g := newRigAt(t, routing.NameRandom, refusing)
	g.shade(t, 0.1, refusing)
	e, err := g.proxy.Explain("/v1/chat/completions", http.Header{}, []byte(chatBody))
	if err != nil {
		t.Fatal(err)
	}
	want := []Shadow{{Variant: "next", Pool: "pool", Share: 0.1, Strategy: routing.NameLeastOutstanding}}
	if diff := cmp.Diff(want, e.Shadows); diff != "" || e.Variant != "main" {
		t.Errorf("variant %s, shadows (-want +got):\n%s", e.Variant, diff)
	}
	session := http.Header{dialect.HeaderSession: {dialect.NewSession}}
	if e, err := g.proxy.Explain("/endpoints/default/invocations", session, []byte(chatBody)); err != nil || e.Shadows != nil {
		t.Errorf("of a session: got %+v, %v, want no copies", e, err)
	}
}

// A copy shares nothing with the client's request that either changes.
func TestCopyIsItsOwn(t *testing.T) {
	g := newRigAt(t, routing.NameRandom, refusing)
	g.shade(t, 1, refusing)
	ctx, leave := context.WithCancel(t.Context())
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions?x=1", nil).WithContext(ctx)
	r.Header.Set("X-Tenant", "a")
	x := &exchange{Proxy: g.proxy, Settings: g.settings, w: httptest.NewRecorder(), r: r, body: newBody()}
	c := x.copyFor(g.endpoint.Shadows[0])
	leave()
	r.Header.Set("X-Tenant", "b")
	r.URL = &url.URL{}
	c.w.Header().Set("X-Answer", "1")
	if c.clientGone() || c.r.Header.Get("X-Tenant") != "a" || c.r.URL.RawQuery != "x=1" || x.w.Header().Get("X-Answer") != "" || c.r.Body != nil {
		t.Errorf("the copy is %+v of %+v", c.r, r)
	}
}
