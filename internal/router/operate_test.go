package router_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/fleet"
)

func TestC037_KnownButEmptyIsNotUnknown(t *testing.T) {
	t.Parallel()
	a := newEngine(t)
	source, rewrite := replicaFile(t, "[]")
	text := func(strict string) string {
		return fmt.Sprintf("pools: {p: {%s, %s}}\nendpoints: {e: {models: [m]%s, variants: [{pool: p}]}}\n", source, quick, strict)
	}
	s := start(t, text(", strict_models: true"))
	unavailable := func(when string) {
		t.Helper()
		status, answer, header := s.post(t, chatBody)
		if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || !strings.Contains(answer, "no_replica") {
			t.Errorf("%s: got %d %s with Retry-After %q, want 503 with both", when, status, answer, header.Get("Retry-After"))
		}
	}
	unavailable("no replica since the start")
	unknown := strings.Replace(chatBody, `"m"`, `"never heard of"`, 1)
	status, answer, _ := s.post(t, unknown)
	var body struct {
		Error struct {
			Message string `json:"message"`
			Code    string `json:"code"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(answer), &body); err != nil || status != http.StatusNotFound || body.Error.Code != "model_not_found" {
		t.Errorf("unknown model: got %d %s, want 404 in OpenAI's shape", status, answer)
	}
	rewrite(list(a))
	s.becomes(t, a.address(), fleet.Ready)
	s.mustPost(t, 1)
	rewrite("[]")
	eventually(t, "the replicas have vanished", func() bool { return len(s.Statuses()["p"]) == 0 })
	unavailable("its replicas just vanished")
}

func TestC098_DrainByHand(t *testing.T) {
	t.Parallel()
	a, b := newEngine(t), newEngine(t)
	s := start(t, onePool(static(a, b), leastOutstanding))
	s.ready(t, a, b)
	var reads []func() (string, error)
	for range 10 {
		reads = append(reads, s.open(t))
	}
	path := "/api/v1/pools/p/replicas/" + a.address()
	if status, answer := s.ask(t, http.MethodPut, path+"/draining", "true"); status != http.StatusOK || !strings.Contains(answer, "draining") {
		t.Fatalf("got %d %s", status, answer)
	}
	s.mustPost(t, 20)
	if n := a.requests.Load(); n != 5 {
		t.Errorf("the draining replica got %d requests, want only the 5 streams", n)
	}
	if st := s.status(t, a.address()); st.InFlight != 5 || st.State != fleet.Draining {
		t.Errorf("got %d in flight, %s; want 5, draining", st.InFlight, st.State)
	}
	close(a.goOn)
	close(b.goOn)
	for _, read := range reads {
		if text, err := read(); err != nil || !strings.HasSuffix(text, "[DONE]\n\n") {
			t.Errorf("a stream was cut: %q, %v", text, err)
		}
	}
	eventually(t, "it can be seen that the replica has finished", func() bool {
		_, answer := s.ask(t, http.MethodGet, path, "")
		return strings.Contains(answer, `"in_flight": 0`)
	})
	t.Run("a reload does not undo it", func(t *testing.T) {
		s.reload(t, onePool(static(b, a), leastOutstanding))
		s.mustPost(t, 10)
		if st := s.status(t, a.address()); st.State != fleet.Draining || a.requests.Load() != 5 {
			t.Errorf("got %s and %d requests, want draining and 5", st.State, a.requests.Load())
		}
	})
	t.Run("taken back", func(t *testing.T) {
		s.ask(t, http.MethodPut, path+"/draining", "false")
		s.becomes(t, a.address(), fleet.Ready)
	})
	t.Run("removed", func(t *testing.T) {
		s.reload(t, onePool(static(b), leastOutstanding))
		eventually(t, "it is gone", func() bool {
			status, _ := s.ask(t, http.MethodGet, path, "")
			return status == http.StatusNotFound
		})
	})
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	a := newEngine(t)
	a.sick.Store(true)
	s := start(t, onePool(static(a), "RANDOM"))
	readiness := func(want int, reason string) {
		t.Helper()
		eventually(t, fmt.Sprintf("/readyz is %d", want), func() bool {
			status, answer := s.ask(t, http.MethodGet, "/readyz", "")
			return status == want && strings.Contains(answer, reason)
		})
		if status, _ := s.ask(t, http.MethodGet, "/healthz", ""); status != http.StatusOK {
			t.Errorf("healthz: got %d, want 200 whatever the replicas do", status)
		}
	}
	readiness(http.StatusServiceUnavailable, "none of its 1 replicas is ready")
	a.sick.Store(false)
	readiness(http.StatusOK, "true")
	a.sick.Store(true)
	readiness(http.StatusServiceUnavailable, "pool p")
}

func TestOneEmptyPoolDoesNotTakeTheOthersOutOfService(t *testing.T) {
	t.Parallel()
	a := newEngine(t)
	source, _ := replicaFile(t, "[]")
	s := start(t, fmt.Sprintf("pools: {p: {%s, %s}, empty: {%s}}\nendpoints:\n  e: {models: [m], variants: [{pool: p}]}\n  f: {models: [n], variants: [{pool: empty}]}\n", static(a), quick, source))
	s.ready(t, a)
	if status, answer := s.ask(t, http.MethodGet, "/readyz", ""); status != http.StatusOK {
		t.Errorf("got %d %s, want 200", status, answer)
	}
	a.sick.Store(true)
	eventually(t, "no pool is ready", func() bool {
		status, answer := s.ask(t, http.MethodGet, "/readyz", "")
		return status == http.StatusServiceUnavailable && strings.Contains(answer, "pool empty: none of its 0 replicas") && strings.Contains(answer, "pool p: none of its 1")
	})
}

func TestExplainAgreesWithWhatHappens(t *testing.T) {
	t.Parallel()
	engines := []*engine{newEngine(t), newEngine(t), newEngine(t)}
	s := start(t, onePool(static(engines...), "PREFIX_AWARE"))
	s.ready(t, engines...)
	for i := range 10 {
		body := strings.Replace(chatBody, "hello", fmt.Sprintf("document %d", i), 1)
		status, answer := s.ask(t, http.MethodPost, "/api/v1/explain", body)
		var e struct {
			Order []struct{ Replica, Reason string }
		}
		if err := json.Unmarshal([]byte(answer), &e); err != nil || status != http.StatusOK || len(e.Order) != len(engines) {
			t.Fatalf("explain: got %d %s", status, answer)
		}
		_, _, header := s.post(t, body)
		want := []string{e.Order[0].Replica, e.Order[0].Reason}
		got := []string{header.Get("X-Warmpath-Replica"), header.Get("X-Warmpath-Decision")}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("document %d: explained, then done:\n%s", i, diff)
		}
	}
	if status, answer := s.ask(t, http.MethodPost, "/api/v1/explain", "{"); status != http.StatusBadRequest {
		t.Errorf("a broken body: got %d %s, want 400", status, answer)
	}
}
