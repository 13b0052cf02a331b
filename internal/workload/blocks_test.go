package workload

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/internal/prompt"
)

// drawBlocks draws a request of few different ids, so that many share something.
func drawBlocks(t *rapid.T, blockTokens int, label string) Request {
	ids := rapid.SliceOfN(rapid.Uint64Range(0, 2), 1, 5).Draw(t, label)
	for i := range ids {
		ids[i] += uint64(i) * 10 // chained: an id stands in one place only
	}
	rest := rapid.IntRange(1, blockTokens).Draw(t, label+" rest")
	return Request{Blocks: ids, BlockTokens: blockTokens, PromptTokens: (len(ids)-1)*blockTokens + rest}
}

// Two texts agree as far as the ids do, and differ from there on.
func TestTextsShareWhatIDsShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blockTokens := rapid.SampledFrom([]int{4, 16, 512}).Draw(t, "block tokens")
		a, b := drawBlocks(t, blockTokens, "a"), drawBlocks(t, blockTokens, "b")
		textA, textB := a.Text(), b.Text()
		if len(textA) != a.PromptTokens*4 {
			t.Fatalf("text: %d bytes for %d tokens", len(textA), a.PromptTokens)
		}
		shared := 0
		for shared < min(len(a.Blocks), len(b.Blocks)) && a.Blocks[shared] == b.Blocks[shared] {
			shared++
		}
		same := min(shared*blockTokens*4, len(textA), len(textB))
		if textA[:same] != textB[:same] {
			t.Fatalf("%v and %v: the texts differ within %d shared blocks", a.Blocks, b.Blocks, shared)
		}
		if end := same + 4; shared < min(len(a.Blocks), len(b.Blocks)) && textA[same:end] == textB[same:end] {
			t.Fatalf("%v and %v: the texts agree beyond %d shared blocks", a.Blocks, b.Blocks, shared)
		}
	})
}

// The key of a prompt's beginning and the ids that it reaches into tell the same prompts apart.
func TestWindowIsTheKeyOfTheText(t *testing.T) {
	key := func(r Request, characters int) uint64 {
		body, err := prompt.Scan(completionBody(r.Text(), 1), prompt.ShapeCompletion)
		if err != nil {
			t.Fatal(err)
		}
		k, _, _ := body.TextKey(characters, "")
		return k
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawBlocks(t, 16, "a"), drawBlocks(t, 16, "b")
		a.PromptTokens, b.PromptTokens = len(a.Blocks)*16, len(b.Blocks)*16
		characters := rapid.IntRange(1, 5).Draw(t, "blocks")*64 + rapid.SampledFrom([]int{0, 4, 30}).Draw(t, "characters")
		sameIDs := slices.Equal(a.Window(characters), b.Window(characters))
		if sameKey := key(a, characters) == key(b, characters); sameKey != sameIDs {
			t.Fatalf("%v and %v, %d characters: equal keys %v, equal ids %v", a.Blocks, b.Blocks, characters, sameKey, sameIDs)
		}
	})
}

func TestWindowOfNothing(t *testing.T) {
	for _, r := range []Request{{}, {Blocks: []uint64{1}, BlockTokens: 16}} {
		if got := r.Window(0); got != nil {
			t.Errorf("%+v: got %v", r, got)
		}
	}
}

func TestWithBodies(t *testing.T) {
	tests := []struct {
		name, row, model, want string
	}{
		{"blocks", `{"input_length":1,"output_length":3,"hash_ids":[5]}`, "m",
			`{"model":"m","prompt":"` + blockText(5, 1) + `","max_tokens":3,"stream":true,"stream_options":{"include_usage":true}}`},
		{"no model", `{"prompt":"x"}`, "", `{"prompt":"x"}`},
		{"a model", `{"prompt":"x"}`, `m"\`, `{"model":"m\"\\","prompt":"x"}`},
		{"its own model", `{"prompt":"x","model":"own"}`, "m", `{"prompt":"x","model":"own"}`},
		{"bad bytes", `{"prompt":"x"}`, "\xff", "{\"model\":\"\ufffd\",\"prompt\":\"x\"}"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w, err := OpenTrace(file(t, test.row), TraceOptions{})
			if err != nil {
				t.Fatal(err)
			}
			requests := slices.Collect(WithBodies(w, test.model).Requests())
			if len(requests) != 1 || string(requests[0].Body) != test.want || requests[0].Path != "/v1/completions" {
				t.Errorf("got %+v, want the body %s", requests, test.want)
			}
		})
	}
}

func TestWithModelLeavesOddBodiesAlone(t *testing.T) {
	for in, want := range map[string]string{
		` {} `: `{"model":"m"} `, `{ }`: `{"model":"m" }`, `[{"a":1}]`: `[{"a":1}]`, `{`: `{`, ``: ``, `{"a":1}`: `{"model":"m","a":1}`,
	} {
		if got := string(withModel([]byte(in), "m")); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// Whoever plays a trace sends the same text as whoever played it before.
func TestTextNeverChanges(t *testing.T) {
	r := Request{Blocks: []uint64{0, 1, 1 << 63}, BlockTokens: 16, PromptTokens: 40}
	if got, want := fmt.Sprintf("%016x", xxh3.HashString(r.Text())), "62f6ea24b7d89721"; got != want {
		t.Errorf("digest: got %s, want %s", got, want)
	}
}

func TestBlockTextNeedsNoEscaping(t *testing.T) {
	text := blockText(1, 512)
	quoted, err := json.Marshal(text)
	if err != nil || string(quoted) != `"`+text+`"` || len(text) != 2048 || strings.ContainsAny(text, "\n\t") {
		t.Errorf("block text: %d bytes, %d in JSON, error %v", len(text), len(quoted), err)
	}
}

func BenchmarkText(b *testing.B) {
	r := Request{Blocks: []uint64{1, 2, 3, 4, 5, 6, 7, 8}, BlockTokens: 512, PromptTokens: 4096}
	b.SetBytes(4096 * 4)
	for b.Loop() {
		_ = r.Text()
	}
}
