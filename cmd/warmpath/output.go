package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/warmpath/warmpath/internal/report"
)

// progress is a progress line, if there is a terminal to show it.
type progress struct{ bar *progressbar.ProgressBar }

// newProgress counts up to total, or without an end if total is 0.
func newProgress(w io.Writer, total int) progress {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return progress{}
	}
	if total == 0 {
		total = -1
	}
	return progress{progressbar.NewOptions(total,
		progressbar.OptionSetWriter(file), progressbar.OptionShowCount(), progressbar.OptionSetWidth(30),
		progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))}
}

// ended counts one more, of what is being done.
func (p progress) ended(what string) {
	if p.bar != nil {
		p.bar.Describe(fmt.Sprintf("%-26s", what))
		_ = p.bar.Add(1) // a bar that cannot be drawn is no reason to stop
	}
}

func (p progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

// writeJSON prints what a command found out for programs.
func writeJSON(w io.Writer, v any) error {
	if err := json.MarshalWrite(w, v, json.Deterministic(true), jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("json: %w", err)
	}
	fmt.Fprintln(w)
	return nil
}

// reportFile is the value of a --report flag: where an HTML report goes; empty = nowhere.
type reportFile string

// check finds out that the file can be written before a long run rather than after it.
func (f reportFile) check() error {
	if f == "" {
		return nil
	}
	file, err := os.OpenFile(string(f), os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return usageError{fmt.Errorf("report: %w", err)}
	}
	return file.Close()
}

func (f reportFile) write(r *report.Report) error {
	if f == "" {
		return nil
	}
	file, err := os.Create(string(f))
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := r.WriteHTML(file); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
