//go:build e2e

package fleet

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// metric reads the sum of a router's series whose line begins with prefix.
func (r *router) metric(t testing.TB, prefix string) (sum float64) {
	t.Helper()
	resp, err := http.Get(r.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, prefix) {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(strings.TrimSpace(line), ' ')+1:len(line)-1], 64)
		if err != nil {
			t.Fatalf("metrics: %q: %v", line, err)
		}
		sum += value
	}
	return sum
}

// becomesIdle waits until no request is in flight.
func (r *router) becomesIdle(t testing.TB) {
	t.Helper()
	eventually(t, startLimit, "nothing is in flight", func() bool { return r.metric(t, "warmpath_in_flight{") == 0 })
}
