//go:build e2ereal

// Package realengine runs the real Warmpath in front of real llama.cpp servers and measures what their caches gain.
package realengine

import (
	"slices"
	"testing"
	"time"
)

const (
	replicas = 4
	// threshold is never reached by the documents: at two requests a second a replica works on few at once.
	threshold = 8
	// agentClients keep both slots of one replica busy, and let a second replica matter.
	agentClients = 4
)

var (
	random      = routing{strategy: "RANDOM"}
	outstanding = routing{strategy: "LEAST_OUTSTANDING_REQUESTS"}
	kvAware     = routing{strategy: "KV_AWARE"}
)

// TestRealEngines compares strategies, each on engines whose caches start cold.
//
// Documents: 12 of 3,000 tokens, each request with 60 tokens of its own. All fit into the fleet's caches, a third of
// them into one. A token is a byte, so that a prefix window of 2,048 characters lies within the document.
//
// Preamble: the same documents behind 1,200 tokens that all prompts share, of which every prompt in a cache has a copy. The
// fleet's caches hold them all, if each document is on one replica and no replica is left out.
//
// Agents: real prompts of an agent benchmark in their order. Many begin alike, so they have one key and one replica
// until the window reaches past what they share; a window past the end of a growing conversation has a new key each turn.
func TestRealEngines(t *testing.T) {
	root := repository(t)
	plain := documents{name: "documents", count: 12, length: 3000, own: 60, warmUp: 2, counted: 4, perSec: 2, fromSeed: 1}
	behind := plain
	behind.name, behind.preamble = "preamble", 1200
	shared, common := plain.workload(), behind.workload()
	recorded := agents(t, recordingPath(root), 80, 7000, agentClients)
	lab := laboratory{python: installEngine(t), model: writeModel(t), binary: warmpathBinary(t, root)}

	var all []figures
	run := func(w workload, r routing) figures {
		f := lab.run(t, w, r)
		all = append(all, f)
		return f
	}
	chance := run(shared, random)
	prefix := run(shared, routing{strategy: "PREFIX_AWARE", prefixLength: 2048, threshold: threshold})
	aware := run(shared, kvAware)
	byLoad := run(common, outstanding)
	awareBehind := run(common, kvAware)
	for _, r := range []routing{random, {strategy: "PREFIX_AWARE", prefixLength: 4096, threshold: threshold}, kvAware} {
		run(recorded, r)
	}

	t.Logf("%d llama.cpp servers, %d slots and %d MiB of cache each\n%s", replicas, slots, cacheMiB, table(all))
	for _, length := range []int{64, 1024, 4096} {
		t.Logf("agents: %.0f %% of the prompts share their first %d characters", 100*recorded.commonest(length), length)
	}
	if chance.hitRate > 0.45 {
		t.Errorf("%s: %.1f %% cached, want at most 45 %%: the caches are too large to tell strategies apart", chance.run, 100*chance.hitRate)
	}
	judge(t, prefix, 0.80, chance, 5)
	judge(t, aware, 0.85, chance, 8)
	judge(t, awareBehind, 0.80, byLoad, 6)
	if slices.Contains(awareBehind.replicas, 0) {
		t.Errorf("%s: requests per replica %v, want every replica used", awareBehind.run, awareBehind.replicas)
	}
	for _, f := range all {
		if f.failed > 0 {
			t.Errorf("%s: %d failed requests, want 0; the first: %v", f.run, f.failed, f.errors[0])
		}
	}
}

// judge holds a run to the share of its tokens that caches must hold, 0 to 1, and to how many times faster than another it must be.
func judge(t *testing.T, f figures, hitRate float64, other figures, times time.Duration) {
	t.Helper()
	if f.hitRate < hitRate {
		t.Errorf("%s: %.1f %% cached, want at least %.0f %%", f.run, 100*f.hitRate, 100*hitRate)
	}
	if f.p50*times > other.p50 {
		t.Errorf("%s: TTFT P50 %v, want at most 1/%d of %v (%s)", f.run, f.p50, times, other.p50, other.run)
	}
}

// run plays a workload through a new Warmpath in front of new engines.
func (l laboratory) run(t *testing.T, w workload, r routing) figures {
	name := w.name + " " + r.String()
	var answers []answer
	t.Run(name, func(t *testing.T) {
		addresses, stopEngines := l.startEngines(t, replicas)
		defer stopEngines()
		address, stopWarmpath := l.startWarmpath(t, r, addresses)
		defer stopWarmpath()
		answers = newClient(address, addresses).play(t.Context(), w)
	})
	return measure(name, answers, replicas)
}
