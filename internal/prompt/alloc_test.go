package prompt

import (
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestSteadyStateAllocations(t *testing.T) {
	raw := []byte(`{"model":"m","prompt_cache_key":"k","messages":[{"role":"user","content":[{"type":"text","text":"a\u0062c"},{"type":"image_url","x":1}]},{"content":null}]}`)
	body, err := Scan(raw, ShapeChat)
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, 0, 1024)
	for name, tc := range map[string]struct {
		run func()
		max float64
	}{
		"Scan":     {func() { _, _ = Scan(raw, ShapeChat) }, 2}, // Model and CacheKey
		"TextKey":  {func() { body.TextKey(1024, "hint") }, 0},
		"BytesKey": {func() { BytesKey(raw, 1024, "hint") }, 0},
		"Splice":   {func() { body.Splice(dst, body.SetModel("other")) }, 1}, // the name in quotes
	} {
		if got := testing.AllocsPerRun(100, tc.run); got > tc.max && !raceEnabled {
			t.Errorf("%s: %v allocations, want at most %v", name, got, tc.max)
		}
	}
}

// Pooled windows and decoders must not leak from one request into another.
func TestConcurrentUse(t *testing.T) {
	defer goleak.VerifyNone(t)
	bodies := []string{`{"messages":[{"content":"a"}]}`, `{"messages":[{"content":"bb"}]}`, `{"messages":[7]}`}
	var group sync.WaitGroup
	for _, raw := range bodies {
		want := keyOf(t, raw, ShapeChat, 1024)
		encoded := encodeZstd(t, []byte(raw))
		group.Go(func() {
			for range 200 {
				plain, err := Decode(nil, encoded, "zstd", 1024)
				if err != nil || string(plain) != raw {
					t.Errorf("decoded %q, error %v, want %q", plain, err, raw)
					return
				}
				body, err := Scan(plain, ShapeChat)
				if key, _, _ := body.TextKey(1024, ""); err != nil || key != want.key {
					t.Errorf("%s: key %x, error %v, want %x", raw, key, err, want.key)
				}
			}
		})
	}
	group.Wait()
}
