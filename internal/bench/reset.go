package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// emptyingLimit is how long an engine that does not answer is waited for.
const emptyingLimit = 10 * time.Second

// Reset empties caches before a run: it posts to each URL, such as vLLM's /reset_prefix_cache or SGLang's /flush_cache. The error
// names the first that did not answer with 2xx. A nil transport is http.DefaultTransport.
func Reset(ctx context.Context, urls []string, transport http.RoundTripper) error {
	client := http.Client{Transport: transport}
	for _, url := range urls {
		if err := reset(ctx, &client, url); err != nil {
			return fmt.Errorf("reset: %w", err)
		}
	}
	return nil
}

// emptying are the paths that empty an engine's prefix cache: vLLM's, with VLLM_SERVER_DEV_MODE=1, and SGLang's.
var emptying = [...]string{"/reset_prefix_cache", "/flush_cache"}

// Empty empties the prefix caches of engines, given by their base URLs, in the way that each of them has. It returns those that have
// none, or that cannot be reached. A nil transport is http.DefaultTransport.
func Empty(ctx context.Context, engines []string, transport http.RoundTripper) (full []string) {
	client := http.Client{Transport: transport, Timeout: emptyingLimit}
	for _, engine := range engines {
		emptied := slices.ContainsFunc(emptying[:], func(path string) bool {
			return reset(ctx, &client, strings.TrimRight(engine, "/")+path) == nil
		})
		if !emptied {
			full = append(full, engine)
		}
	}
	return full
}

func reset(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // so that the connection can be used again
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("%s: answered %s", url, resp.Status)
	}
	return nil
}
