package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/dialect"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/internal/router"
)

// explainFlags are the flags of `warmpath explain`.
type explainFlags struct {
	file, admin, path, hint string
	headers                 []string
	json                    bool
}

func newExplainCommand() *cobra.Command {
	var f explainFlags
	c := &cobra.Command{
		Use:   "explain",
		Short: "Say where a request would go, and why",
		Long: `Explain reads a request body from standard input and prints the key, the window it covers, the ranking of the replicas and
the reason for each. With -c it plans as a router with that configuration and no load would; with --admin it asks a running
router, which knows its replicas' health and load. Nothing is sent to an engine.`,
		Example: `  warmpath explain -c warmpath.yaml < body.json
  warmpath explain --admin http://127.0.0.1:8081 --path /v1/completions < body.json
  warmpath explain --admin http://127.0.0.1:8081 --path /endpoints/chat/invocations -H X-Amzn-SageMaker-Inference-Component:llama < body.json`,
		RunE: func(c *cobra.Command, _ []string) error {
			if (f.file == "") == (f.admin == "") {
				return usageError{errors.New("explain: give either a configuration with -c FILE or a running router with --admin URL")}
			}
			body, err := io.ReadAll(c.InOrStdin())
			if err != nil {
				return fmt.Errorf("explain: standard input: %w", err)
			}
			e, err := f.explain(c.Context(), body)
			if err != nil {
				return err
			}
			return f.print(c.OutOrStdout(), e)
		},
	}
	flags := c.Flags()
	flags.StringVarP(&f.file, "config", "c", "", "configuration `file`")
	flags.StringVar(&f.admin, "admin", "", "admin `URL` of a running router")
	flags.StringVar(&f.path, "path", "/v1/chat/completions", "`path` that the request would be sent to")
	flags.StringVar(&f.hint, "prefix-aware-id", "", "routing hint `id` ("+dialect.HeaderPrefixAwareID+")")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "`NAME:VALUE` that the request would have, such as "+dialect.HeaderInferenceComponent+":llama; repeat for more")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	return c
}

// header is that of the request.
func (f *explainFlags) header() (http.Header, error) {
	h := http.Header{}
	for _, line := range f.headers {
		name, value, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, usageError{fmt.Errorf("explain: --header %q is not NAME:VALUE", line)}
		}
		h.Add(name, strings.TrimSpace(value))
	}
	if f.hint != "" {
		h.Set(dialect.HeaderPrefixAwareID, f.hint)
	}
	return h, nil
}

func (f *explainFlags) explain(ctx context.Context, body []byte) (*proxy.Explanation, error) {
	header, err := f.header()
	if err != nil {
		return nil, err
	}
	if f.admin != "" {
		return f.ask(ctx, header, body)
	}
	cfg, err := config.Load(f.file, os.LookupEnv)
	if err == nil {
		cfg, err = withMade(cfg)
	}
	if err != nil {
		return nil, usageError{err}
	}
	r, err := router.New(inert(cfg), router.Options{Version: buildVersion()})
	if err != nil {
		return nil, usageError{err}
	}
	defer r.Close()
	return r.Explain(f.path, header, body)
}

// inert is a configuration of which a router asks nothing of the engines and writes no file: those are a running router's.
func inert(cfg *config.Config) *config.Config {
	cfg.ControlPlane = nil
	for name, e := range cfg.Endpoints {
		e.Record = nil
		cfg.Endpoints[name] = e
	}
	for name, p := range cfg.Pools {
		p.Health.Enabled, p.Metrics.Enabled = false, false
		cfg.Pools[name] = p
	}
	return cfg
}

// ask lets a running router explain.
func (f *explainFlags) ask(ctx context.Context, header http.Header, body []byte) (*proxy.Explanation, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	target := strings.TrimRight(f.admin, "/") + "/api/v1/explain?path=" + url.QueryEscape(f.path)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, usageError{fmt.Errorf("explain: --admin: %w", err)}
	}
	req.Header = header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("explain: no answer from the router; is --admin its admin listener? %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("explain: the router answered %s: %s", resp.Status, bytes.TrimSpace(answer))
	}
	e := new(proxy.Explanation)
	if err := json.Unmarshal(answer, e); err != nil {
		return nil, fmt.Errorf("explain: the router's answer: %w", err)
	}
	return e, nil
}

func (f *explainFlags) print(w io.Writer, e *proxy.Explanation) error {
	if f.json {
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		return out.Encode(e)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	variant := e.Variant
	if e.Component != "" {
		variant += ", inference component " + e.Component
	}
	fmt.Fprintf(t, "endpoint\t%s (variant %s, pool %s, %s API)\n", e.Endpoint, variant, e.Pool, e.API)
	fmt.Fprintf(t, "strategy\t%s\n", e.Strategy)
	switch {
	case e.Key != "":
		fmt.Fprintf(t, "key\t%s over the first %d %s\n", e.Key, e.Window, e.WindowUnit)
	case e.Options.PrefixLength > 0:
		fmt.Fprintf(t, "key\tnone: nothing in this body can be keyed, so load decides\n")
	}
	if e.Learned != nil {
		printLearned(t, e)
	}
	if e.Hint != "" {
		fmt.Fprintf(t, "hint id\t%s\n", e.Hint)
	}
	for _, s := range e.Shadows {
		fmt.Fprintf(t, "shadow\t%s gets copies of %.4g %% (pool %s, %s)\n", s.Variant, 100*s.Share, s.Pool, s.Strategy)
	}
	if e.Degraded {
		fmt.Fprintf(t, "warning\tno replica is ready; they are tried all the same\n")
	}
	if e.Learned != nil {
		printCosts(t, e)
		return t.Flush()
	}
	fmt.Fprintf(t, "\nplace\treplica\treason\tin flight\n")
	for i, place := range e.Order {
		fmt.Fprintf(t, "%d\t%s\t%s\t%d\n", i+1, place.Replica, place.Reason, place.InFlight)
	}
	return t.Flush()
}

// printCosts shows the ranking of KV_AWARE with what each place would cost.
func printCosts(t io.Writer, e *proxy.Explanation) {
	fmt.Fprintf(t, "\nplace\treplica\treason\tin flight\thit tokens\tprefill ms\twait\tdecode\tothers\teviction\twaived\ttotal ms\n")
	for i, place := range e.Order {
		c := place.Cost
		fmt.Fprintf(t, "%d\t%s\t%s\t%d\t%.0f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\n",
			i+1, place.Replica, place.Reason, place.InFlight, c.HitTokens, c.Own, c.Wait, c.Decode, c.Others, c.Eviction, c.Waived, c.Total)
	}
}

// printLearned shows what KV_AWARE reckons with.
func printLearned(t io.Writer, e *proxy.Explanation) {
	l, latency := e.Learned, e.Learned.Latency
	if len(e.Order) > 0 {
		fmt.Fprintf(t, "prompt\t%.0f tokens in %d blocks (%.2f bytes a token)\n", e.Order[0].Cost.PromptTokens, e.Blocks, l.BytesPerToken)
	}
	fmt.Fprintf(t, "learned\t%.1f ms + %.4f ms a token + %.4f ms a token queued + %.2f ms a request in flight; answers of %.0f tokens\n",
		latency.Base, latency.Prefill, latency.Queue, latency.Request, l.OutputTokens)
}
