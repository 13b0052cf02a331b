// Package discovery finds the replicas of a pool: a fixed list, a watched file, or a DNS name.
package discovery

import (
	"context"

	"github.com/warmpath/warmpath/internal/fleet"
)

// Source says which replicas a pool has.
//
// Run sends the whole set, first as soon as it is known and then each time it may have changed; the receiver owns what it
// gets. A source that cannot find out keeps silent, so that the last set stays in force, and reports the error to the
// OnError of its options. Run blocks until ctx ends and then returns nil, also when nobody receives; any other error means
// that the source can never work. One Run at a time.
type Source interface {
	Run(ctx context.Context, up chan<- []fleet.Target) error
}

var (
	_ Source = (*Static)(nil)
	_ Source = (*File)(nil)
	_ Source = (*DNS)(nil)
)

// send hands targets to up, unless ctx ends first.
func send(ctx context.Context, up chan<- []fleet.Target, targets []fleet.Target) {
	select {
	case up <- targets:
	case <-ctx.Done():
	}
}

// targetsOf turns addresses into targets.
func targetsOf(urls []string) []fleet.Target {
	targets := make([]fleet.Target, len(urls))
	for i, url := range urls {
		targets[i].URL = url
	}
	return targets
}
