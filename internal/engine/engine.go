// Package engine knows the inference servers that Warmpath stands in front of, one file each.
package engine

import "slices"

// Engine is what Warmpath must know of a kind of inference server to use it at all. What only some of them offer is a small
// interface of its own, which the kinds that offer it also satisfy. Engines are values without state and safe for
// concurrent use.
type Engine interface {
	// Name is the word for it in the configuration.
	Name() string
	// HealthPath is the path, below the base URL of a replica, that answers GET with a 2xx when and only when the replica
	// can take requests. It begins with a slash.
	HealthPath() string
}

// PromptKeeper is an engine that may keep its cache by whole prompts.
type PromptKeeper interface {
	// WholePrompts says that the cache holds each prompt for itself, with a beginning that prompts have in common once for every
	// prompt. Other engines keep blocks, which prompts share.
	WholePrompts() bool
}

// ApartCounter is an engine that may count cached tokens apart from a prompt's others.
type ApartCounter interface {
	// CachedApart says that in the Messages API input_tokens leaves out the cached tokens, so that a prompt's length is
	// input_tokens and cache_read_input_tokens together.
	CachedApart() bool
}

// NullWriter is an engine that may write "usage": null into the chunks of streams that were not asked for usage.
type NullWriter interface {
	// NullUsage says that it does so.
	NullUsage() bool
}

// Pausable is an engine that can be told to leave requests waiting, and does not say so on its metrics page.
type Pausable interface {
	// PausedPath is the path below the base URL of a replica that tells. It begins with a slash. An engine that has no such path
	// cannot be paused.
	PausedPath() string
	// ReadPaused finds in its answer to a GET whether it is paused. It is false for an answer that cannot be read.
	ReadPaused(answer []byte) bool
}

// Mortal is an engine that answers requests which it gives up when it ends: its HTTP server outlives what computes.
type Mortal interface {
	// GivesUp says whether an answer that begins like that, with an event of a stream or as a whole, is such a one.
	GivesUp(beginning []byte) bool
}

// WholePrompts says whether the engine of that name keeps whole prompts. It is false for an unknown name.
func WholePrompts(name string) bool {
	k, ok := lookup[PromptKeeper](name)
	return ok && k.WholePrompts()
}

// CachedApart says whether the engine of that name counts cached tokens apart. It is false for an unknown name.
func CachedApart(name string) bool {
	c, ok := lookup[ApartCounter](name)
	return ok && c.CachedApart()
}

// NullUsage says whether the engine of that name writes "usage": null unasked. It is false for an unknown name.
func NullUsage(name string) bool {
	w, ok := lookup[NullWriter](name)
	return ok && w.NullUsage()
}

// GivesUp is how the engine of that name gives requests up. It is nil for one that does not, and for an unknown name.
func GivesUp(name string) func(beginning []byte) bool {
	if m, ok := lookup[Mortal](name); ok {
		return m.GivesUp
	}
	return nil
}

// lookup finds what the engine of that name offers beyond an Engine.
func lookup[T any](name string) (T, bool) {
	e, _ := Lookup(name)
	t, ok := e.(T)
	return t, ok
}

// engines is the registry, in the order in which documentation and error messages name them.
var engines = []Engine{vllm{}, sglang{}, tensorRTLLM{}, llamaCPP{}, generic{}}

// Lookup finds an engine by its name in the configuration.
func Lookup(name string) (Engine, bool) {
	i := slices.IndexFunc(engines, func(e Engine) bool { return e.Name() == name })
	if i < 0 {
		return nil, false
	}
	return engines[i], true
}

// Names lists the names that Lookup knows.
func Names() []string {
	names := make([]string, len(engines))
	for i, e := range engines {
		names[i] = e.Name()
	}
	return names
}
