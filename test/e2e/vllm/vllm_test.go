//go:build e2evllm

// Package vllm runs the real Warmpath in front of real vLLM servers: what it relays, learns and survives.
package vllm

import "testing"

// TestVLLM goes through the life of two engines. They take minutes to start, so all parts share them, and only one is started again:
// what ends engines comes last.
func TestVLLM(t *testing.T) {
	r := startRig(t)
	for _, part := range []struct {
		name string
		run  func(*rig, *testing.T)
	}{
		{"every path gives what the engine gives", (*rig).paths},
		{"models are listed", (*rig).models},
		{"sizes are learned from metrics", (*rig).sizes},
		{"cached tokens are learned from usage", (*rig).cachedTokens},
		{"asleep and paused engines are taken out", (*rig).sleepers},
		{"a stream outlasts a pause", (*rig).pausedStream},
		{"a full queue sends requests elsewhere", (*rig).fullQueue},
		{"a killed engine core is a failure inside a 200", (*rig).killedCore},
		{"a restart empties the belief", (*rig).restarted},
		{"SIGTERM under load hangs nobody", (*rig).terminated},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.run(r, t) }) {
			t.Fatal("the parts that follow begin where this one was to end")
		}
	}
}
