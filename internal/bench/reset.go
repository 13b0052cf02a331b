package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

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
