package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/suggest"
)

// Strategy names a strategy and its settings.
type Strategy struct {
	Name    string
	Options routing.Options
}

// ParseStrategies reads a list such as
//
//	RANDOM,PREFIX_AWARE:prefix_length=4096,concurrency_threshold=16,LEAST_OUTSTANDING_REQUESTS
//
// A comma separates both options and strategies: a part with = and without : is another option of the strategy before it. Names and
// ranges are those of package routing; the error says what is wrong, and what was probably meant.
func ParseStrategies(list string) ([]Strategy, error) {
	var strategies []Strategy
	for part := range strings.SplitSeq(list, ",") {
		name, option, hasOption := strings.Cut(part, ":")
		if !hasOption && strings.Contains(part, "=") {
			name, option, hasOption = "", part, true
		}
		if name != "" || len(strategies) == 0 {
			strategies = append(strategies, Strategy{Name: strings.TrimSpace(name)})
		}
		if !hasOption {
			continue
		}
		if err := strategies[len(strategies)-1].set(option); err != nil {
			return nil, err
		}
	}
	for _, s := range strategies {
		if err := s.validate(); err != nil {
			return nil, err
		}
	}
	return strategies, nil
}

// validate lets routing judge, and adds the name that was probably meant.
func (s Strategy) validate() error {
	_, err := routing.New(s.Name, s.Options)
	if err == nil {
		return nil
	}
	if meant := suggest.Closest(s.Name, routing.Names()); meant != "" && meant != s.Name {
		return fmt.Errorf("strategy: %q is unknown; did you mean %s?", s.Name, meant)
	}
	return err
}

// set reads one option, name=value.
func (s *Strategy) set(option string) error {
	name, value, _ := strings.Cut(option, "=")
	settings := map[string]*int{
		"prefix_length":         &s.Options.PrefixLength,
		"concurrency_threshold": &s.Options.ConcurrencyThreshold,
	}
	target, ok := settings[strings.TrimSpace(name)]
	if !ok {
		return fmt.Errorf("strategy: %s: %w", s.Name, unknownOption(name, settings))
	}
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil {
		return fmt.Errorf("strategy: %s: %s is %q; give a whole number", s.Name, name, value)
	}
	*target = n
	return nil
}

// unknownOption names the option that was probably meant, or those that there are.
func unknownOption[T any](name string, known map[string]T) error {
	names := slices.Sorted(maps.Keys(known))
	if meant := suggest.Closest(name, names); meant != "" {
		return fmt.Errorf("option %q is unknown; did you mean %s?", name, meant)
	}
	return fmt.Errorf("option %q is unknown; use %s", name, strings.Join(names, ", "))
}
