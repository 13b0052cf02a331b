//go:build e2eclients

// Package clients makes the same calls by way of Warmpath and at the engine itself, with clients that others wrote, and compares what
// the clients give.
package clients

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
)

// contestant is a client and what it speaks.
type contestant struct {
	name      string
	program   []string // the command line; without one it is curl
	curl      *curl
	anthropic bool // Anthropic's API instead of OpenAI's
	sagemaker bool // SageMaker's, control plane and runtime
}

// TestClients runs all side by side, each its calls in turn.
func TestClients(t *testing.T) {
	r := startRig(t)
	i := install(t)
	isEngine := func(url string) bool { return url != r.url }
	all := []contestant{
		{name: "openai (Python)", program: i.pythonClient("openai")},
		{name: "openai (Node)", program: i.nodeClient()},
		{name: "openai (Go)", program: i.goClient("openai")},
		{name: "anthropic (Python)", program: i.pythonClient("anthropic"), anthropic: true},
		{name: "langchain-openai", program: i.pythonClient("langchain")},
		{name: "litellm", program: i.pythonClient("litellm")},
		{name: "boto3", program: i.pythonClient("boto3"), sagemaker: true},
		{name: "aws-sdk-go-v2", program: i.goClient("aws"), sagemaker: true},
		{name: "curl, HTTP/1.1", curl: &curl{option: "--http1.1", version: "1.1", engine: isEngine}},
		{name: "curl, HTTP/2", curl: &curl{option: "--http2-prior-knowledge", version: "2", engine: isEngine}},
		{name: "curl, upgrade to HTTP/2", curl: &curl{option: "--http2", version: "1.1", engine: isEngine}},
	}
	r.warm(t)
	var results results
	t.Run("clients", func(t *testing.T) {
		for _, c := range all {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				r.try(t, c, &results)
			})
		}
	})
	t.Logf("by way of Warmpath and at the engine itself:\n%s", results.table(all))
}

// warm lets every engine read the prompts once, so that the clients do not all wait for that.
func (r *rig) warm(t *testing.T) {
	t.Helper()
	var working sync.WaitGroup
	for _, engine := range r.engines {
		working.Go(func() {
			for _, c := range calls() {
				if o, err := direct(engine, c.request); err != nil || c.fails != (o.Error != nil) {
					t.Errorf("engine: %s: %v: %v", c.name, o.Error, err)
				}
			}
		})
	}
	working.Wait()
}

// try makes one client's calls.
func (r *rig) try(t *testing.T, c contestant, results *results) {
	check := func(call string, err error) {
		results.set(c.name, call, err)
		if err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
	var speaker client = c.curl
	if c.curl == nil {
		program := startProgram(t, strings.ReplaceAll(c.name, ".", "-"), c.program[0], c.program[1:]...)
		speaker = program
		if c.sagemaker {
			status, err := program.must("create", r.control, map[string]any{"pool": pool})
			check(controlPlane, errors.Join(err, same("InService", status)))
			defer func() {
				left, err := program.must("delete", r.control, nil)
				check(controlPlane, errors.Join(results.of(c.name, controlPlane), err, same([]any{}, left)))
			}()
		}
	}
	for _, call := range calls() {
		if c.anthropic {
			call.request = anthropic(call.request)
		}
		check(call.name, r.compare(c, speaker, call))
	}
	call := endless()
	if c.anthropic {
		call.request = anthropic(call.request)
	}
	check(call.name, r.abandon(t, speaker, call))
}

// compare makes a call at the engine itself and by way of Warmpath.
func (r *rig) compare(c contestant, speaker client, call call) error {
	r.quiet.RLock()
	defer r.quiet.RUnlock()
	var own outcome
	var err error
	if c.sagemaker {
		own, err = direct(r.engines[0], call.request)
	} else {
		own, err = speaker.call(r.engines[0], call.request)
	}
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	by, err := speaker.call(r.url, call.request)
	if err != nil {
		return fmt.Errorf("warmpath: %w", err)
	}
	return call.judge(own, by)
}

// abandon begins a stream by way of Warmpath and leaves it. The engine must stop then: it must not come to the end of the stream.
func (r *rig) abandon(t *testing.T, speaker client, call call) error {
	r.quiet.Lock()
	defer r.quiet.Unlock()
	made, left := r.made(t), r.left(t)
	if err := speaker.begin(r.url, call.request); err != nil {
		return err
	}
	if !r.busy(t) {
		return errors.New("the engine is idle while its client reads")
	}
	if err := speaker.leave(); err != nil {
		return err
	}
	if !eventually(func() bool { return r.left(t) > left }) {
		return errors.New("Warmpath has not noticed that its client has left")
	}
	if !eventually(func() bool { return !r.busy(t) }) {
		return errors.New("the engine goes on without a client")
	}
	if made := r.made(t) - made; made >= endlessTokens {
		return fmt.Errorf("the engine went on to the end, %v tokens, without a client", made)
	}
	return nil
}

func same(want, got any) error {
	if fmt.Sprint(want) != fmt.Sprint(got) {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

const controlPlane = "control plane"

// results are what came of each client's calls.
type results struct {
	mu  sync.Mutex
	all map[[2]string]error
}

func (r *results) set(client, call string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[[2]string]error{}
	}
	r.all[[2]string{client, call}] = err
}

func (r *results) of(client, call string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[[2]string{client, call}]
}

// table has a line for each client and a column for each call.
func (r *results) table(clients []contestant) string {
	columns := []string{}
	for _, call := range calls() {
		columns = append(columns, call.name)
	}
	columns = append(columns, endless().name, controlPlane)
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "client\t%s\n", strings.Join(columns, "\t"))
	for _, c := range clients {
		fmt.Fprint(table, c.name)
		for _, column := range columns {
			err, made := r.all[[2]string{c.name, column}]
			switch {
			case !made:
				fmt.Fprint(table, "\t-")
			case err != nil:
				fmt.Fprint(table, "\tFAILED")
			default:
				fmt.Fprint(table, "\tsame")
			}
		}
		fmt.Fprintln(table)
	}
	_ = table.Flush() // into memory
	return text.String()
}
