package simulate

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/workload"
)

// endless is a workload that never ends, and says whether somebody is reading it.
type endless struct{ reading *bool }

func (w endless) Requests() iter.Seq[workload.Request] {
	return func(yield func(workload.Request) bool) {
		*w.reading = true
		defer func() { *w.reading = false }()
		for at := time.Duration(0); yield(row(at, 2, 1)); at += time.Second {
		}
	}
}
func (endless) Err() error   { return nil }
func (endless) Name() string { return "endless" }

func TestInterruptionEndsTheReading(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithCancel(t.Context())
	w := endless{new(bool)}
	o := Options{Replicas: 1, CacheTokens: 4096, Strategy: random, Ended: cancel}
	if _, err := Run(ctx, w, o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
	if *w.reading {
		t.Error("the workload is still being read")
	}
}
