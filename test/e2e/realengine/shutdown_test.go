//go:build e2ereal

package realengine

import (
	"bufio"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warmpath/warmpath/test/e2e/lab"
)

const (
	openStreams = 20
	inQueue     = 60 // more than a quiet endpoint has retries for
	// brokenWithin is how soon after its engine's end a client must see that its answer will not be finished.
	brokenWithin = 2 * time.Second
	// endlessTokens take far longer than the test, and have room in a slot.
	endlessTokens, roomyContext = 3900, 4096
)

// killed: the system closes the connections of a process that is gone.
func killed(t *testing.T, l lab.Lab) { endUnderLoad(t, l, syscall.SIGKILL) }

// terminated: llama.cpp closes its port and breaks off most of the streams it has begun. The others, and those that wait for a slot, get
// nothing more, and keep their connections, and the process, for as long as they wait.
func terminated(t *testing.T, l lab.Lab) { endUnderLoad(t, l, syscall.SIGTERM) }

// endUnderLoad ends one of two engines while it has streams open, one in each slot, and others waiting for a slot.
func endUnderLoad(t *testing.T, l lab.Lab, by os.Signal) {
	// The same prompt leads all to the same engine.
	of := lab.Settings{Slots: openStreams, Context: roomyContext}
	s := setUp(t, l, "PREFIX_AWARE, prefix_length: 1024, concurrency_threshold: 1024", "", of, of)
	var open, waiting []*stream
	for i := range openStreams {
		open = append(open, s.begin(i, endlessTokens))
	}
	for _, c := range open {
		c.awaitFirst(t)
	}
	victim := slices.IndexFunc(s.engines, func(e *lab.Engine) bool { return name(e) == open[0].replica })
	if victim < 0 {
		t.Fatalf("%q is none of the replicas", open[0].replica)
	}
	dying, other := s.engines[victim], s.engines[1-victim]
	for i := range inQueue {
		waiting = append(waiting, s.begin(i, 16))
	}
	eventually(t, "streams that the engine works on", openStreams, func() float64 { return lab.Sum(t, []string{dying.URL}, "llamacpp:requests_processing") })
	eventually(t, "requests that wait for a slot", inQueue, func() float64 { return lab.Sum(t, []string{dying.URL}, "llamacpp:requests_deferred") })

	signalled := time.Now()
	dying.Signal(t, by)
	var brokenAfter, answeredAfter time.Duration
	for i, c := range open {
		c.awaitEnd(t)
		if c.err == nil || c.done {
			t.Errorf("open stream %d: ended as if it were whole, with [DONE] %v and error %v", i, c.done, c.err)
		}
		brokenAfter = max(brokenAfter, c.ended.Sub(signalled))
	}
	for i, c := range waiting {
		c.awaitEnd(t)
		if c.err != nil || !c.done || c.replica != name(other) {
			t.Errorf("waiting request %d: answered by %q, with [DONE] %v and error %v, want a whole answer by %s", i, c.replica, c.done, c.err, name(other))
		}
		answeredAfter = max(answeredAfter, c.ended.Sub(signalled))
	}
	t.Logf("%v: %d streams broken within %v, %d waiting requests answered within %v", by, len(open), brokenAfter, len(waiting), answeredAfter)
	if brokenAfter > brokenWithin {
		t.Errorf("the last open stream broke after %v, want at most %v", brokenAfter, brokenWithin)
	}
	select {
	case <-dying.Gone():
	case <-time.After(faultLimit):
		t.Error("the engine is still there: somebody waits for it")
	}
	eventually(t, "requests in flight", 0, func() float64 { return lab.Sum(t, []string{s.admin}, "warmpath_in_flight{") })
	eventually(t, "ready replicas", 1, func() float64 { return lab.Sum(t, []string{s.admin}, "warmpath_ready_replicas{") })
	for _, want := range []struct {
		series, label string
		count         float64
	}{
		{"warmpath_request_outcomes_total{", `outcome="ok"`, inQueue},
		{"warmpath_request_outcomes_total{", `outcome="upstream_aborted"`, openStreams},
		{"warmpath_request_outcomes_total{", "", inQueue + openStreams},
		{"warmpath_retries_total{", "", inQueue},
	} {
		eventually(t, want.series+want.label+"}", want.count, func() float64 { return lab.Sum(t, []string{s.admin}, want.series, want.label) })
	}
}

// stream is a streamed answer as its client sees it.
type stream struct {
	first chan struct{} // closed when there is content
	end   chan struct{} // closed when there is nothing more; what follows is known then, but for replica, which is known with first

	replica string
	done    bool  // [DONE] came
	err     error // nil if the answer ended as HTTP wants it
	ended   time.Time
}

// clients speak HTTP/1.1 and HTTP/2 by turns, in which broken answers look different.
var clients = func() [2]*http.Client {
	var both [2]*http.Client
	for i := range both {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(i == 0)
		protocols.SetUnencryptedHTTP2(i == 1)
		both[i] = &http.Client{Transport: &http.Transport{Protocols: protocols}, Timeout: 2 * faultLimit}
	}
	return both
}()

// begin sends the n-th request.
func (s *stand) begin(n, tokens int) *stream {
	c := &stream{first: make(chan struct{}), end: make(chan struct{})}
	go func() {
		c.err = c.follow(postJSON(clients[n%len(clients)], s.url+"/v1/chat/completions", chat("Tell me a story.", tokens, true)))
		c.ended = time.Now()
		close(c.end)
	}()
	return c
}

func (c *stream) follow(response *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer response.Body.Close()
	c.replica = response.Header.Get("X-Warmpath-Replica")
	if response.StatusCode != http.StatusOK {
		_, err := complete(response, nil)
		return err
	}
	lines := bufio.NewScanner(response.Body)
	for begun := false; lines.Scan(); {
		if !begun && strings.Contains(lines.Text(), `"content":"`) {
			begun = true
			close(c.first)
		}
		c.done = c.done || lines.Text() == "data: [DONE]"
	}
	return lines.Err()
}

func (c *stream) awaitFirst(t *testing.T) {
	t.Helper()
	select {
	case <-c.first:
	case <-c.end:
		t.Fatalf("stream: ended before it began: %v", c.err)
	case <-time.After(faultLimit):
		t.Fatalf("stream: no content after %v", faultLimit)
	}
}

func (c *stream) awaitEnd(t *testing.T) {
	t.Helper()
	select {
	case <-c.end:
	case <-time.After(faultLimit):
		t.Fatalf("stream: neither went on nor ended for %v", faultLimit)
	}
}
