package router_test

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/routing"
)

// config does not import routing: what it says of strategies is held to theirs here.
func TestTheConfigurationKnowsTheStrategies(t *testing.T) {
	t.Parallel()
	tag := func(field, key string) string {
		t.Helper()
		f, ok := reflect.TypeFor[config.Routing]().FieldByName(field)
		if !ok {
			t.Fatalf("config.Routing has no field %s", field)
		}
		return f.Tag.Get(key)
	}
	names := strings.Split(tag("Strategy", "enum"), "|")
	slices.Sort(names)
	if diff := cmp.Diff(routing.Names(), names); diff != "" {
		t.Errorf("strategies (-routing +config):\n%s", diff)
	}
	if !slices.Contains(routing.Names(), tag("Strategy", "default")) {
		t.Errorf("the default %q is not a strategy", tag("Strategy", "default"))
	}
	for _, tt := range []struct {
		field     string
		low, high int
	}{
		{"PrefixLength", routing.MinPrefixLength, routing.MaxPrefixLength},
		{"ConcurrencyThreshold", routing.MinConcurrencyThreshold, routing.MaxConcurrencyThreshold},
	} {
		if got := [2]string{tag(tt.field, "min"), tag(tt.field, "max")}; got != [2]string{strconv.Itoa(tt.low), strconv.Itoa(tt.high)} {
			t.Errorf("%s: config takes %v, routing %d to %d", tt.field, got, tt.low, tt.high)
		}
	}
}
