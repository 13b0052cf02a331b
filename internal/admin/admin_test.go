package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/fleet"
)

// calls records what reached the injected functions.
type calls struct {
	drained   []string
	explained []string
	hint      string
	reloads   int
}

// options are those of a process with one pool, two replicas and everything there is to ask.
func options(c *calls) Options {
	return Options{
		NotReady: func() []string { return nil },
		Metrics:  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "metrics here") }),
		Pools: func() map[string][]fleet.Status {
			return map[string][]fleet.Status{"p": {
				{Replica: "10.0.0.1:8000", URL: "http://10.0.0.1:8000", State: fleet.Ready, InFlight: 3, Requests: 7},
				{Replica: "10.0.0.2:80/base", URL: "http://10.0.0.2:80/base", State: fleet.Unhealthy},
			}, "empty": nil}
		},
		Drain: func(pool, replica string, draining bool) bool {
			c.drained = append(c.drained, fmt.Sprintf("%s %s %v", pool, replica, draining))
			return pool == "p" && replica != "unknown:1"
		},
		Explain: func(_ context.Context, path string, header http.Header, body []byte) (any, error) {
			c.explained = append(c.explained, path+" "+string(body))
			c.hint = header.Get("X-Amzn-SageMaker-Prefix-Aware-Id")
			return map[string]string{"replica": "10.0.0.1:8000"}, nil
		},
		Reload: func(context.Context) error { c.reloads++; return nil },
	}
}

// ask sends one request to a handler and returns the answer.
func ask(h http.Handler, method, target, body string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(method, target, strings.NewReader(body)))
	return rec
}

// errorCode returns the code of a JSON error, and fails if the answer is not one.
func errorCode(t *testing.T, rec *httptest.ResponseRecorder) string {
	t.Helper()
	var answer struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &answer); err != nil || answer.Error.Code == "" || answer.Error.Message == "" {
		t.Fatalf("status %d: %q is not a JSON error", rec.Code, rec.Body.String())
	}
	return answer.Error.Code
}

