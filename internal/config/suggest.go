package config

import (
	"slices"
	"strings"
)

// didYouMean returns a clause for the end of a message: the choice closest to word, or all choices where none is close.
func didYouMean(word string, choices []string) string {
	if best := closest(word, choices); best != "" {
		return "did you mean " + quoted(best) + "?"
	}
	if len(choices) == 0 {
		return "there is none to choose from"
	}
	return "use one of " + strings.Join(choices, ", ")
}

// closest returns the choice with the smallest edit distance to word, "" where that exceeds 2 and a third of the word.
func closest(word string, choices []string) string {
	best, limit := "", max(2, len(word)/3)
	for _, choice := range choices {
		// Two edits turn any word of two letters into any other: what shares nothing with it is no suggestion.
		if d := distance(strings.ToLower(word), strings.ToLower(choice)); d <= limit && d < max(len(word), len(choice)) {
			best, limit = choice, d-1
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes: the fewest insertions, deletions and substitutions from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitution := diagonal
			if a[i] != b[j] {
				substitution++
			}
			diagonal = row[j+1]
			row[j+1] = slices.Min([]int{substitution, row[j] + 1, diagonal + 1})
		}
	}
	return row[len(b)]
}

// quoted puts a name in a message.
func quoted(name string) string { return `"` + clip(name) + `"` }
