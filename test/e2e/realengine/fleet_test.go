//go:build e2ereal

package realengine

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/test/e2e/lab"
)

// fleet is engines that keep their addresses when they are started anew.
type fleet struct {
	lab   lab.Lab
	urls  []string
	stop  func()
	speed float64 // of the workloads' rate, at most 1
}

func startFleet(t *testing.T, engines int) *fleet {
	t.Helper()
	f := &fleet{lab: lab.New(t)}
	f.urls, f.stop = f.lab.StartEngines(t, engines, contextTokens)
	return f
}

// restart empties all caches, for which llama.cpp has no request.
func (f *fleet) restart(t *testing.T) {
	t.Helper()
	f.stop()
	var stops []func()
	for _, address := range f.urls {
		engine := f.lab.StartEngine(t, lab.Settings{Port: port(t, address), Slots: lab.Slots, Context: contextTokens})
		stops = append(stops, engine.Stop)
	}
	f.stop = func() {
		for _, stop := range stops {
			stop()
		}
	}
}

func port(t *testing.T, address string) int {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatalf("%s: port: %v", address, err)
	}
	return n
}

// bench plays a trace by each strategy, on engines that are started anew before each.
func (f *fleet) bench(t *testing.T, trace string, arguments ...string) (report *bench.Report, printed []byte) {
	t.Helper()
	resets := make(chan chan<- struct{})
	reset := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		done := make(chan struct{})
		select {
		case resets <- done:
		case <-r.Context().Done():
		}
		select {
		case <-done:
		case <-r.Context().Done():
		}
	}))
	defer reset.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel() // before the server closes, which waits for what bench asks of it
	arguments = append([]string{"bench", "--trace", trace, "--engine", "llamacpp", "--reset", reset.URL, "--timeout", "1m", "--json"}, arguments...)
	for _, engine := range f.urls {
		arguments = append(arguments, "--replica", engine)
	}
	command := f.lab.Command(ctx, arguments...)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, lab.LogFile(t, "bench")
	if err := command.Start(); err != nil {
		t.Fatalf("bench: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	for {
		select {
		case done := <-resets:
			f.restart(t)
			close(done)
		case err := <-ended:
			if err != nil {
				t.Fatalf("bench: %v", err)
			}
			return reportOf(t, output.Bytes()), output.Bytes()
		}
	}
}

func reportOf(t *testing.T, printed []byte) *bench.Report {
	t.Helper()
	var report bench.Report
	if err := json.Unmarshal(printed, &report); err != nil {
		t.Fatalf("bench: printed %q: %v", printed, err)
	}
	return &report
}