func TestAnswers(t *testing.T) {
	tests := []struct {
		name, method, target, body string
		status                     int
		contains                   string
	}{
		{"index", "GET", "/", "", 200, "/api/v1/explain"},
		{"alive", "GET", "/healthz", "", 200, "ok\n"},
		{"ready", "GET", "/readyz", "", 200, `"ready": true`},
		{"metrics", "GET", "/metrics", "", 200, "metrics here"},
		{"head", "HEAD", "/healthz", "", 200, ""},
		{"replicas", "GET", "/api/v1/replicas", "", 200, `"replica": "10.0.0.1:8000"`},
		{"a pool without replicas is an empty list", "GET", "/api/v1/replicas", "", 200, `"empty": []`},
		{"replica", "GET", "/api/v1/pools/p/replicas/10.0.0.1:8000", "", 200, `"in_flight": 3`},
		{"replica with a slash", "GET", "/api/v1/pools/p/replicas/10.0.0.2:80%2Fbase", "", 200, `"state": "unhealthy"`},
		{"replica with all escaped", "GET", "/api/v1/pools/p/replicas/10.0.0.2%3A80%2Fbase", "", 200, `"state": "unhealthy"`},
		{"drain", "PUT", "/api/v1/pools/p/replicas/10.0.0.1:8000/draining", "true", 200, `"in_flight": 3`},
		{"undrain", "PUT", "/api/v1/pools/p/replicas/10.0.0.1:8000/draining", " false\n", 200, `"in_flight": 3`},
		{"explain", "POST", "/api/v1/explain", `{"model":"m"}`, 200, `"replica": "10.0.0.1:8000"`},
		{"reload", "POST", "/api/v1/reload", "", 200, `"reloaded": true`},
	}
	h := New(options(&calls{}))
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rec := ask(h, test.method, test.target, test.body)
			if rec.Code != test.status || !strings.Contains(rec.Body.String(), test.contains) {
				t.Errorf("status %d, body %s; want %d and %s", rec.Code, rec.Body.String(), test.status, test.contains)
			}
			if got := rec.Header().Get("X-Content-Type-Options"); got != "nosniff" {
				t.Errorf("X-Content-Type-Options = %q, want nosniff", got)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	tests := []struct {
		name, method, target, body string
		status                     int
		code, allow                string
	}{
		{"unknown path", "GET", "/nowhere", "", 404, "not_found", ""},
		{"below a known path", "GET", "/metrics/x", "", 404, "not_found", ""},
		{"unescaped slash in a replica", "GET", "/api/v1/pools/p/replicas/10.0.0.2:80/base", "", 404, "not_found", ""},
		{"write to a read-only path", "POST", "/metrics", "", 405, "method_not_allowed", "GET, HEAD"},
		{"post to the index", "POST", "/", "", 405, "method_not_allowed", "GET, HEAD"},
		{"read a command", "GET", "/api/v1/reload", "", 405, "method_not_allowed", "POST"},
		{"head of a command", "HEAD", "/api/v1/explain", "", 405, "method_not_allowed", "POST"},
		{"post draining", "POST", "/api/v1/pools/p/replicas/10.0.0.1:8000/draining", "true", 405, "method_not_allowed", "PUT"},
		{"preflight", "OPTIONS", "/api/v1/reload", "", 405, "method_not_allowed", "POST"},
		{"unknown pool", "GET", "/api/v1/pools/q/replicas/10.0.0.1:8000", "", 404, "unknown_replica", ""},
		{"unknown replica", "GET", "/api/v1/pools/p/replicas/unknown:1", "", 404, "unknown_replica", ""},
		{"drain unknown", "PUT", "/api/v1/pools/p/replicas/unknown:1/draining", "true", 404, "unknown_replica", ""},
		{"drain without body", "PUT", "/api/v1/pools/p/replicas/10.0.0.1:8000/draining", "", 400, "bad_body", ""},
		{"drain, not a bool", "PUT", "/api/v1/pools/p/replicas/10.0.0.1:8000/draining", `"true"`, 400, "bad_body", ""},
		{"drain, huge body", "PUT", "/api/v1/pools/p/replicas/10.0.0.1:8000/draining", "true" + strings.Repeat(" ", 100), 400, "bad_body", ""},
		{"explain, huge body", "POST", "/api/v1/explain", strings.Repeat("x", 101), 413, "body_too_large", ""},
		{"explain, relative path", "POST", "/api/v1/explain?path=v1/x", "{}", 400, "bad_path", ""},
	}
	var c calls
	o := options(&c)
	o.MaxBody = 100
	h := New(o)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rec := ask(h, test.method, test.target, test.body)
			if rec.Code != test.status || rec.Header().Get("Allow") != test.allow {
				t.Errorf("status %d, Allow %q; want %d, %q", rec.Code, rec.Header().Get("Allow"), test.status, test.allow)
			}
			if got := errorCode(t, rec); got != test.code {
				t.Errorf("code = %q, want %q", got, test.code)
			}
		})
	}
	if len(c.explained) != 0 || c.reloads != 0 {
		t.Errorf("refused requests had effects: %+v", c)
	}
}

func TestRoutesWithoutAFunctionDoNotExist(t *testing.T) {
	h := New(Options{})
	for _, target := range []string{"/readyz", "/metrics", "/api/v1/replicas", "/api/v1/pools/p/replicas/r", "/api/v1/explain", "/api/v1/reload"} {
		if rec := ask(h, "GET", target, ""); rec.Code != 404 {
			t.Errorf("%s: status %d, want 404", target, rec.Code)
		}
	}
	if index := ask(h, "GET", "/", "").Body.String(); strings.Contains(index, "reload") || !strings.Contains(index, "/healthz") {
		t.Errorf("index = %q, want only what there is", index)
	}
}

func TestReadinessGivesReasons(t *testing.T) {
	reasons := []string{"pool p: no replica is ready", "shutting down"}
	rec := ask(New(Options{NotReady: func() []string { return reasons }}), "GET", "/readyz", "")
	var got readiness
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(readiness{Reasons: reasons}, got); diff != "" || rec.Code != 503 {
		t.Errorf("status %d, (-want +got):\n%s", rec.Code, diff)
	}
}

func TestExplainPassesTheRequestOn(t *testing.T) {
	var c calls
	h := New(options(&c))
	r := httptest.NewRequest("POST", "/api/v1/explain?path=/endpoints/chat/invocations", strings.NewReader("raw \x00 bytes"))
	r.Header.Set("X-Amzn-SageMaker-Prefix-Aware-Id", "user-7")
	h.ServeHTTP(httptest.NewRecorder(), r)
	ask(h, "POST", "/api/v1/explain", "{}")
	want := []string{"/endpoints/chat/invocations raw \x00 bytes", "/v1/chat/completions {}"}
	if diff := cmp.Diff(want, c.explained); diff != "" {
		t.Errorf("explained (-want +got):\n%s", diff)
	}
	if c.hint != "" {
		t.Errorf("the second request's hint = %q, want none", c.hint)
	}
}

