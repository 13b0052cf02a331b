package simulate

import (
	"slices"
	"testing"

	"github.com/warmpath/warmpath/internal/prompt"
	"github.com/warmpath/warmpath/internal/workload"
)

// shared counts the leading blocks that two prompts, given by the ids of their blocks, have in common.
func shared(tokens int, a, b []uint64) int {
	chain := func(ids []uint64) []uint64 {
		return Chain(nil, &workload.Request{Blocks: ids, BlockTokens: tokens, PromptTokens: tokens * len(ids)}).Blocks
	}
	x, y := chain(a), chain(b)
	n := 0
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	return n
}

func TestChainOfIDsSharesWhatTheIDsShare(t *testing.T) {
	for _, c := range []struct {
		name   string
		tokens int
		a, b   []uint64
		want   int // blocks of 256 bytes, four bytes a token
	}{
		{"ids longer than a block", 512, []uint64{1, 2, 3}, []uint64{1, 2, 4}, 16},
		{"nothing in common", 512, []uint64{1, 2}, []uint64{5, 2}, 0},
		{"ids shorter than a block, different at its end", 16, []uint64{1, 2, 3, 4}, []uint64{1, 2, 3, 5}, 0},
		{"ids shorter than a block, different after it", 16, []uint64{1, 2, 3, 4, 5, 6, 7, 8}, []uint64{1, 2, 3, 4, 5, 6, 7, 9}, 1},
		{"the same", 16, []uint64{1, 2, 3, 4, 5, 6, 7, 8}, []uint64{1, 2, 3, 4, 5, 6, 7, 8}, 2},
		{"ids that do not divide a block", 48, []uint64{1, 2, 3, 4}, []uint64{1, 2, 3, 5}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := shared(c.tokens, c.a, c.b); got != c.want {
				t.Errorf("got %d blocks in common, want %d", got, c.want)
			}
		})
	}
}

func TestChainOfIDsEndsWithTheIDs(t *testing.T) {
	r := workload.Request{Blocks: []uint64{1, 2}, BlockTokens: 64, PromptTokens: 200}
	c := Chain(nil, &r)
	if c.Bytes != 800 || len(c.Blocks) != 2 {
		t.Errorf("got %d blocks of %d bytes, want 2 of 800", len(c.Blocks), c.Bytes)
	}
	again := Chain(make([]uint64, 0, 8), &r)
	if !slices.Equal(c.Blocks, again.Blocks) || prompt.BlockBytes != 256 {
		t.Error("the chain is not a function of the request")
	}
}
