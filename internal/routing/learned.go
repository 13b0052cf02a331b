package routing

import (
	"slices"
	"strings"

	"github.com/warmpath/warmpath/internal/prompt"
)

// Learned gives a copy of what is known now.
func (s *kvAware) Learned() Learned {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := Learned{
		Latency:        s.latency.coefficients(),
		StepPerRequest: s.decode.perRequest(), StepPerToken: s.decode.perContext(),
		OutputTokens: s.decode.output, BytesPerToken: s.ratio.bytesPerToken(),
		IndexBytes: s.index.Bytes(), IndexBlocks: s.index.Pairs(), Caches: make([]Cache, 0, len(s.known)),
	}
	for r, b := range s.known {
		if !r.Removed() {
			l.Caches = append(l.Caches, Cache{
				Replica: r.ID(), Capacity: s.ratio.tokensOf(b.holder.Capacity() * prompt.BlockBytes), Held: s.ratio.tokensOf(b.holder.Len() * prompt.BlockBytes),
			})
		}
	}
	slices.SortFunc(l.Caches, func(a, b Cache) int { return strings.Compare(a.Replica, b.Replica) })
	return l
}

func (l *latency) coefficients() Latency {
	return Latency{Base: l.base(), Prefill: l.prefill(), Queue: l.queue(), Request: l.request()}
}
