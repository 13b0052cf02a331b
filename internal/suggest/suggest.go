// Package suggest finds the word that was probably meant.
package suggest

import (
	"strings"

	"github.com/agnivade/levenshtein"
)

// Closest returns the choice with the smallest edit distance to word, without regard to case, or "" if none is within 2 edits
// or a third of the word.
func Closest(word string, choices []string) string {
	best, limit := "", max(2, len(word)/3)
	for _, choice := range choices {
		// Two edits turn any word of two letters into any other: what shares nothing with it is no suggestion.
		if d := levenshtein.ComputeDistance(strings.ToLower(word), strings.ToLower(choice)); d <= limit && d < max(len(word), len(choice)) {
			best, limit = choice, d-1
		}
	}
	return best
}
