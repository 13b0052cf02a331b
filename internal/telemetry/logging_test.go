package telemetry

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNewLogger(t *testing.T) {
	tests := []struct {
		format, level, err string
	}{
		{"text", "debug", ""},
		{"json", "info", ""},
		{"json", "warn", ""},
		{"text", "error", ""},
		{"xml", "info", `log format: "xml" is unknown; use text or json`},
		{"json", "loud", `log level: "loud" is unknown; use debug, info, warn or error`},
		{"", "", `log level: "" is unknown; use debug, info, warn or error`},
	}
	for _, test := range tests {
		var out bytes.Buffer
		log, err := NewLogger(&out, test.format, test.level)
		if test.err != "" {
			if err == nil || err.Error() != test.err {
				t.Errorf("NewLogger(%q, %q): %v, want %s", test.format, test.level, err, test.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("NewLogger(%q, %q): %v", test.format, test.level, err)
			continue
		}
		log.Error("x")
		if isJSON := json.Valid(out.Bytes()); isJSON != (test.format == "json") {
			t.Errorf("format %s wrote %q", test.format, out.String())
		}
	}
}

// access returns the fields of one access line.
func access(t *testing.T, r Request) map[string]any {
	t.Helper()
	var out bytes.Buffer
	log, err := NewLogger(&out, "json", "info")
	if err != nil {
		t.Fatal(err)
	}
	Access(log, &r)
	fields := map[string]any{}
	if err := json.Unmarshal(out.Bytes(), &fields); err != nil {
		t.Fatalf("line %q: %v", out.String(), err)
	}
	delete(fields, "time")
	return fields
}

func TestAccessLine(t *testing.T) {
	want := map[string]any{
		"level": "INFO", "msg": "request", "id": "r-1", "method": "POST", "path": "/v1/chat/completions", "api": "openai", "key": "team-a",
		"endpoint": "chat", "variant": "main", "replica": "10.0.0.1:8000", "strategy": "PREFIX_AWARE", "decision": "affinity",
		"status": 200.0, "outcome": "ok", "stream": true, "attempts": 1.0,
		"decide_ms": 0.004, "connect_ms": 0.3, "first_byte_ms": 500.0, "first_token_ms": 1000.0, "model_ms": 2748.0, "total_ms": 3000.0, "added_ms": 0.08,
		"bytes_in": 2048.0, "bytes_out": 4096.0, "chunks": 5.0, "prompt_tokens": 700.0, "cached_tokens": 512.0, "output_tokens": 5.0,
		"predicted_tokens": 525.0,
	}
	if diff := cmp.Diff(want, access(t, streamed())); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
}

func TestAccessLineOfARefusal(t *testing.T) {
	want := map[string]any{
		"level": "WARN", "msg": "request", "method": "GET", "path": "/x", "status": 503.0, "outcome": "refused", "code": "no_replica",
		"stream": false, "attempts": 0.0, "total_ms": 0.001, "bytes_in": 0.0, "bytes_out": 0.0, "error": "dial tcp: refused",
	}
	got := access(t, Request{Method: "GET", Path: "/x", Status: 503, Outcome: OutcomeRefused, Code: "no_replica", Total: 1400 * time.Nanosecond, Err: "dial tcp: refused"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
}

func TestAccessLevel(t *testing.T) {
	tests := []struct {
		outcome string
		status  int
		want    string
	}{
		{OutcomeOK, 200, "INFO"},
		{OutcomeClientError, 400, "INFO"},
		{OutcomeRefused, 429, "INFO"},
		{OutcomeRefused, 503, "WARN"},
		{OutcomeClientCancelled, StatusClientClosed, "INFO"},
		{OutcomeClientCancelled, 200, "INFO"},
		{OutcomeUpstreamError, 502, "WARN"},
		{OutcomeUpstreamError, 429, "WARN"},
		{OutcomeUpstreamAborted, 200, "WARN"},
		{OutcomeTimeout, 200, "WARN"},
	}
	for _, test := range tests {
		if got := access(t, Request{Outcome: test.outcome, Status: test.status})["level"]; got != test.want {
			t.Errorf("%s, status %d: level %v, want %s", test.outcome, test.status, got, test.want)
		}
	}
}

func TestAccessIsQuietBelowTheLevel(t *testing.T) {
	var out bytes.Buffer
	log, err := NewLogger(&out, "json", "warn")
	if err != nil {
		t.Fatal(err)
	}
	r := streamed()
	Access(log, &r)
	if out.Len() != 0 {
		t.Errorf("wrote %q, want nothing", out.String())
	}
}

func TestAccessLineIsBounded(t *testing.T) {
	huge := strings.Repeat("é", 1<<20)
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		log, err := NewLogger(&out, format, "info")
		if err != nil {
			t.Fatal(err)
		}
		Access(log, &Request{ID: huge, Path: "/a\nlevel=ERROR" + huge, Err: huge})
		if line := out.String(); len(line) > 2000 || strings.Count(line, "\n") != 1 || strings.Contains(line, "\uFFFD") {
			t.Errorf("%s: a line of %d bytes and %d newlines: %.300q", format, len(line), strings.Count(line, "\n"), line)
		}
	}
}

func TestClip(t *testing.T) {
	tests := []struct {
		in    string
		limit int
		want  string
	}{
		{"", 8, ""},
		{"12345678", 8, "12345678"},
		{"123456789", 8, "12345…"},
		{"ééééé", 8, "éé…"},
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff", 8, "\xff\xff\xff\xff\xff…"},
		{"\x80\x80\x80\x80\x80\x80\x80\x80\x80", 8, "…"},
	}
	for _, test := range tests {
		if got := clip(test.in, test.limit); got != test.want {
			t.Errorf("clip(%q, %d) = %q, want %q", test.in, test.limit, got, test.want)
		}
	}
}

func TestC083_MarkersReachNeitherLogNorMetrics(t *testing.T) {
	const marker = "MARKER-7f3a"
	for _, outcome := range []string{OutcomeOK, OutcomeClientError, OutcomeRefused, OutcomeUpstreamError, OutcomeUpstreamAborted, OutcomeClientCancelled, OutcomeTimeout} {
		for _, level := range []string{"debug", "info", "warn", "error"} {
			var out bytes.Buffer
			log, err := NewLogger(&out, "text", level)
			if err != nil {
				t.Fatal(err)
			}
			r := streamed()
			r.Outcome = outcome
			r.Path = "/v1/chat/completions?api_key=" + marker // what a caller that confuses path and request URI would give
			Access(log, &r)
			if strings.Contains(out.String(), marker) {
				t.Errorf("outcome %s, level %s: the query is in the log: %s", outcome, level, out.String())
			}
		}
	}
	m := NewMetrics("test")
	r := streamed()
	r.ID, r.Method, r.Path, r.Err = marker, marker, "/"+marker, marker
	m.Observe(&r)
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	if strings.Contains(rec.Body.String(), marker) {
		t.Error("what a client sent has become a label")
	}
}

func BenchmarkAccess(b *testing.B) {
	log := slog.New(slog.NewJSONHandler(io.Discard, nil))
	r := streamed()
	b.ReportAllocs()
	for b.Loop() {
		Access(log, &r)
	}
}
