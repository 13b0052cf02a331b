package config

import (
	"strings"

	"github.com/warmpath/warmpath/internal/suggest"
)

// didYouMean returns a clause for the end of a message: the choice closest to word, or all choices where none is close.
func didYouMean(word string, choices []string) string {
	if best := suggest.Closest(word, choices); best != "" {
		return "did you mean " + quoted(best) + "?"
	}
	if len(choices) == 0 {
		return "there is none to choose from"
	}
	return "use one of " + strings.Join(choices, ", ")
}

// quoted puts a name in a message.
func quoted(name string) string { return `"` + clip(name) + `"` }
