package router

import (
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/endpoint"
)

// maxShadows is how many copies of requests may be under way at one shadow variant.
const maxShadows = 256

// rooms holds the room of each shadow variant. It outlives a reload, as the copies do that take it up.
type rooms map[shadowKey]*endpoint.Room

type shadowKey struct{ endpoint, variant string }

// keep takes over the rooms of an endpoint's shadows.
func (r rooms) keep(e *endpoint.Endpoint) {
	for _, s := range e.Shadows {
		r[shadowKey{e.Name, s.Variant().Name}] = s.Room
	}
}

// of gives a shadow its room.
func (r rooms) of(endpointName, variant string) *endpoint.Room {
	if kept := r[shadowKey{endpointName, variant}]; kept != nil {
		return kept
	}
	return endpoint.NewRoom(maxShadows)
}

// onlyShadows are the pools that some shadow uses and no variant that serves clients.
func onlyShadows(cfg *config.Config) map[string]bool {
	only := map[string]bool{}
	for _, e := range cfg.Endpoints {
		for _, s := range e.ShadowVariants {
			only[s.Pool] = true
		}
	}
	for _, e := range cfg.Endpoints {
		for _, v := range e.Serving() {
			delete(only, v.Pool)
		}
	}
	return only
}
