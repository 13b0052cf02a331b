package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// result is what one contender needed, over one round or as medians of several.
type result struct {
	cpu time.Duration // of the proxy's process, per request
	p50 time.Duration // from the intended start to the end of the answer
	// broken counts answers that did not come whole. The bare proxy breaks some streams: Go's server closes a request body that
	// has not been read to its end when the answer begins.
	broken int
}

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1 << 10, DisableCompression: true}}

// measure sends requests at a fixed rate, whether or not the earlier ones have been answered.
func measure(c contender, s shape, rate float64, length time.Duration) result {
	n := int(rate * length.Seconds())
	body := chat(s.body)
	target := c.url + "/v1/chat/completions"
	if s.stream {
		target += "?stream=1"
	}
	took, failed := make([]time.Duration, n), make([]error, n)
	before := cpuOf(c.pid)
	began := time.Now()
	var open sync.WaitGroup
	for i := range n {
		at := began.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		time.Sleep(time.Until(at))
		open.Go(func() {
			failed[i] = post(target, body)
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
	return result{cpu: (cpuOf(c.pid) - before) / time.Duration(n), p50: took[n/2], broken: broken}
}

func post(target string, body []byte) error {
	resp, err := client.Post(target, "application/json", bytes.NewReader(body))
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
		"model": "m", "max_tokens": 160, "messages": []any{message("system", text[:max(size-320, 64)]), message("user", text[:100])},
	})
	if err != nil {
		panic(err) // strings always encode
	}
	return body
}

// clockTick is the unit of /proc/PID/stat, 1/100 s on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// cpuOf is the CPU time that a process has used, 0 if it cannot be told.
func cpuOf(pid int) time.Duration {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	_, fields, ok := strings.Cut(string(stat), ") ") // the name before it may hold spaces
	if !ok {
		return 0
	}
	f := strings.Fields(fields)
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * clockTick
}
