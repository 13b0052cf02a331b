//go:build e2eclients

package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/test/e2e/lab"
)

const (
	engines = 2
	pool    = "engines"

	settleLimit = 30 * time.Second // for what must come; a busy machine may take its time
	pollEvery   = 20 * time.Millisecond
)

// plainly asks without a connection that the engine, which closes those that are idle, might be about to close.
var plainly = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: callLimit}

// rig is everything that clients speak to. The URLs are without paths.
type rig struct {
	engines []string
	url     string // Warmpath
	control string // its control plane
	admin   string
	quiet   sync.RWMutex // locked by who must be alone on the engines
}

func startRig(t *testing.T) *rig {
	t.Helper()
	l := lab.New(t)
	urls, stopEngines := l.StartEngines(t, engines, contextTokens)
	data, control, admin := lab.Reserve(t), lab.Reserve(t), lab.Reserve(t)
	stopWarmpath := l.StartWarmpath(t, fmt.Sprintf(`data: {listen: '%s', drain: {delay: 0s, limit: 10s}}
admin: {listen: '%s'}
control_plane:
  listen: %s
  state_file: %s
  endpoints: {invocations_path: /v1/chat/completions, usage: inject}
pools:
  %s: {engine: llamacpp, static: [%s]}
endpoints:
  chat: {models: [%s], usage: inject, variants: [{pool: %[5]s}]}
`, data, admin, control, filepath.Join(t.TempDir(), "state.json"), pool, strings.Join(urls, ", "), lab.ModelName), admin)
	t.Cleanup(func() {
		stopWarmpath()
		stopEngines()
	})
	return &rig{engines: urls, url: "http://" + data, control: "http://" + control, admin: "http://" + admin}
}

// direct sends a request to an engine as no client does: what a runtime API's client is compared with, since no engine has that API.
func direct(engine string, request map[string]any) (o outcome, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return o, err
	}
	response, err := plainly.Post(engine+"/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		return o, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return o, err
	}
	if response.StatusCode != http.StatusOK {
		return outcome{Error: map[string]any{"status": float64(response.StatusCode), "body": string(text)}}, nil
	}
	return outcome{Answer: map[string]any{"type": response.Header.Get("Content-Type"), "body": string(text)}}, nil
}

// busy says whether any engine works on a request.
func (r *rig) busy(t *testing.T) bool {
	return r.sum(t, r.engines, "llamacpp:requests_processing") > 0
}

// made is how many tokens the engines have made.
func (r *rig) made(t *testing.T) float64 {
	return r.sum(t, r.engines, "llamacpp:tokens_predicted_total")
}

// left is how many clients have left, as Warmpath says.
func (r *rig) left(t *testing.T) float64 {
	return r.sum(t, []string{r.admin}, `warmpath_request_outcomes_total{`, `"client_cancelled"`)
}

// sum adds up the series whose line begins with prefix and contains all parts.
func (r *rig) sum(t *testing.T, urls []string, prefix string, parts ...string) (sum float64) {
	t.Helper()
	for _, url := range urls {
		response, err := plainly.Get(url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			if !strings.HasPrefix(line, prefix) || !containsAll(line, parts) {
				continue
			}
			value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			if err != nil {
				t.Fatalf("metrics: %q: %v", line, err)
			}
			sum += value
		}
	}
	return sum
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// eventually waits for a condition and says whether it came about.
func eventually(condition func() bool) bool {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for over := time.Now().Add(settleLimit); time.Now().Before(over); <-tick.C {
		if condition() {
			return true
		}
	}
	return false
}
