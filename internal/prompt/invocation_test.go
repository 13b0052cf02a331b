package prompt

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shown is the shape that the members of a body of ShapeInvocation show.
func shown(raw string) Shape {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(raw), &members) != nil {
		return ShapeNone
	}
	if _, is := members["messages"]; is {
		return ShapeChat
	}
	if _, is := members["prompt"]; is {
		return ShapeCompletion
	}
	return ShapeNone
}

// TestInvocationIsWhatItsMembersShow: an invocation has the chain of the same body on the path of its API, so that an engine's cache is
// found again whichever way a prompt came.
func TestInvocationIsWhatItsMembersShow(t *testing.T) {
	long := strings.Repeat("word ", 200)
	bodies := append([]string{
		`{"model":"m","messages":[{"role":"user","content":"` + long + `"}],"tools":[{"type":"function"}],"cache_salt":"s","stream":true}`,
		`{"prompt":"` + long + `","model":"m"}`,
		`{"prompt":["` + long + `","b"]}`,
		`{"prompt":"` + long + `","messages":[]}`,
		`{"inputs":"` + long + `","tools":["` + long + `"],"cache_salt":"s"}`,
		`{"prompt_cache_key":"k","messages":[{"role":"user","content":"x"}]}`,
		`["messages"]`,
	}, bodySeeds...)
	for _, raw := range bodies {
		want, err := Scan([]byte(raw), shown(raw))
		if err != nil {
			continue
		}
		got, err := Scan([]byte(raw), ShapeInvocation)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Chain(nil, "m"), got.Chain(nil, "m")); diff != "" {
			t.Errorf("%.80s: chain (-want +got):\n%s", raw, diff)
		}
		if got.HasText() != (shown(raw) != ShapeNone) || got.Batch() != want.Batch() || got.Model != want.Model || got.Stream != want.Stream || got.CacheKey != "" {
			t.Errorf("%.80s: text %t, batch %t, model %q, stream %t, cache key %q", raw, got.HasText(), got.Batch(), got.Model, got.Stream, got.CacheKey)
		}
		wantEdit, wantAsks := want.AskUsage()
		if gotEdit, asks := got.AskUsage(); asks != wantAsks || string(got.Splice(nil, gotEdit)) != string(want.Splice(nil, wantEdit)) {
			t.Errorf("%.80s: asks for usage %t, want %t", raw, asks, wantAsks)
		}
	}
}
