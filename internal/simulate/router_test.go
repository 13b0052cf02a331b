package simulate

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/workload"
)

// Two prompts that are known by block ids have one key exactly if the texts that stand for them do.
func TestBlocksAreKeyedAsTheirText(t *testing.T) {
	const blockTokens = 300
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (workload.Request, workload.Request) {
			ids := rapid.SliceOfN(rapid.Uint64Range(1, 2), 1, 5).Draw(t, name)
			partial := rapid.IntRange(1, blockTokens).Draw(t, name+" partial")
			chained, tokens := chain(ids), (len(ids)-1)*blockTokens+partial
			text := ""
			for _, id := range chained {
				block := fmt.Sprintf("%0*d", blockTokens*charactersPerToken, id)
				text += string([]rune{rune('a' + id%26), rune('a' + id/26%26)}) + block[2:]
			}
			body, _ := json.Marshal(map[string]string{"prompt": text[:tokens*charactersPerToken]})
			return workload.Request{Blocks: chained, BlockTokens: blockTokens, PromptTokens: tokens},
				workload.Request{Path: "/v1/completions", Body: body}
		}
		length := rapid.IntRange(routing.MinPrefixLength, 4*blockTokens*charactersPerToken).Draw(t, "prefix length")
		blocks1, text1 := draw("first")
		blocks2, text2 := draw("second")
		sameBlocks := keyed(t, length, &blocks1) == keyed(t, length, &blocks2)
		sameText := keyed(t, length, &text1) == keyed(t, length, &text2)
		if sameBlocks != sameText {
			t.Errorf("blocks %v and %v of %d and %d tokens, window %d: same key by blocks %v, by text %v",
				blocks1.Blocks, blocks2.Blocks, blocks1.PromptTokens, blocks2.PromptTokens, length, sameBlocks, sameText)
		}
	})
}

// chain makes ids depend on those before them, small enough to stand in two letters.
func chain(ids []uint64) []uint64 {
	chained, last := make([]uint64, len(ids)), uint64(0)
	for i, id := range ids {
		last = last*2 + id
		chained[i] = last
	}
	return chained
}

func keyed(t *rapid.T, length int, request *workload.Request) uint64 {
	key, ok := Key(request, length)
	if !ok {
		t.Fatalf("no key for %+v", request)
	}
	return key
}

func TestKeysOfText(t *testing.T) {
	chat := workload.Request{Path: "/v1/chat/completions?x=1", Body: []byte(`{"messages":[{"role":"user","content":"a"}],"prompt_cache_key":"k"}`)}
	native := workload.Request{Path: "/invocations", Body: []byte(`anything`)}
	broken := workload.Request{Path: "/v1/chat/completions", Body: []byte(`{`)}
	for _, test := range []struct {
		name    string
		request *workload.Request
		want    bool
	}{
		{"chat", &chat, true}, {"native", &native, true}, {"broken", &broken, false},
	} {
		if _, ok := Key(test.request, 1024); ok != test.want {
			t.Errorf("%s: has a key: %v, want %v", test.name, ok, test.want)
		}
	}
}
