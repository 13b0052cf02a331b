package simulate

import (
	"testing"

	"github.com/warmpath/warmpath/internal/workload"
)

// BenchmarkText plays prompts of text, whose making and reading costs most.
func BenchmarkText(b *testing.B) {
	for b.Loop() {
		w, err := workload.Parse("rag:requests=2000,documents=200,rate=16", 1)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Run(b.Context(), w, Options{Replicas: 8, CacheTokens: 1 << 18, Strategy: aware}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFleet plays a large fleet that is known by block ids, whose routing costs most.
func BenchmarkFleet(b *testing.B) {
	w := documents(4000, 5, 1e6/2)
	for b.Loop() {
		if _, err := Run(b.Context(), w, Options{Replicas: 1000, CacheTokens: 1 << 18, Strategy: aware}); err != nil {
			b.Fatal(err)
		}
	}
}
