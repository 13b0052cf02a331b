package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/internal/demo"
)

// shortDemo plays a few short documents on free ports.
func shortDemo(stdout, stderr io.Writer) demoCommand {
	s := demo.Default()
	s.Listen, s.AdminListen, s.TimeScale = "127.0.0.1:0", "127.0.0.1:0", 1000
	s.Documents.Documents, s.Documents.DocumentTokens = 4, 300
	s.Chats.Conversations, s.Chats.OpeningTokens = 4, 300
	return demoCommand{scenario: s, stdout: stdout, stderr: stderr}
}

func TestDemoPrintsATable(t *testing.T) {
	var out, errs bytes.Buffer
	c := shortDemo(&out, &errs)
	c.once = true
	if err := c.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"curl -i http://127.0.0.1:", "hit rate", "RANDOM ", "LEAST_OUTSTANDING_REQUESTS ", "PREFIX_AWARE ", "KV_AWARE "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if errs.Len() > 0 || strings.ContainsAny(out.String(), "\r\x1b") {
		t.Errorf("progress where there is no terminal:\n%q\n%q", out.String(), errs.String())
	}
}

func TestDemoPrintsJSONAlone(t *testing.T) {
	var out, errs bytes.Buffer
	c := shortDemo(&out, &errs)
	c.once, c.json = true, true
	if err := c.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var report bench.Report
	if err := json.Unmarshal(out.Bytes(), &report, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%v in\n%s", err, out.String())
	}
	var got []string
	for _, r := range report.Runs {
		got = append(got, r.Strategy)
		if r.Requests != c.scenario.Len() || r.Failed != 0 || r.HitRate == nil || r.TimeScale != 1000 {
			t.Errorf("%s: %+v", r.Strategy, r)
		}
	}
	if diff := cmp.Diff([]string{"RANDOM", "LEAST_OUTSTANDING_REQUESTS", "PREFIX_AWARE", "KV_AWARE"}, got); diff != "" {
		t.Errorf("strategies (-want +got):\n%s", diff)
	}
}

// interruptAt interrupts when a text has been written.
type interruptAt struct {
	bytes.Buffer
	text      string
	interrupt context.CancelFunc
}

func (w *interruptAt) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(w.text)) {
		w.interrupt()
	}
	return w.Buffer.Write(p)
}

func TestDemoServesUntilInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	c := shortDemo(&interruptAt{text: "until interrupted", interrupt: interrupt}, io.Discard)
	if err := c.run(ctx); err != nil {
		t.Errorf("got %v, want no error: the table was printed", err)
	}
}

func TestDemoInterruptedWhilePlaying(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	c := shortDemo(&interruptAt{text: "Playing", interrupt: interrupt}, io.Discard)
	if err := c.run(ctx); err == nil || err.Error() != "demo: interrupted before all strategies were played" {
		t.Errorf("got %v", err)
	}
}

func TestDemoFailsWithARequest(t *testing.T) {
	report := &bench.Report{Runs: []bench.Run{{Requests: 2}, {Requests: 2, Failed: 1}, {Requests: 2, Refused: 1}}}
	if err := failures(report); err == nil || !strings.HasPrefix(err.Error(), "demo: 2 of 6 requests") {
		t.Errorf("got %v", err)
	}
	if err := failures(&bench.Report{Runs: report.Runs[:1]}); err != nil {
		t.Errorf("nothing failed: %v", err)
	}
}

func TestDemoWrongUsage(t *testing.T) {
	for _, args := range [][]string{{"demo", "--onse"}, {"demo", "now"}} {
		if got := run(args); got != exitUsage {
			t.Errorf("%v: exit code %d, want %d", args, got, exitUsage)
		}
	}
}
