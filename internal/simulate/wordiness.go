package simulate

import (
	"math"

	"github.com/warmpath/warmpath/internal/prompt"
	"github.com/warmpath/warmpath/internal/routing"
)

const maxWordiness = 16.0

// reword gives the chain of the same prompt in other words: as many tokens, of up to wordiness times more or fewer characters each.
// How many is up to how the prompt begins, so that what prompts share stays shared.
func reword(c prompt.Chain, wordiness float64) prompt.Chain {
	if len(c.Blocks) == 0 {
		return c
	}
	start := routing.Score(c.Blocks[min(1, len(c.Blocks)-1)], 0)
	length := math.Pow(wordiness, 2*float64(start>>11)/(1<<53)-1) // of a token, in usual ones
	reworded := prompt.Chain{Bytes: int(float64(c.Bytes) * length)}
	for i := range int(float64(len(c.Blocks)) * length) {
		from := min(int(float64(i)/length), len(c.Blocks)-1)
		reworded.Blocks = append(reworded.Blocks, routing.Score(c.Blocks[from], uint64(i)))
	}
	return reworded
}
