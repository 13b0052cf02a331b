package telemetry

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// countedWriter counts how often it is written to.
type countedWriter struct {
	mu     sync.Mutex
	text   bytes.Buffer
	writes int
}

func (w *countedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	return w.text.Write(p)
}

// written is how often and what.
func (w *countedWriter) written() (writes int, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes, w.text.String()
}

func newTestAccessLog(t *testing.T, level string) (*AccessLog, *countedWriter) {
	t.Helper()
	out := &countedWriter{}
	a, err := NewAccessLog(out, "text", level)
	if err != nil {
		t.Fatal(err)
	}
	return a, out
}

func TestAccessLinesAreWrittenTogetherAndSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, out := newTestAccessLog(t, "info")
		ended := time.Now()
		for range 10 {
			a.Write(&Request{Status: 200, Outcome: OutcomeOK, Start: ended})
		}
		if writes, _ := out.written(); writes != 0 {
			t.Errorf("%d writes at once, want none", writes)
		}
		time.Sleep(accessDelay + time.Millisecond)
		synctest.Wait()
		writes, text := out.written()
		if writes != 1 || strings.Count(text, "\n") != 10 {
			t.Errorf("%d writes after %s, want 10 lines in 1: %q", writes, accessDelay, text)
		}
		if stamp := "time=" + ended.Format("2006-01-02T15:04:05.000"); strings.Count(text, stamp) != 10 {
			t.Errorf("lines do not have the time at which the requests ended: %q", text)
		}
	})
}

func TestAFailureIsWrittenAtOnceWithWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, out := newTestAccessLog(t, "info")
		a.Write(&Request{ID: "first", Status: 200, Outcome: OutcomeOK})
		a.Write(&Request{ID: "second", Status: 502, Outcome: OutcomeUpstreamError})
		if writes, text := out.written(); writes != 1 || !strings.Contains(text, "first") || !strings.Contains(text, "second") {
			t.Errorf("%d writes: %q", writes, text)
		}
	})
}

func TestAccessLinesDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, out := newTestAccessLog(t, "info")
		for range accessBatch {
			a.Write(&Request{Status: 200, Outcome: OutcomeOK})
		}
		if writes, text := out.written(); writes != 1 || strings.Count(text, "\n") != accessBatch {
			t.Errorf("%d writes of %d lines, want one of all", writes, strings.Count(text, "\n"))
		}
	})
}

func TestAccessLogIsQuietBelowTheLevel(t *testing.T) {
	a, out := newTestAccessLog(t, "warn")
	a.Write(&Request{Status: 200, Outcome: OutcomeOK})
	a.Flush()
	if writes, text := out.written(); writes != 0 {
		t.Errorf("wrote %q, want nothing", text)
	}
}

func TestNewAccessLogRefusesWhatNewLoggerDoes(t *testing.T) {
	if _, err := NewAccessLog(&bytes.Buffer{}, "xml", "info"); err == nil || !strings.Contains(err.Error(), "use text or json") {
		t.Errorf("got %v", err)
	}
}

func TestManyWritersLoseNoLine(t *testing.T) {
	a, out := newTestAccessLog(t, "info")
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for range 500 {
				a.Write(&Request{Status: 200, Outcome: OutcomeOK})
			}
		})
	}
	writers.Wait()
	a.Flush()
	if _, text := out.written(); strings.Count(text, "msg=request") != 4000 {
		t.Errorf("%d lines of 4000", strings.Count(text, "msg=request"))
	}
}
