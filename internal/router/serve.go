package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"

	"github.com/warmpath/warmpath/internal/config"
)

// operatorTimeout is the time to send a request to the admin listener or the control plane.
const operatorTimeout = 10 * time.Second

// Listeners are the open sockets of a Router.
type Listeners struct {
	Data, Admin net.Listener
	// Control is the control plane's; nil = there is none.
	Control net.Listener
}

// Listen opens the sockets that a configuration names. The error says which address it is about and what to do.
func Listen(cfg *config.Config) (*Listeners, error) {
	l := &Listeners{}
	var err error
	if l.Data, err = listen("data", "--listen or data.listen", cfg.Data.Listen); err != nil {
		return nil, err
	}
	if l.Admin, err = listen("admin", "--admin-listen or admin.listen", cfg.Admin.Listen); err != nil {
		l.close()
		return nil, err
	}
	if c := cfg.ControlPlane; c != nil {
		if l.Control, err = listen("control_plane", "control_plane.listen", c.Listen); err != nil {
			l.close()
			return nil, err
		}
	}
	if n := cfg.Data.MaxConnections; n > 0 {
		l.Data = netutil.LimitListener(l.Data, n)
	}
	return l, nil
}

// close closes those that are open.
func (l *Listeners) close() {
	for _, each := range []net.Listener{l.Data, l.Admin, l.Control} {
		if each != nil {
			_ = each.Close()
		}
	}
}

func listen(name, setting, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen: %s is in use; stop what uses it or choose another address with %s", address, setting)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("listen: no permission for %s; choose a port above 1023 with %s", address, setting)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("listen: %s is not an address of this machine; set %s", address, setting)
	}
	return nil, fmt.Errorf("listen: %s.listen %s: %w", name, address, err)
}

// Serve answers on l until ctx ends. Then it drains: at once it reports itself not ready and asks clients to leave their
// connections, for drain.delay it still takes requests, and for drain.limit after that it lets open ones finish. It closes l.
func (r *Router) Serve(ctx context.Context, l *Listeners) error {
	r.state.RLock()
	d := r.config.Data
	r.state.RUnlock()
	data := &http.Server{
		Handler:           r.dismissing(r.Data()),
		ReadHeaderTimeout: time.Duration(d.HeaderTimeout),
		IdleTimeout:       time.Duration(d.IdleTimeout),
		MaxHeaderBytes:    int(d.MaxHeader),
		Protocols:         new(http.Protocols),
		ErrorLog:          slog.NewLogLogger(r.log.Handler(), slog.LevelWarn),
	}
	data.Protocols.SetHTTP1(true)
	data.Protocols.SetUnencryptedHTTP2(true)
	admin := &http.Server{Handler: r.Admin(), ReadHeaderTimeout: operatorTimeout, ErrorLog: data.ErrorLog}
	all := map[*http.Server]net.Listener{data: l.Data, admin: l.Admin}
	if handler := r.ControlPlane(); handler != nil && l.Control != nil {
		all[&http.Server{Handler: handler, ReadHeaderTimeout: operatorTimeout, ReadTimeout: operatorTimeout, ErrorLog: data.ErrorLog}] = l.Control
	}

	var servers errgroup.Group
	failed, fail := context.WithCancel(ctx)
	defer fail()
	for server, socket := range all {
		servers.Go(func() error {
			defer fail()
			if err := server.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve: %w", err)
			}
			return nil
		})
	}
	<-failed.Done()
	if ctx.Err() != nil {
		r.drain(data, d.Drain)
	}
	for server := range all {
		_ = server.Close()
	}
	return servers.Wait()
}

// dismissing asks clients to leave their connections once the router is stopping. http.Server.SetKeepAlivesEnabled would close
// the idle ones at once, under a request that may be on its way.
func (r *Router) dismissing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if r.stopping.Load() && req.Header.Get("Upgrade") == "" {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, req)
	})
}

// drain takes the data listener out of service without cutting a request that ends in time.
func (r *Router) drain(data *http.Server, limits config.Drain) {
	r.stopping.Store(true)
	r.log.Info("draining: not ready, still serving", "delay", limits.Delay.String())
	time.Sleep(time.Duration(limits.Delay))
	r.log.Info("draining: closed to new connections", "limit", limits.Limit.String())
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(limits.Limit))
	defer cancel()
	if err := data.Shutdown(ctx); err != nil {
		r.log.Warn("draining: the limit is over; cutting the requests that are still open")
	}
}
