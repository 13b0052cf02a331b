package router

import (
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/endpoint"
)

// budgetOf is the retry budget of the only endpoint.
func budgetOf(r *Router) *endpoint.Budget { return r.settings.Load().Table.Endpoints()[0].Budget }

func TestReloadKeepsTheRetryBudgetUnlessItsShareChanges(t *testing.T) {
	parse := func(text string) *config.Config {
		cfg, err := config.Parse("warmpath.yaml", []byte(text), func(string) (string, bool) { return "", false }, nil)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	text := "pools: {p: {static: [http://127.0.0.1:1], health: {enabled: false}}}\nendpoints: {e: {retry: {budget: 0.5}, variants: [{pool: p}]}}\n"
	r, err := New(parse(text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	first := budgetOf(r)
	if err := r.Apply(parse(strings.Replace(text, "pool: p", "pool: p, weight: 2", 1))); err != nil {
		t.Fatal(err)
	}
	if budgetOf(r) != first {
		t.Error("the endpoint has a new budget, want the one that knows its recent requests")
	}
	if err := r.Apply(parse(strings.Replace(text, "0.5", "0.1", 1))); err != nil {
		t.Fatal(err)
	}
	if got := budgetOf(r).Share(); got != 0.1 {
		t.Errorf("got a budget of %g, want 0.1", got)
	}
}