func TestErrorsOfExplainAndReload(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		status int
		code   string
	}{
		{"plain", errors.New("warmpath.yaml:3:1: unknown key"), 422, "_failed"},
		{"refusal", &Refusal{404, "unknown_model", "no endpoint serves it"}, 404, "unknown_model"},
		{"wrapped refusal", fmt.Errorf("explain: %w", &Refusal{400, "bad_json", "not JSON"}), 400, "bad_json"},
	}
	for _, test := range tests {
		h := New(Options{
			Explain: func(context.Context, string, http.Header, []byte) (any, error) { return nil, test.err },
			Reload:  func(context.Context) error { return test.err },
		})
		for _, target := range []string{"/api/v1/explain", "/api/v1/reload"} {
			rec := ask(h, "POST", target, "{}")
			if code := errorCode(t, rec); rec.Code != test.status || !strings.HasSuffix(code, test.code) {
				t.Errorf("%s, %s: status %d, code %q; want %d, %q", test.name, target, rec.Code, code, test.status, test.code)
			}
			if !strings.Contains(rec.Body.String(), test.err.Error()) {
				t.Errorf("%s, %s: %s lacks the reason", test.name, target, rec.Body.String())
			}
		}
	}
}

func TestAnswerThatIsNotJSON(t *testing.T) {
	h := New(Options{Explain: func(context.Context, string, http.Header, []byte) (any, error) { return func() {}, nil }})
	if rec := ask(h, "POST", "/api/v1/explain", "{}"); rec.Code != 500 || errorCode(t, rec) != "not_encodable" {
		t.Errorf("status %d, body %s; want a clean 500", rec.Code, rec.Body.String())
	}
}

func TestBodyThatBreaksOff(t *testing.T) {
	r := httptest.NewRequest("POST", "/api/v1/explain", io.MultiReader(strings.NewReader("{"), broken{}))
	rec := httptest.NewRecorder()
	New(options(&calls{})).ServeHTTP(rec, r)
	if rec.Code != 400 || errorCode(t, rec) != "bad_body" {
		t.Errorf("status %d, body %s; want 400", rec.Code, rec.Body.String())
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestWebPagesAreKeptOut(t *testing.T) {
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8081}
	public := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 8081}
	tests := []struct {
		name, method, host string
		header             [2]string
		local              net.Addr
		status             int
	}{
		{"curl", "POST", "127.0.0.1:8081", [2]string{}, loopback, 200},
		{"curl to localhost", "POST", "localhost:8081", [2]string{}, loopback, 200},
		{"curl to IPv6", "POST", "[::1]:8081", [2]string{}, loopback, 200},
		{"curl to IPv6, no port", "POST", "[::1]", [2]string{}, loopback, 200},
		{"own page", "POST", "127.0.0.1:8081", [2]string{"Origin", "http://127.0.0.1:8081"}, loopback, 200},
		{"machine name", "POST", "box:8081", [2]string{}, loopback, 200},
		{"name under localhost", "POST", "warmpath.localhost:8081", [2]string{}, loopback, 200},
		{"configured name", "POST", "Admin.Example.COM:8081", [2]string{}, loopback, 200},
		{"another site's origin", "POST", "127.0.0.1:8081", [2]string{"Origin", "https://evil.example"}, loopback, 403},
		{"another port's origin", "POST", "127.0.0.1:8081", [2]string{"Origin", "http://127.0.0.1:9999"}, loopback, 403},
		{"opaque origin", "POST", "127.0.0.1:8081", [2]string{"Origin", "null"}, loopback, 403},
		{"cross-site by its own word", "POST", "127.0.0.1:8081", [2]string{"Sec-Fetch-Site", "cross-site"}, loopback, 403},
		{"rebound name", "POST", "evil.example:8081", [2]string{"Origin", "http://evil.example:8081"}, loopback, 403},
		{"rebound name, reading", "GET", "evil.example:8081", [2]string{}, loopback, 403},
		{"rebound name with a final dot", "GET", "evil.example.:8081", [2]string{}, loopback, 403},
		{"name that begins like an address", "GET", "127.0.0.1.evil.example", [2]string{}, loopback, 403},
		{"any name off loopback", "POST", "warmpath.prod.svc:8081", [2]string{}, public, 200},
		{"another site's origin off loopback", "POST", "warmpath.prod.svc:8081", [2]string{"Origin", "https://evil.example"}, public, 403},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var c calls
			o := options(&c)
			o.Hosts = []string{"admin.example.com"}
			target := map[string]string{"POST": "/api/v1/reload", "GET": "/api/v1/replicas"}[test.method]
			r := httptest.NewRequest(test.method, target, nil)
			r.Host = test.host
			if test.header[0] != "" {
				r.Header.Set(test.header[0], test.header[1])
			}
			rec := httptest.NewRecorder()
			New(o).ServeHTTP(rec, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, test.local)))
			if rec.Code != test.status {
				t.Errorf("status %d, want %d: %s", rec.Code, test.status, rec.Body.String())
			}
			if test.status == 403 && (errorCode(t, rec) == "" || c.reloads != 0) {
				t.Error("a refused request was carried out")
			}
			if rec.Header().Get("Access-Control-Allow-Origin") != "" {
				t.Error("the answer lets other sites read it")
			}
		})
	}
}

