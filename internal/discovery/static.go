package discovery

import (
	"context"
	"slices"

	"github.com/warmpath/warmpath/internal/fleet"
)

// Static is a fixed list of replicas.
type Static struct{ urls []string }

// NewStatic returns a source of the replicas at the base URLs.
func NewStatic(urls []string) *Static { return &Static{slices.Clone(urls)} }

// Run sends the list once.
func (s *Static) Run(ctx context.Context, up chan<- []fleet.Target) error {
	send(ctx, up, targetsOf(s.urls))
	<-ctx.Done()
	return nil
}
