//go:build race

package prompt

// raceEnabled: under the race detector sync.Pool drops items at random, so
// allocations say nothing.
const raceEnabled = true
