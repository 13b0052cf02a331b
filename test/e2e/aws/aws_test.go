// Package aws runs AWS's and OpenAI's own SDKs against the real binary, with nothing changed but their endpoint URL.
package aws

import (
	"testing"
)

// TestSDKs starts everything once and runs the languages side by side. Each has pools and endpoints of its own, so that none sees the
// faults that another provokes.
func TestSDKs(t *testing.T) {
	r := startRig(t)
	t.Run("go", func(t *testing.T) { t.Parallel(); testGo(t, r) })
	t.Run("python", func(t *testing.T) { t.Parallel(); r.testPython(t) })
	t.Run("node", func(t *testing.T) { t.Parallel(); r.testNode(t) })
	t.Run("prefix-aware", func(t *testing.T) { t.Parallel(); testPrefixAware(t, r) })
	t.Run("copies", func(t *testing.T) { t.Parallel(); testCopies(t, r) })
	t.Run("restart", func(t *testing.T) { t.Parallel(); testRestart(t, r) })
}
