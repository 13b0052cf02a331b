//go:build e2ereal

// Package realengine runs the real Warmpath in front of real llama.cpp servers and measures what their caches gain.
package realengine

import (
	"testing"
)

const (
	replicas = 4
	// threshold is never reached by the documents: at two requests a second a replica works on few at once.
	threshold = 8
	// agentClients keep both slots of one replica busy, and let a second replica matter.
	agentClients = 4
)

// TestRealEngines compares RANDOM and PREFIX_AWARE, each on engines whose caches start cold.
//
// Documents: 12 of 3,000 tokens, each request with 60 tokens of its own. All fit into the fleet's caches, a third of
// them into one. A token is a byte, so that a prefix window of 2,048 characters lies within the document.
//
// Agents: real prompts of an agent benchmark in their order. Many begin alike, so they have one key and one replica
// until the window reaches past what they share; a window past the end of a growing conversation has a new key each turn.
func TestRealEngines(t *testing.T) {
	root := repository(t)
	shared := documents{count: 12, length: 3000, own: 60, warmUp: 2, counted: 4, perSec: 2, fromSeed: 1}.workload()
	recorded := agents(t, recordingPath(root), 150, 7000, agentClients)
	lab := laboratory{python: installEngine(t), model: writeModel(t), binary: warmpathBinary(t, root)}

	// RANDOM plays twice: in one run chance alone may cache a tenth more or less.
	random := lab.run(t, shared, routing{strategy: "RANDOM"}, 2)
	prefix := lab.run(t, shared, routing{strategy: "PREFIX_AWARE", prefixLength: 2048, threshold: threshold}, 1)
	all := []figures{random, prefix}
	for _, r := range []routing{
		{strategy: "RANDOM"},
		{strategy: "PREFIX_AWARE", prefixLength: 1024, threshold: threshold},
		{strategy: "PREFIX_AWARE", prefixLength: 4096, threshold: threshold},
	} {
		all = append(all, lab.run(t, recorded, r, 1))
	}

	t.Logf("%d llama.cpp servers, %d slots and %d MiB of cache each\n%s", replicas, slots, cacheMiB, table(all))
	for _, length := range []int{64, 1024, 4096} {
		t.Logf("agents: %.0f %% of the prompts share their first %d characters", 100*recorded.commonest(length), length)
	}
	judge(t, random, prefix)
	for _, f := range all {
		if f.failed > 0 {
			t.Errorf("%s: %d failed requests, want 0; the first: %v", f.run, f.failed, f.errors[0])
		}
	}
}

// judge holds the gain on shared documents to what it must be.
func judge(t *testing.T, random, prefix figures) {
	t.Helper()
	if random.hitRate > 0.45 {
		t.Errorf("%s: %.1f %% cached, want at most 45 %%: the caches are too large to tell strategies apart", random.run, 100*random.hitRate)
	}
	if prefix.hitRate < 0.80 {
		t.Errorf("%s: %.1f %% cached, want at least 80 %%", prefix.run, 100*prefix.hitRate)
	}
	if prefix.p50*5 > random.p50 {
		t.Errorf("%s: TTFT P50 %v, want at most a fifth of %v (%s)", prefix.run, prefix.p50, random.p50, random.run)
	}
}

// run plays a workload so many times, each time through a new Warmpath in front of new engines.
func (l laboratory) run(t *testing.T, w workload, r routing, times int) figures {
	name := w.name + " " + r.String()
	var all []answer
	for range times {
		t.Run(name, func(t *testing.T) {
			addresses, stopEngines := l.startEngines(t, replicas)
			defer stopEngines()
			address, stopWarmpath := l.startWarmpath(t, r, addresses)
			defer stopWarmpath()
			all = append(all, newClient(address, addresses).play(t.Context(), w)...)
		})
	}
	return measure(name, all, replicas)
}
