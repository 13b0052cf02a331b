package turns

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1 << 10, DisableCompression: true, IdleConnTimeout: 4 * time.Second}}

// measure sends requests at a fixed rate, whether or not the earlier ones have been answered. When ctx ends, all fail at once.
func measure(ctx context.Context, c Contender, s Shape, rate float64, length time.Duration) Result {
	n := max(1, int(rate*length.Seconds()))
	body := chat(s.Body)
	target := c.URL + "/v1/chat/completions"
	if s.Stream {
		target += "?stream=1"
	}
	took, failed := make([]time.Duration, n), make([]error, n)
	before := cpuOf(c.PID)
	began := time.Now()
	var open sync.WaitGroup
	for i := range n {
		at := began.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		Sleep(ctx, time.Until(at))
		open.Go(func() {
			failed[i] = post(ctx, target, body)
			took[i] = time.Since(at)
		})
	}
	open.Wait()
	broken := 0
	for _, err := range failed {
		if err != nil {
			broken++
		}
	}
	slices.Sort(took)
	return Result{CPU: (cpuOf(c.PID) - before) / time.Duration(n), P50: took[n/2], Broken: broken}
}

// Sleep waits, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func post(ctx context.Context, target string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
}

// chat is a chat body of about that many bytes: a system prompt and a question.
func chat(size int) []byte {
	const sentence = "You answer questions about the \"attached\" document, line by line.\n"
	text := strings.Repeat(sentence, size/len(sentence)+1)
	message := func(role, content string) map[string]string {
		return map[string]string{"role": role, "content": content}
	}
	body, err := json.Marshal(map[string]any{
		"model": Model, "max_tokens": 160, "messages": []any{message("system", text[:max(size-320, 64)]), message("user", text[:100])},
	})
	if err != nil {
		panic(err) // strings always encode
	}
	return body
}
