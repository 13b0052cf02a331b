package engine

// generic is any server that speaks the OpenAI API over HTTP. Nothing is taken for granted: a server that answers 404 on
// the health path is not healthy, because a proxy in front of a dead engine answers like that too. Where the path
// is another one the configuration names it.
type generic struct{}

func (generic) Name() string       { return "generic" }
func (generic) HealthPath() string { return "/health" }
