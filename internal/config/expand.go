package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// variable is a valid name of an environment variable.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces ${NAME} by the variable's value, ${NAME:-default} by the default where the variable is unset or empty,
// and $$ by one dollar sign. Any other dollar sign stands for itself. Values are not expanded again. Errors name the
// variable and show no value.
func expand(text string, env func(string) (string, bool)) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, "$")
		out.WriteString(before)
		switch {
		case !found:
			return out.String(), nil
		case strings.HasPrefix(rest, "$"):
			out.WriteByte('$')
			text = rest[1:]
			continue
		case !strings.HasPrefix(rest, "{"):
			out.WriteByte('$')
			text = rest
			continue
		}
		reference, after, closed := strings.Cut(rest[1:], "}")
		if !closed {
			return "", errors.New("has ${ without }; write ${NAME}, or $$ for a dollar sign")
		}
		value, err := lookUp(reference, env)
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		text = after
	}
}

// lookUp returns the value of NAME or NAME:-default.
func lookUp(reference string, env func(string) (string, bool)) (string, error) {
	name, fallback, hasFallback := strings.Cut(reference, ":-")
	if !variable.MatchString(name) {
		return "", errors.New("has ${...} without a valid variable name; write ${NAME}, or $$ for a dollar sign")
	}
	value, set := env(name)
	switch {
	case hasFallback && value == "":
		return fallback, nil
	case !set:
		return "", fmt.Errorf("the environment variable %s is not set; set it, or write ${%[1]s:-DEFAULT}", name)
	}
	return value, nil
}
