package main

import (
	"context"
	"errors"
	"io"
	stdlog "log"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/router"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// serveFlags are the flags of `warmpath serve`.
type serveFlags struct {
	file      string
	logFormat string
	logLevel  string
	config.Flags
}

func newServeCommand() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the data plane and the admin API",
		Long: `Serve stands in front of the replicas that the configuration file or the --replica flags name.
SIGHUP, a change of the file, or POST /api/v1/reload on the admin listener reload the file without dropping a connection.
SIGTERM drains: not ready at once, open requests finish.`,
		Example: `  warmpath serve -c warmpath.yaml
  warmpath serve --replica http://10.0.0.1:8000 --replica http://10.0.0.2:8000 --engine vllm
  warmpath serve --replica http://10.0.0.1:8000 --strategy PREFIX_AWARE --prefix-length 4096 --concurrency-threshold 16`,
		RunE: func(c *cobra.Command, _ []string) error { return serve(c.Context(), c.ErrOrStderr(), f) },
	}
	flags := c.Flags()
	flags.StringVarP(&f.file, "config", "c", "", "configuration `file`")
	flags.StringVar(&f.Listen, "listen", "", "`address` that clients call (default 127.0.0.1:8080)")
	flags.StringVar(&f.AdminListen, "admin-listen", "", "`address` for metrics, health and explain (default 127.0.0.1:8081)")
	flags.StringArrayVar(&f.Replicas, "replica", nil, "base `URL` of an engine server; repeat for each")
	flags.StringVar(&f.Engine, "engine", "", "what the replicas run: vllm, sglang, tensorrtllm, llamacpp or generic (default)")
	flags.StringVar(&f.Strategy, "strategy", "", "KV_AWARE (default), PREFIX_AWARE, LEAST_OUTSTANDING_REQUESTS or RANDOM")
	flags.IntVar(&f.PrefixLength, "prefix-length", 0, "characters or bytes that PREFIX_AWARE hashes, 1024-65536")
	flags.IntVar(&f.ConcurrencyThreshold, "concurrency-threshold", 0, "in-flight requests at which PREFIX_AWARE passes a replica over, 1-1024")
	flags.StringVar(&f.logFormat, "log-format", "text", "text or json")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	return c
}

// load reads the configuration that the flags mean.
func (f *serveFlags) load() (*config.Config, error) {
	if f.file == "" && len(f.Replicas) == 0 {
		return nil, errors.New("serve: nothing to serve; give a configuration with -c FILE, or engines with --replica URL")
	}
	if f.file == "" {
		return config.FromFlags(f.Flags)
	}
	cfg, err := config.Load(f.file, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	return cfg, cfg.Override(f.Flags)
}

func serve(ctx context.Context, stderr io.Writer, f serveFlags) error {
	log, err := telemetry.NewLogger(stderr, f.logFormat, f.logLevel)
	if err != nil {
		return usageError{err}
	}
	access, err := telemetry.NewAccessLog(stderr, f.logFormat, f.logLevel)
	if err != nil {
		return usageError{err}
	}
	defer access.Flush()
	stdlog.SetOutput(io.Discard) // net/http prints there what engines send unasked, which may be a part of an answer
	options := router.Options{Version: buildVersion(), Log: log, Access: access.Write}
	reloads := make(chan struct{}, 1)
	if f.file != "" {
		options.Load = f.load
		watchFor(ctx, f.file, reloads) // before it is first read, so that no change falls between
	}
	cfg, err := f.load()
	if err != nil {
		return usageError{err}
	}
	listeners, err := router.Listen(cfg)
	if err != nil {
		return err
	}
	r, err := router.New(cfg, options)
	if err != nil {
		return usageError{err}
	}
	defer r.Close()
	go reloadOn(ctx, reloads, r)
	log.Info("serving", "data", listeners.Data.Addr().String(), "admin", listeners.Admin.Addr().String(), "version", buildVersion())
	if listeners.Control != nil {
		log.Info("serving SageMaker's endpoint configuration API", "control_plane", listeners.Control.Addr().String())
	}
	return r.Serve(ctx, listeners)
}

// watchFor asks for a reload when the file changes and on SIGHUP, until ctx ends.
func watchFor(ctx context.Context, file string, reloads chan<- struct{}) {
	ask := func() {
		select {
		case reloads <- struct{}{}:
		default: // one is asked for already, and will see the newest file
		}
	}
	config.Watch(ctx, file, ask)
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hangups)
		for {
			select {
			case <-hangups:
				ask()
			case <-ctx.Done():
				return
			}
		}
	}()
}

func reloadOn(ctx context.Context, reloads <-chan struct{}, r *router.Router) {
	for {
		select {
		case <-reloads:
			_ = r.Reload(ctx) // it logs its errors
		case <-ctx.Done():
			return
		}
	}
}
