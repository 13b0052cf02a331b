package loadtools

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// recorder stands between a tool and Warmpath and writes down what the tool asks, as a trace. Bench then asks the same, byte for byte and
// at the same times, which no choice of options could make two tools do.
type recorder struct {
	url   string // for the tool
	began time.Time

	mu   sync.Mutex
	rows bytes.Buffer
	sent int
}

func record(t *testing.T, target string) *recorder {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatalf("recorder: %v", err)
	}
	r := &recorder{began: time.Now()}
	pass := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Method == http.MethodPost {
			if err := r.keep(request); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
		}
		pass.ServeHTTP(w, request)
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *recorder) keep(request *http.Request) error {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return err
	}
	if bytes.ContainsRune(body, '\n') {
		return fmt.Errorf("recorder: %s: a body of several lines cannot be a row of a trace as it is", request.URL.Path)
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent++
	at := time.Since(r.began) // within the lock, so that rows are in order of time
	fmt.Fprintf(&r.rows, `{"timestamp":%.3f,"path":%q,"body":%s}`+"\n", at.Seconds()*1000, request.URL.Path, body)
	return nil
}

// trace writes the requests into a file, and says how many there are.
func (r *recorder) trace(t *testing.T) (path string, requests int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	path = filepath.Join(t.TempDir(), "requests.jsonl")
	if err := os.WriteFile(path, r.rows.Bytes(), 0o600); err != nil {
		t.Fatalf("trace: %v", err)
	}
	return path, r.sent
}
