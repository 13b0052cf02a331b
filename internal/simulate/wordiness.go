package simulate

import (
	"math"

	"github.com/warmpath/warmpath/internal/prompt"
	"github.com/warmpath/warmpath/internal/routing"
)

const maxWordiness = 16.0

// passage is the mean length of text of one kind, in blocks: 4,096 tokens.
const passage = 64

// reword gives the chain of the same prompt in other words: as many tokens, of up to wordiness times more or fewer characters each,
// another number in each passage. Where passages begin and what they are like is up to what has been said, so that what prompts
// share stays shared.
func reword(c prompt.Chain, wordiness float64) prompt.Chain {
	var reworded prompt.Chain
	length, end := 1.0, 0.0 // of a token, in usual ones; of the prompt so far, in blocks
	for i, block := range c.Blocks {
		if draw := routing.Score(block, 0); i == 0 || draw%passage == 0 {
			length = math.Pow(wordiness, 2*float64(draw>>11)/(1<<53)-1)
		}
		end += length
		for len(reworded.Blocks) < int(end) {
			reworded.Blocks = append(reworded.Blocks, routing.Score(block, uint64(len(reworded.Blocks))))
		}
	}
	rest := c.Bytes - len(c.Blocks)*prompt.BlockBytes
	reworded.Bytes = int(end*prompt.BlockBytes) + int(float64(rest)*length)
	return reworded
}