func TestFindMergesTheTwoLivesOfAReplica(t *testing.T) {
	live := fleet.Status{Replica: "a:1", State: fleet.Ready, InFlight: 1, Requests: 2}
	retired := fleet.Status{Replica: "a:1", State: fleet.Draining, InFlight: 4, Requests: 90, Removed: true}
	older := fleet.Status{Replica: "a:1", State: fleet.Draining, InFlight: 2, Requests: 50, Removed: true}
	other := fleet.Status{Replica: "b:1", InFlight: 100}
	tests := []struct {
		name string
		in   []fleet.Status
		want fleet.Status
		ok   bool
	}{
		{"none", []fleet.Status{other}, fleet.Status{}, false},
		{"live", []fleet.Status{other, live}, live, true},
		{"live and retired", []fleet.Status{live, other, retired, older}, fleet.Status{Replica: "a:1", State: fleet.Ready, InFlight: 7, Requests: 2}, true},
		{"retired first", []fleet.Status{retired, live}, fleet.Status{Replica: "a:1", State: fleet.Ready, InFlight: 5, Requests: 2}, true},
		{"only retired", []fleet.Status{retired}, retired, true},
	}
	for _, test := range tests {
		got, ok := find(test.in, "a:1")
		if diff := cmp.Diff(test.want, got); diff != "" || ok != test.ok {
			t.Errorf("%s: found %v, want %v (-want +got):\n%s", test.name, ok, test.ok, diff)
		}
	}
}

// TestC098_DrainedReplicaCanBeObserved follows what a preStop hook does: drain, poll until nothing is in flight, stop.
func TestC098_DrainedReplicaCanBeObserved(t *testing.T) {
	const path = "/api/v1/pools/p/replicas/10.0.0.1:8000"
	f := fleet.New(fleet.Options{})
	f.Apply([]fleet.Target{{URL: "http://10.0.0.1:8000"}, {URL: "http://10.0.0.2:8000"}})
	for _, r := range f.View().Replicas {
		f.SetHealth(r, true)
	}
	h := New(Options{
		Pools: func() map[string][]fleet.Status { return map[string][]fleet.Status{"p": f.Statuses()} },
		Drain: func(_, replica string, draining bool) bool { return f.Drain(replica, draining) },
	})
	var streams []*fleet.Lease
	for range 5 {
		streams = append(streams, f.Acquire(func(v *fleet.View) *fleet.Replica { return v.Replicas[0] }))
	}
	check := func(step string, rec *httptest.ResponseRecorder, inFlight int64, removed bool) {
		t.Helper()
		var got fleet.Status
		if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v in %s", step, err, rec.Body.String())
		}
		if rec.Code != 200 || got.State != fleet.Draining || got.InFlight != inFlight || got.Removed != removed {
			t.Errorf("%s: status %d, %+v; want draining, %d in flight, removed %v", step, rec.Code, got, inFlight, removed)
		}
	}
	check("drained", ask(h, "PUT", path+"/draining", "true"), 5, false)
	if eligible := f.View().Eligible; len(eligible) != 1 || eligible[0].ID() != "10.0.0.2:8000" {
		t.Errorf("a draining replica still gets new requests: %v", eligible)
	}
	for range 3 {
		streams[0].Release()
		streams = streams[1:]
	}
	check("three ended", ask(h, "GET", path, ""), 2, false)
	f.Apply([]fleet.Target{{URL: "http://10.0.0.2:8000"}})
	check("removed", ask(h, "GET", path, ""), 2, true)
	for _, l := range streams {
		l.Release()
	}
	if rec := ask(h, "GET", path, ""); rec.Code != 404 {
		t.Errorf("when all is done: status %d, want 404", rec.Code)
	}
}
