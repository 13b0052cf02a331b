package realengine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warmpath/warmpath/test/e2e/lab"
)

const (
	outputTokens = 16
	// callLimit ends a call that hangs. The slowest answer in a healthy run takes a few seconds.
	callLimit = time.Minute
	// replicaHeader is where Warmpath says which replica answered.
	replicaHeader = "X-Warmpath-Replica"
)

// answer is what one call brought.
type answer struct {
	err     error
	replica int           // which, from 0; -1 if none is known to have answered
	ttft    time.Duration // from sending the request to the first piece of text
	prompt  int           // tokens
	cached  int           // tokens of the prompt
	counted bool
}

// client sends calls to one OpenAI-style address.
type client struct {
	http     *http.Client
	url      string
	replicas []string // addresses
}

func newClient(address string, replicas []string) client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	return client{
		http:     &http.Client{Transport: transport, Timeout: callLimit},
		url:      address + "/v1/chat/completions",
		replicas: replicas,
	}
}

// replica finds which replica a response says it is from: the name holds its host and port.
func (c client) replica(name string) int {
	return slices.IndexFunc(c.replicas, func(address string) bool {
		return strings.Contains(name, strings.TrimPrefix(address, "http://"))
	})
}

// play sends a workload and returns its answers in the order of its calls.
func (c client) play(ctx context.Context, w workload) []answer {
	answers := make([]answer, len(w.calls))
	send := func(i int) {
		answers[i] = c.send(ctx, w.calls[i].prompt)
		answers[i].counted = w.calls[i].counted
	}
	if w.clients > 0 {
		inTurn(w.clients, len(w.calls), send)
	} else {
		atTimes(w.calls, send)
	}
	c.http.CloseIdleConnections()
	return answers
}

// inTurn lets a number of clients take the next call as soon as their last one has ended.
func inTurn(clients, calls int, send func(int)) {
	next := make(chan int)
	var working sync.WaitGroup
	for range clients {
		working.Go(func() {
			for i := range next {
				send(i)
			}
		})
	}
	for i := range calls {
		next <- i
	}
	close(next)
	working.Wait()
}

// atTimes sends every call at its own time.
func atTimes(calls []call, send func(int)) {
	began := time.Now()
	var working sync.WaitGroup
	for i, call := range calls {
		<-time.After(call.at - time.Since(began))
		working.Go(func() { send(i) })
	}
	working.Wait()
}

// send asks for one streamed chat completion.
func (c client) send(ctx context.Context, prompt string) answer {
	a := answer{replica: -1}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(chatBody(prompt)))
	if err != nil {
		a.err = err
		return a
	}
	request.Header.Set("Content-Type", "application/json")
	began := time.Now()
	response, err := c.http.Do(request)
	if err != nil {
		a.err = err
		return a
	}
	defer response.Body.Close()
	name := response.Header.Get(replicaHeader)
	a.replica = c.replica(name)
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 512))
		a.err = fmt.Errorf("status %d: %s", response.StatusCode, text)
		return a
	}
	if a.replica < 0 {
		a.err = fmt.Errorf("%s: %q is none of the replicas", replicaHeader, name)
		return a
	}
	a.err = a.read(response.Body, began)
	return a
}

func chatBody(prompt string) []byte {
	body, err := json.Marshal(map[string]any{
		"model":          lab.ModelName,
		"messages":       []map[string]string{{"role": "user", "content": prompt}},
		"max_tokens":     outputTokens,
		"temperature":    0,
		"ignore_eos":     true,
		"stream":         true,
		"stream_options": map[string]bool{"include_usage": true},
	})
	if err != nil {
		panic(err) // strings, numbers and booleans always encode
	}
	return body
}

// chunk is what is read of one event of a stream.
type chunk struct {
	Choices []struct {
		Delta struct{ Content string }
	}
	Usage *struct {
		PromptTokens int `json:"prompt_tokens"`
		Details      struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	Error json.RawMessage
}

// read takes in a stream to its end. A stream that ends without text, usage and [DONE] is an error.
func (a *answer) read(stream io.Reader, began time.Time) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, 1<<20)
	done, usage := false, false
	for lines.Scan() {
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		if !isData {
			continue
		}
		if data == "[DONE]" {
			done = true
			continue
		}
		var c chunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			return fmt.Errorf("stream event %q: %w", data, err)
		}
		if c.Error != nil {
			return fmt.Errorf("error in the stream: %s", c.Error)
		}
		if a.ttft == 0 && len(c.Choices) > 0 && c.Choices[0].Delta.Content != "" {
			a.ttft = time.Since(began)
		}
		if c.Usage != nil {
			usage = true
			a.prompt, a.cached = c.Usage.PromptTokens, c.Usage.Details.CachedTokens
		}
	}
	switch {
	case lines.Err() != nil:
		return fmt.Errorf("stream: %w", lines.Err())
	case !done:
		return errors.New("stream: ended without [DONE]")
	case a.ttft == 0:
		return errors.New("stream: no text")
	case !usage:
		return errors.New("stream: no usage")
	}
	return nil
}
