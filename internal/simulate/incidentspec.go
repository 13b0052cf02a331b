package simulate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseIncident reads what is said of an incident of that kind, such as "replica=2,at=60s,for=120s". Whether the fleet has such a
// replica is for Run to say.
func ParseIncident(kind IncidentKind, spec string) (Incident, error) {
	i := Incident{Kind: kind}
	settings := map[string]func(string) error{
		"at": duration(&i.At), "for": duration(&i.For), "replica": number(&i.Replica), "factor": factor(&i.Factor),
	}
	for part := range strings.SplitSeq(spec, ",") {
		name, value, _ := strings.Cut(part, "=")
		set, ok := settings[strings.TrimSpace(name)]
		if !ok {
			return Incident{}, fmt.Errorf("%s: %w", kind, unknownOption(name, settings))
		}
		if err := set(strings.TrimSpace(value)); err != nil {
			return Incident{}, fmt.Errorf("%s: %s is %q; give %w", kind, name, value, err)
		}
	}
	return i, nil
}

func duration(to *time.Duration) func(string) error {
	return func(value string) (err error) {
		if *to, err = time.ParseDuration(value); err != nil {
			err = errors.New("a time such as 90s or 5m")
		}
		return err
	}
}

func number(to *int) func(string) error {
	return func(value string) (err error) {
		if *to, err = strconv.Atoi(value); err != nil {
			err = errors.New("a whole number")
		}
		return err
	}
}

func factor(to *float64) func(string) error {
	return func(value string) (err error) {
		if *to, err = strconv.ParseFloat(value, 64); err != nil {
			err = errors.New("a number")
		}
		return err
	}
}
