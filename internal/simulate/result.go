package simulate

import (
	"time"

	"github.com/warmpath/warmpath/internal/bench"
)

// outcome is an exchange as a client would have measured it.
func (x *exchange) outcome(failure string, now time.Duration) *bench.Outcome {
	o := &bench.Outcome{
		At: x.intended, E2E: now - x.intended, TTFT: x.first - x.intended, NoContent: !x.begun, Gaps: x.gaps,
		Failure: failure, Refused: failure == failedNoReplica,
		Decision: string(x.decision),
	}
	if x.replica != nil {
		o.Replica = x.replica.name
	}
	if failure != answered {
		o.TTFT = 0
		return o
	}
	o.CacheReported = true
	for _, q := range x.sequences {
		o.PromptTokens += q.PromptTokens
		o.CachedTokens += q.Cached()
		o.OutputTokens += q.Generated()
	}
	return o
}

// result is the run so far, with every replica in order of its number, those that got nothing included.
func (s *simulation) result() *bench.Run {
	run := s.tally.Run()
	run.Strategy, run.Target = s.o.Strategy.Name, "simulation"
	run.Knobs = bench.Knobs{
		PrefixLength:         s.o.Strategy.Options.PrefixLength,
		ConcurrencyThreshold: s.o.Strategy.Options.ConcurrencyThreshold,
	}
	seen := make(map[string]bench.Replica, len(run.PerReplica))
	for _, r := range run.PerReplica {
		seen[r.Name] = r
	}
	run.PerReplica = make([]bench.Replica, len(s.replicas))
	for i, r := range s.replicas {
		run.PerReplica[i] = seen[r.name]
		run.PerReplica[i].Name = r.name
	}
	return run
}
