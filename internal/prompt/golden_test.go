package prompt

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden keys: this moves every prompt of every fleet to another replica")

// vector pins one key. Without a shape it is a native body.
type vector struct {
	Shape        string `json:"shape"`
	Body         string `json:"body"`
	PrefixLength int    `json:"prefix_length"`
	Hint         string `json:"hint"`
	Key          string `json:"key"`
	Used         int    `json:"used"`
}

var shapeNames = map[string]Shape{
	"chat": ShapeChat, "completion": ShapeCompletion, "responses": ShapeResponses, "anthropic": ShapeAnthropic,
}

// Routers of different releases must agree on every key.
func TestGoldenKeys(t *testing.T) {
	const file = "testdata/keys.json"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want []vector
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	got := make([]vector, len(want))
	for i, v := range want {
		var key uint64
		if shape, ok := shapeNames[v.Shape]; ok {
			body, err := Scan([]byte(v.Body), shape)
			if err != nil {
				t.Fatal(err)
			}
			key, v.Used, _ = body.TextKey(v.PrefixLength, v.Hint)
		} else {
			key, v.Used, _ = BytesKey([]byte(v.Body), v.PrefixLength, v.Hint)
		}
		v.Key = fmt.Sprintf("%016x", key)
		got[i] = v
	}
	if diff := cmp.Diff(want, got); diff != "" && !*update {
		t.Errorf("keys changed (-want +got):\n%s", diff)
	}
	if *update {
		writeGolden(t, file, got)
	}
}

func writeGolden(t *testing.T, file string, vectors any) {
	t.Helper()
	data, err := json.MarshalIndent(vectors, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(data, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
