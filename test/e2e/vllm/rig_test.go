//go:build e2evllm

package vllm

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/test/e2e/lab"
)

const (
	pool = "engines"
	// aware and balanced are endpoints over one pool, called by name below their paths.
	aware, balanced = "/endpoints/aware/openai", "/endpoints/balanced/openai"

	settleLimit = 30 * time.Second // for what must come; a busy machine may take its time
	pollEvery   = 20 * time.Millisecond
)

// rig is two engines, and Warmpath in front of them. The URLs are without paths.
type rig struct {
	first, second *engine
	url, admin    string
	whole         *testing.T // whose end is the engines'
}

func startRig(t *testing.T) *rig {
	t.Helper()
	l := lab.NewRouter(t)
	python := install(t)
	folder := writeModel(t, python)
	first := newEngine(python, folder, freePort(t, firstPort))
	second := newEngine(python, folder, freePort(t, first.port+1))
	for _, e := range []*engine{first, second} {
		e.start(t)
	}
	for _, e := range []*engine{first, second} {
		e.loaded(t)
	}
	data, admin := lab.Reserve(t), lab.Reserve(t)
	t.Cleanup(l.StartWarmpath(t, fmt.Sprintf(`data: {listen: '%s', drain: {delay: 0s, limit: 10s}}
admin: {listen: '%s'}
pools:
  %s: {engine: vllm, static: ['%s', '%s'], metrics: {interval: 1s}, slow_start: 0s}
endpoints:
  aware: {models: [%s], usage: inject, variants: [{pool: %[3]s}]}
  balanced: {models: [], usage: inject, variants: [{pool: %[3]s, routing: {strategy: LEAST_OUTSTANDING_REQUESTS}}]}
`, data, admin, pool, first.url(), second.url(), lab.ModelName), admin))
	r := &rig{first: first, second: second, url: "http://" + data, admin: "http://" + admin, whole: t}
	for _, e := range r.engines() {
		r.becomes(t, e, fleet.Ready)
	}
	return r
}

func (r *rig) engines() []*engine { return []*engine{r.first, r.second} }

// status is what Warmpath says of an engine.
func (r *rig) status(t *testing.T, e *engine) fleet.Status {
	t.Helper()
	var all struct{ Pools map[string][]fleet.Status }
	a := get(t, r.admin+"/api/v1/replicas")
	if err := json.Unmarshal([]byte(a.body), &all); err != nil {
		t.Fatalf("replicas: %v: %s", err, a.body)
	}
	i := slices.IndexFunc(all.Pools[pool], func(s fleet.Status) bool { return s.Replica == e.address() })
	if i < 0 {
		t.Fatalf("replicas: %s is not among them: %s", e.address(), a.body)
	}
	return all.Pools[pool][i]
}

// becomes waits for an engine to be in a state.
func (r *rig) becomes(t *testing.T, e *engine, state fleet.State) {
	t.Helper()
	until(t, settleLimit, fmt.Sprintf("%s is %s", e.address(), state), func() bool { return r.status(t, e).State == state })
}

// drain takes an engine out of rotation, or puts it back.
func (r *rig) drain(t *testing.T, e *engine, draining bool) {
	t.Helper()
	path := fmt.Sprintf("%s/api/v1/pools/%s/replicas/%s/draining", r.admin, pool, e.address())
	if a := send(t, "PUT", path, fmt.Sprint(draining)); a.status != 200 {
		t.Fatalf("drain: %d %s", a.status, a.body)
	}
}

// believed is how many of a prompt's tokens are believed to be in an engine's cache.
func (r *rig) believed(t *testing.T, e *engine, body string) float64 {
	t.Helper()
	var explained struct {
		Order []struct {
			Replica string
			Cost    struct {
				HitTokens float64 `json:"hit_tokens"`
			}
		}
	}
	a := post(t, r.admin+"/api/v1/explain?path="+aware+"/v1/completions", body)
	if err := json.Unmarshal([]byte(a.body), &explained); err != nil {
		t.Fatalf("explain: %v: %s", err, a.body)
	}
	for _, place := range explained.Order {
		if place.Replica == e.address() {
			return place.Cost.HitTokens
		}
	}
	t.Fatalf("explain: %s has no place: %s", e.address(), a.body)
	return 0
}

// sum adds up the series of Warmpath's metrics whose line begins with prefix and contains all parts.
func (r *rig) sum(t *testing.T, prefix string, parts ...string) float64 {
	t.Helper()
	return lab.Sum(t, []string{r.admin}, prefix, parts...)
}

// figure is the same of an engine's own metrics.
func (e *engine) figure(t *testing.T, prefix string) float64 {
	t.Helper()
	return lab.Sum(t, []string{e.url()}, prefix)
}

// until waits for what must come.
func until(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for over := time.Now().Add(limit); !condition(); <-tick.C {
		if time.Now().After(over) {
			t.Fatalf("not after %v: %s", limit, what)
		}
	}
}
