package router_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// knock sends a chat request with a key and gives the status.
func (s *site) knock(t testing.TB, key string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.data.URL+"/v1/chat/completions", strings.NewReader(chatBody))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// TestKeysChangeByReload: keys are asked for as soon as there are some, and a new file at the old path is a new key.
func TestKeysChangeByReload(t *testing.T) {
	e := newEngine(t)
	open := onePool(static(e), leastOutstanding)
	s := start(t, open)
	s.ready(t, e)
	file := filepath.Join(t.TempDir(), "key")
	guarded := open + "auth: {keys: [{name: team-a, key_file: " + file + "}]}\n"
	want := func(when string, statuses map[string]int) {
		t.Helper()
		for key, status := range statuses {
			if got := s.knock(t, key); got != status {
				t.Errorf("%s: key %q got %d, want %d", when, key, got, status)
			}
		}
	}
	give := func(key string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want("open", map[string]int{"": 200, "sk-1": 200})
	give("sk-1")
	s.reload(t, guarded)
	want("guarded", map[string]int{"": 401, "sk-1": 200, "sk-2": 401})
	give("sk-2")
	want("before the reload", map[string]int{"sk-1": 200, "sk-2": 401})
	s.reload(t, guarded)
	want("after it", map[string]int{"": 401, "sk-1": 401, "sk-2": 200})
	if got := s.sum(t, `warmpath_key_requests_total{endpoint="e",key="team-a",outcome="ok"`); got != 3 {
		t.Errorf("%g requests are counted for the key, want 3", got)
	}
	s.reload(t, open)
	want("open again", map[string]int{"": 200})
	if log := s.log.String(); strings.Contains(log, "sk-") {
		t.Errorf("a key is in the log:\n%s", log)
	}
}
