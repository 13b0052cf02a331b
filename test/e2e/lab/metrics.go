package lab

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// scraper asks without a connection that the server, which closes those that are idle, might be about to close.
var scraper = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}

// Sum adds up the series of all servers' metrics whose line begins with prefix and contains all parts.
func Sum(t *testing.T, urls []string, prefix string, parts ...string) (sum float64) {
	t.Helper()
	for _, url := range urls {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := scraper.Do(request)
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
