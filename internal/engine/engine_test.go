package engine

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLookup(t *testing.T) {
	tests := []struct{ name, healthPath string }{
		{"vllm", "/health"},
		{"sglang", "/health"},
		{"tensorrtllm", "/health"},
		{"llamacpp", "/health"},
		{"generic", "/health"},
	}
	var names []string
	for _, tt := range tests {
		names = append(names, tt.name)
		e, ok := Lookup(tt.name)
		if !ok {
			t.Errorf("Lookup(%q) found nothing", tt.name)
			continue
		}
		if got := e.HealthPath(); got != tt.healthPath {
			t.Errorf("health path of %s: got %q, want %q", tt.name, got, tt.healthPath)
		}
	}
	if diff := cmp.Diff(names, Names()); diff != "" {
		t.Errorf("Names() (-want +got):\n%s", diff)
	}
}

func TestLookupOfAnUnknownName(t *testing.T) {
	for _, name := range []string{"", "vLLM", "vllm ", "tgi"} {
		if e, ok := Lookup(name); ok || e != nil {
			t.Errorf("Lookup(%q) = %v, %v; want none", name, e, ok)
		}
	}
}

// TestEveryEngine holds what all of them promise.
func TestEveryEngine(t *testing.T) {
	for _, name := range Names() {
		e, _ := Lookup(name)
		if e.Name() != name || name != strings.ToLower(name) {
			t.Errorf("engine %q calls itself %q; want one lower-case word", name, e.Name())
		}
		if !strings.HasPrefix(e.HealthPath(), "/") {
			t.Errorf("health path of %s: %q does not begin with a slash", name, e.HealthPath())
		}
		if path := e.(Metered).MetricsPath(); path != "" && path[0] != '/' {
			t.Errorf("metrics path of %s: %q does not begin with a slash", name, path)
		}
	}
}

func TestHowTheCacheCounts(t *testing.T) {
	for _, name := range append(Names(), "unknown", "") {
		want := name == "llamacpp"
		if got := WholePrompts(name); got != want {
			t.Errorf("WholePrompts(%q) = %v, want %v", name, got, want)
		}
		if got := CachedApart(name); got != want {
			t.Errorf("CachedApart(%q) = %v, want %v", name, got, want)
		}
		if got, want := NullUsage(name), name == "sglang"; got != want {
			t.Errorf("NullUsage(%q) = %v, want %v", name, got, want)
		}
	}
}

func TestGivesUp(t *testing.T) {
	if GivesUp("llamacpp") != nil || GivesUp("nothing") != nil {
		t.Error("engines that say nothing of it give requests up")
	}
	for answer, want := range map[string]bool{
		`{"error":{"message":"EngineCore encountered an issue. See","type":"InternalServerError","code":500}}`:                     true,
		`data: {"error": {"message": "EngineCore encountered an issue. See", "code": 500}}`:                                        true,
		`{"type":"error","error":{"type":"internal_error","message":"EngineCore encountered an issue."}}`:                          true,
		`{"choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"abort","stop_reason":null}]}`:                           true,
		`data: {"choices":[{"index":0,"delta":{},"finish_reason":"abort"}]}`:                                                       true,
		`{"choices":[{"text":"\"error\":{ EngineCore encountered an issue, \"finish_reason\":\"abort\"","finish_reason":"stop"}]}`: false,
		`{"error":null,"output":[{"text":"EngineCore encountered an issue"}]}`:                                                     false,
		`{"error":{"message":"` + strings.Repeat("x", longestNotice) + `EngineCore encountered an issue"}}`:                        false,
		`{"error":{"message":"The engine is currently busy and cannot accept new requests."}}`:                                     false,
		``: false,
	} {
		if got := GivesUp("vllm")([]byte(answer)); got != want {
			t.Errorf("%.100q: got %v, want %v", answer, got, want)
		}
	}
}

func TestPaused(t *testing.T) {
	e, _ := Lookup("vllm")
	v := e.(Pausable)
	for answer, want := range map[string]bool{
		`{"is_paused":true}`: true, `{"is_paused":false}`: false, `{}`: false, `{"is_paused":1}`: false, `{"error":"no"}`: false, `true`: false, ``: false,
	} {
		if got := v.ReadPaused([]byte(answer)); got != want {
			t.Errorf("%q: got %v, want %v", answer, got, want)
		}
	}
}

// TestEngineIsOnItsPages holds the tables of docs/engines.md and docs/health.md to the engines.
func TestEngineIsOnItsPages(t *testing.T) {
	for _, page := range []string{"engines.md", "health.md"} {
		text, err := os.ReadFile("../../docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range Names() {
			e, _ := Lookup(name)
			path := e.HealthPath()
			if page == "engines.md" {
				path = e.(Metered).MetricsPath()
			}
			row := "| `" + name + "` | `" + path + "` |"
			if path == "" {
				row = "| `" + name + "` | none |"
			}
			if !strings.Contains(string(text), row) {
				t.Errorf("%s has no row %s", page, row)
			}
		}
	}
}
