// Command warmpath is the load balancer for self-hosted LLM fleets, and the tools around it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/warmpath/warmpath/internal/suggest"
)

// version is set by the linker for releases.
var version = ""

// The exit codes of every command.
const (
	exitFailed = 1 // it failed while running
	exitUsage  = 2 // wrong usage or configuration
)

// usageError marks an error as the user's to mend, not the run's.
type usageError struct{ error }

// Unwrap gives the error itself.
func (e usageError) Unwrap() error { return e.error }

func main() { os.Exit(run(os.Args[1:])) }

// run executes a command line and gives the exit code. The first interrupt ends commands in order, the second at once.
func run(args []string) int {
	ctx, stop := interruptible(os.Exit)
	defer stop()
	root := newRootCommand()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, strings.TrimRight(err.Error(), "\n"))
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// interruptible gives a context that the first interrupt ends. The second ends the process, with the exit code that shells give one
// that a signal ended. Both are read from one channel, so that none is lost however soon it follows the other.
func interruptible(exit func(code int)) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	signals, done := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for first := true; ; first = false {
			select {
			case s := <-signals:
				if n, ok := s.(syscall.Signal); ok && !first {
					exit(128 + int(n))
				}
				cancel()
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel()
	}
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "warmpath",
		Short: "Load balancer for self-hosted LLM fleets",
		Long: `Warmpath stands in front of many replicas of an inference engine (vLLM, SGLang, TensorRT-LLM, llama.cpp) and sends
each request to the replica that will answer it soonest, knowing whose KV cache holds the prompt's prefix.`,
		Example: `  warmpath demo
  warmpath serve --replica http://10.0.0.1:8000 --replica http://10.0.0.2:8000
  warmpath serve -c warmpath.yaml`,
		SilenceUsage:               true,
		SilenceErrors:              true,
		SuggestionsMinimumDistance: 2,
		Args:                       cobra.ArbitraryArgs,
		RunE:                       unknownCommand,
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return usageError{explainFlag(c, err)} })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newServeCommand(), newCheckCommand(), newExplainCommand(), newEmulateCommand(), newDemoCommand(), newTuneCommand(), newBenchCommand(), newSimulateCommand(), newVersionCommand())
	for _, c := range root.Commands() {
		c.Args = noArguments
	}
	return root
}

// unknownCommand answers a first word that is no command, and shows the help when there is none.
func unknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	err := fmt.Errorf("warmpath: %q is not a command; `warmpath --help` lists them", args[0])
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		err = fmt.Errorf("warmpath: %q is not a command; did you mean %s?", args[0], strings.Join(near, " or "))
	}
	return usageError{err}
}

func noArguments(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s: %q is not expected; it takes flags only, see `warmpath %s --help`", c.Name(), args[0], c.Name())}
	}
	return nil
}

// explainFlag adds the flag that was probably meant to an error about one that does not exist.
func explainFlag(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return fmt.Errorf("%s: %w", c.Name(), err)
	}
	var flags []string
	c.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
	wrong := unknown.GetSpecifiedName()
	if meant := suggest.Closest(wrong, flags); meant != "" {
		return fmt.Errorf("%s: unknown flag --%s; did you mean --%s?", c.Name(), wrong, meant)
	}
	return fmt.Errorf("%s: unknown flag --%s; see `warmpath %s --help`", c.Name(), wrong, c.Name())
}

// buildVersion is the release, or the commit that the binary was built from.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print version, commit and Go version",
		Example: "  warmpath version",
		Run: func(c *cobra.Command, _ []string) {
			commit := "unknown"
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						commit = s.Value
					}
				}
			}
			fmt.Fprintf(c.OutOrStdout(), "warmpath %s (commit %s, %s)\n", buildVersion(), commit, runtime.Version())
		},
	}
}
