package simulate

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/internal/prompt"
)

// Prompts in other words have as many tokens in a number of characters that is theirs, and share what they shared.
func TestRewordKeepsWhatIsShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		block := rapid.Uint64()
		shared := rapid.SliceOfN(block, 2, 60).Draw(t, "shared")
		first := append(slices.Clone(shared), rapid.SliceOfN(block, 0, 60).Draw(t, "first")...)
		second := append(slices.Clone(shared), rapid.SliceOfN(block, 0, 60).Draw(t, "second")...)
		wordiness := rapid.Float64Range(1, maxWordiness).Draw(t, "wordiness")
		one := reword(prompt.Chain{Blocks: first, Bytes: len(first) * prompt.BlockBytes}, wordiness)
		other := reword(prompt.Chain{Blocks: second, Bytes: len(second) * prompt.BlockBytes}, wordiness)

		length := float64(one.Bytes) / float64(len(first)*prompt.BlockBytes)
		if length < 0.99/wordiness-0.01 || length > 1.01*wordiness || len(one.Blocks) != one.Bytes/prompt.BlockBytes {
			t.Errorf("%d blocks in %v times the characters, want at most %v times more or fewer", len(one.Blocks), length, wordiness)
		}
		both := reword(prompt.Chain{Blocks: first[:common(first, second)]}, wordiness)
		got := common(one.Blocks, other.Blocks)
		if got < len(both.Blocks) || got > len(both.Blocks)+int(wordiness)+1 {
			t.Errorf("%d blocks are shared, want %d", got, len(both.Blocks))
		}
	})
}

// common is how many elements two chains begin with.
func common(a, b []uint64) (n int) {
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func TestRewordKeepsAShortPrompt(t *testing.T) {
	if c := reword(prompt.Chain{Bytes: 100}, 2); c.Bytes != 100 || c.Blocks != nil {
		t.Errorf("got %+v, want it as it was: it is too short to have a beginning", c)
	}
}
