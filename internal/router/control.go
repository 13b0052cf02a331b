package router

import (
	"net/http"
	"time"

	"github.com/warmpath/warmpath/internal/auth"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/controlplane"
)

// ControlPlane is the handler of SageMaker's endpoint configuration API; nil = the configuration has none.
func (r *Router) ControlPlane() http.Handler {
	if r.control == nil {
		return nil
	}
	return r.control
}

// openControlPlane reads what was made by API, before anything is in use.
func (r *Router) openControlPlane(c *config.ControlPlane) error {
	if c == nil {
		return nil
	}
	opened, err := controlplane.Open(controlplane.Options{
		StateFile: c.StateFile, Region: c.Region, Account: c.Account,
		Pool: r.readyIn, Configured: r.configured, Apply: r.applyMade,
		Auth: func() *auth.Authenticator { return r.settings.Load().Auth }, Now: time.Now, Log: r.log,
	})
	if err != nil {
		return err
	}
	r.control, r.made = opened, opened.Endpoints()
	return nil
}

// runControlPlane moves endpoints along until Close.
func (r *Router) runControlPlane() {
	if r.control != nil {
		r.controlling.Go(func() { r.control.Run(r.ctx) })
	}
}

// applyMade puts the endpoints made by API into use beside those of the file. On an error nothing has changed.
func (r *Router) applyMade(made map[string]config.Endpoint) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	whole, err := r.file.With(made)
	if err == nil {
		err = r.put(whole)
	}
	if err == nil {
		r.made = made
	}
	return err
}

// readyIn says whether there is a pool of that name, and how many of its replicas are ready.
func (r *Router) readyIn(name string) (ready int, exists bool) {
	r.state.RLock()
	defer r.state.RUnlock()
	p, exists := r.pools[name]
	if !exists {
		return 0, false
	}
	if v := p.fleet.View(); !v.Degraded {
		ready = len(v.Eligible)
	}
	return ready, true
}

// configured finds an endpoint of the file without regard to case.
func (r *Router) configured(name string) bool {
	r.state.RLock()
	defer r.state.RUnlock()
	found, exists := r.config.EndpointNamed(name)
	return exists && !r.config.Endpoints[found].ByAPI
}
