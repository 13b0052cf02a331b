package dialect

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestOpenedSession(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	type opened struct {
		id    string
		lasts time.Duration
		ok    bool
	}
	for name, c := range map[string]struct {
		value, date string
		want        opened
	}{
		"none":                      {},
		"as SageMaker writes it":    {"s-1; Expires=2026-11-30T12:20:00Z", "", opened{"s-1", 20 * time.Minute, true}},
		"by an engine that is late": {"s-1; Expires=2026-11-30T12:10:00Z", "Mon, 30 Nov 2026 11:50:00 GMT", opened{"s-1", 20 * time.Minute, true}},
		"with a date that is none":  {"s-1; Expires=2026-11-30T12:20:00Z", "today", opened{"s-1", 20 * time.Minute, true}},
		"without spaces":            {"s-1;expires=2026-11-30T12:20:00Z", "", opened{"s-1", 20 * time.Minute, true}},
		"with something else":       {" s-1 ; Path=/; Expires=2026-11-30T12:20:00Z", "", opened{"s-1", 20 * time.Minute, true}},
		"without an expiry":         {"s-1", "", opened{"s-1", 0, true}},
		"with one that is none":     {"s-1; Expires=tomorrow", "", opened{"s-1", 0, true}},
		"with one that is over":     {"s-1; Expires=2026-11-30T11:00:00Z", "", opened{"s-1", 0, true}},
		"without an id":             {"; Expires=2026-11-30T12:20:00Z", "", opened{}},
		"with one of 256 bytes":     {strings.Repeat("x", 256), "", opened{strings.Repeat("x", 256), 0, true}},
		"with one that is longer":   {strings.Repeat("x", 257), "", opened{}},
	} {
		h := http.Header{}
		if c.value != "" {
			h.Set("X-Amzn-SageMaker-New-Session-Id", c.value)
		}
		if c.date != "" {
			h.Set("Date", c.date)
		}
		var got opened
		if got.id, got.lasts, got.ok = OpenedSession(h, now); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func FuzzOpenedSession(f *testing.F) {
	f.Add("s-1; Expires=2026-11-30T12:20:00Z", "Mon, 30 Nov 2026 11:50:00 GMT")
	f.Add(";;=;Expires==", "")
	f.Fuzz(func(t *testing.T, value, date string) {
		id, lasts, ok := OpenedSession(http.Header{HeaderNewSession: {value}, "Date": {date}}, time.Unix(1e9, 0))
		if lasts < 0 || ok == (id == "") || !strings.Contains(value, id) {
			t.Errorf("got %q, %s, %t", id, lasts, ok)
		}
	})
}

func TestWhichAPIsHaveSessions(t *testing.T) {
	for path, want := range map[string]bool{
		"/endpoints/e/invocations": true, "/endpoints/e/invocations-response-stream": true, "/endpoints/e/openai/v1/chat/completions": true,
		"/endpoints/e/openai/v1/messages": true, "/invocations": true, "/v1/chat/completions": false, "/v1/messages": false,
	} {
		if r, ok := Recognise(http.MethodPost, path); !ok || r.HasSessions() != want {
			t.Errorf("%s: got %t, want %t", path, r.HasSessions(), want)
		}
	}
}
