//go:build e2ereal

package realengine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/test/e2e/lab"
)

const (
	faultLimit = 30 * time.Second // for what must come about; a busy machine may take its time
	faultPoll  = 20 * time.Millisecond
)

// TestFaults lets engines die, come back and refuse, and their connections end. All of it runs side by side: it measures nothing.
func TestFaults(t *testing.T) {
	l := lab.New(t)
	for name, test := range map[string]func(*testing.T, lab.Lab){
		"killed": killed, "terminated": terminated,
		"restarted": restarted, "restarted unseen": restartedUnseen,
		"idle connections": idleConnections, "errors": engineErrors,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, l)
		})
	}
}

// stand is engines and the Warmpath in front of them.
type stand struct {
	engines []*lab.Engine
	url     string
	admin   string
}

// setUp starts engines. strategy and pool are settings of the configuration's variant and pool, in YAML's short form without braces.
func setUp(t *testing.T, l lab.Lab, strategy, pool string, engines ...lab.Settings) *stand {
	t.Helper()
	s := &stand{}
	var urls []string
	for _, settings := range engines {
		e := l.StartEngine(t, settings)
		s.engines, urls = append(s.engines, e), append(urls, e.URL)
	}
	data, admin := lab.Reserve(t), lab.Reserve(t)
	stop := l.StartWarmpath(t, fmt.Sprintf(`data: {listen: '%s', drain: {delay: 0s, limit: 10s}}
admin: {listen: '%s'}
pools: {engines: {engine: llamacpp, static: [%s], %s}}
endpoints: {chat: {models: [%s], variants: [{pool: engines, routing: {strategy: %s}}]}}
`, data, admin, strings.Join(urls, ", "), pool, lab.ModelName, strategy), admin)
	t.Cleanup(stop)
	s.url, s.admin = "http://"+data, "http://"+admin
	return s
}

// name is what Warmpath calls an engine.
func name(e *lab.Engine) string { return strings.TrimPrefix(e.URL, "http://") }

// plainly asks without a connection that the engine might be about to close.
var plainly = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: faultLimit}

// eventually waits for a number to become the one that is wanted.
func eventually(t *testing.T, what string, want float64, get func() float64) {
	t.Helper()
	tick := time.NewTicker(faultPoll)
	defer tick.Stop()
	got := get()
	for over := time.Now().Add(faultLimit); got != want && time.Now().Before(over); got = get() {
		<-tick.C
	}
	if got != want {
		t.Fatalf("%s: %v after %v, want %v", what, got, faultLimit, want)
	}
}

// chat is the body of a chat completion of so many tokens.
func chat(prompt string, tokens int, stream bool) []byte {
	body, err := json.Marshal(map[string]any{
		"model": lab.ModelName, "messages": []map[string]string{{"role": "user", "content": prompt}}, "max_tokens": tokens,
		"temperature": 0, "ignore_eos": true, "stream": stream,
	})
	if err != nil {
		panic(err) // it consists of strings and numbers
	}
	return body
}

func postJSON(client *http.Client, url string, body []byte) (*http.Response, error) {
	return client.Post(url, "application/json", bytes.NewReader(body))
}

// complete reads an answer to its end, which must be a good one.
func complete(response *http.Response, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return text, err
}
