package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/demo"
)

// demoCommand is one `warmpath demo`.
type demoCommand struct {
	scenario       demo.Scenario
	once, json     bool // flags
	stdout, stderr io.Writer
}

func newDemoCommand() *cobra.Command {
	d := demoCommand{scenario: demo.Default()}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show what routing by prefix gains, with emulated engines",
		Long: `Demo starts four emulated engines and Warmpath in front of them, all on loopback, and plays one workload of document
questions and conversations once for each strategy. It prints one table and serves with KV_AWARE until it is interrupted.`,
		Example: `  warmpath demo
  warmpath demo --once
  warmpath demo --once --json | jq '.runs[].hit_rate'`,
		RunE: func(c *cobra.Command, _ []string) error {
			d.stdout, d.stderr = c.OutOrStdout(), c.ErrOrStderr()
			return d.run(c.Context())
		},
	}
	c.Flags().BoolVar(&d.once, "once", false, "end after the table")
	c.Flags().BoolVar(&d.json, "json", false, "print the figures as JSON; everything else goes to standard error")
	return c
}

func (c *demoCommand) run(ctx context.Context) error {
	d, err := demo.Start(c.scenario)
	if err != nil {
		return err
	}
	defer d.Close()
	talk := c.stdout
	if c.json {
		talk = c.stderr
	}
	introduce(talk, d, &c.scenario)
	bar := newProgress(c.stderr, c.scenario.Len()*len(c.scenario.Strategies))
	report, err := d.Play(ctx, bar.ended)
	bar.clear()
	switch {
	case ctx.Err() != nil:
		return errors.New("demo: interrupted before all strategies were played")
	case err != nil:
		return err
	}
	if err := c.print(report); err != nil {
		return err
	}
	if !c.once {
		fmt.Fprintf(talk, "\nServing with %s on %s until interrupted.\n", report.Runs[len(report.Runs)-1].Strategy, d.URL())
		if err := d.Wait(ctx); err != nil {
			return err
		}
	}
	return failures(report)
}

// introduce says what runs where, and how to call it.
func introduce(w io.Writer, d *demo.Demo, s *demo.Scenario) {
	for _, address := range d.Moved() {
		fmt.Fprintf(w, "%s is not free; taking another port.\n", address)
	}
	fmt.Fprintf(w, "%d emulated engines serve %s, each with a cache of %d tokens, %g times faster than real ones:\n  %s\n",
		s.Replicas, demo.Model, s.CacheTokens(), s.TimeScale, strings.Join(d.Engines(), " "))
	fmt.Fprintf(w, "Warmpath stands in front of them on %s, its admin API on %s. Try it:\n\n", d.URL(), d.AdminURL())
	fmt.Fprintf(w, "  curl -i %s/v1/chat/completions -H 'Content-Type: application/json' \\\n", d.URL())
	fmt.Fprintf(w, "    -d '{\"model\": \"%s\", \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'\n\n", demo.Model)
	fmt.Fprintf(w, "Playing %d requests once for each of %d strategies, with cold caches each time: %d documents and %d conversations\n"+
		"of %d tokens in all, of which one cache holds %.0f %%.\n\n",
		s.Len(), len(s.Strategies), s.Documents.Documents, s.Chats.Conversations, s.WorkingSet(), 100*s.CacheShare)
}

func (c *demoCommand) print(r *bench.Report) error {
	if !c.json {
		demo.WriteTable(c.stdout, r)
		return nil
	}
	return writeJSON(c.stdout, r)
}

// failures is an error if a request was not answered whole.
func failures(r *bench.Report) error {
	failed, requests := 0, 0
	for _, run := range r.Runs {
		failed += run.Failed + run.Refused
		requests += run.Requests
	}
	if failed > 0 {
		return fmt.Errorf("demo: %d of %d requests failed; if the machine is busy, try again when it is not", failed, requests)
	}
	return nil
}
