// Package suggest finds the word that was probably meant.
package suggest

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// Closest returns the choice that word was probably meant to be, without regard to case: the only one that begins with it, or the
// one with the smallest edit distance within 2 edits or a third of the word. It returns "" if there is none.
func Closest(word string, choices []string) string {
	lower := strings.ToLower(word)
	begun := slices.DeleteFunc(slices.Clone(choices), func(c string) bool { return !strings.HasPrefix(strings.ToLower(c), lower) })
	if len(begun) == 1 && len(word) > 1 {
		return begun[0]
	}
	best, limit := "", max(2, len(word)/3)
	for _, choice := range choices {
		// Two edits turn any word of two letters into any other: what shares nothing with it is no suggestion.
		if d := levenshtein.ComputeDistance(lower, strings.ToLower(choice)); d <= limit && d < max(len(word), len(choice)) {
			best, limit = choice, d-1
		}
	}
	return best
}
