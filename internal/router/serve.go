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

// Listeners are the open sockets of a Router.
type Listeners struct {
	Data, Admin net.Listener
}

// Listen opens the sockets that a configuration names. The error says which address it is about and what to do.
func Listen(cfg *config.Config) (*Listeners, error) {
	data, err := listen("data", "--listen", cfg.Data.Listen)
	if err != nil {
		return nil, err
	}
	admin, err := listen("admin", "--admin-listen", cfg.Admin.Listen)
	if err != nil {
		_ = data.Close()
		return nil, err
	}
	if n := cfg.Data.MaxConnections; n > 0 {
		data = netutil.LimitListener(data, n)
	}
	return &Listeners{Data: data, Admin: admin}, nil
}

func listen(name, flag, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen: %s is in use; stop what uses it or choose another address with %s or %s.listen", address, flag, name)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("listen: no permission for %s; choose a port above 1023 with %s or %s.listen", address, flag, name)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("listen: %s is not an address of this machine; set %s or %s.listen", address, flag, name)
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
	admin := &http.Server{Handler: r.Admin(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: data.ErrorLog}

	var servers errgroup.Group
	failed, fail := context.WithCancel(ctx)
	defer fail()
	for server, socket := range map[*http.Server]net.Listener{data: l.Data, admin: l.Admin} {
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
	_ = data.Close()
	_ = admin.Close()
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
