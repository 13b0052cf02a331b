package engine

import "github.com/warmpath/warmpath/internal/fleet"

// generic is any server that speaks the OpenAI API over HTTP. Nothing is taken for granted: a server that answers 404 on
// the health path is not healthy, because a proxy in front of a dead engine answers like that too. Where the path
// is another one the configuration names it.
type generic struct{}

var _ Metered = generic{}

func (generic) Name() string       { return "generic" }
func (generic) HealthPath() string { return "/health" }

// MetricsPath is empty: a server of an unknown kind is not asked for what it may not have.
func (generic) MetricsPath() string { return "" }

// ReadSignals knows vLLM's names, which other servers have taken over.
func (generic) ReadSignals(text []byte) (fleet.Signals, error) { return vllmPage.read(text) }
