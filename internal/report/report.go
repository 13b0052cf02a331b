// Package report presents figures for people: as text for a terminal, and as one self-contained HTML page with plots.
package report

import (
	"fmt"
	"io"
	"text/tabwriter"
	"unicode/utf8"
)

// Report is what one command found out. Its parts appear in the order of the fields; empty ones are left out.
type Report struct {
	Title  string
	Facts  []Fact   // what was measured, and how
	Tables []Table  // the figures
	Notes  []string // what a reader must know or take away; one of several lines is for pasting
	Charts []Chart  // only in HTML
}

// Fact is one thing that the figures depend on, such as the workload or the seed.
type Fact struct{ Name, Value string }

// Table is figures in rows. The first column names the rows and is aligned left, all others right.
type Table struct {
	Title   string
	Note    string // how to read it; only in HTML
	Columns []string
	Rows    [][]string // each as long as Columns
	Detail  bool       // only in HTML
}

// Chart is a plot of lines or of bars, not of both.
type Chart struct {
	Title string
	Note  string // how to read it
	X, Y  Axis
	Lines []Line
	Bars  []Bars // side by side at each of Groups
	// Groups name what the bars stand at, along the x axis.
	Groups []string
	Marks  []Mark
}

// Axis is one axis of a Chart. Its range is that of the data and the marks; a linear y axis begins at 0 and ends at a tick.
type Axis struct {
	Label    string    // with the unit
	Log      bool      // values of 0 and less are not drawn
	FromZero bool      // a linear x axis begins at 0 too
	Max      float64   // the end; 0 = as far as the data go
	Ticks    []float64 // where it is labelled; nil = at round numbers
}

// Line is one line of a Chart.
type Line struct {
	Name   string // in the legend; empty = not there
	Series int    // its colour and dashes, from 0; lines of one Series belong together
	Thin   bool   // the minor one of its Series
	Points []Point
}

// Point is a point of a Line, in the units of the axes.
type Point struct{ X, Y float64 }

// Bars is one bar at each of a Chart's Groups.
type Bars struct {
	Name   string // in the legend; empty = not there
	Series int    // its colour, from 0
	Values []float64
}

// Mark is a vertical line with a label at a place that matters, such as a cliff.
type Mark struct {
	Label string
	X     float64
}

// WriteText prints the tables and notes for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	first := true
	for i := range r.Tables {
		if r.Tables[i].Detail {
			continue
		}
		if !first {
			fmt.Fprintln(w)
		}
		first = false
		if r.Tables[i].Title != "" {
			fmt.Fprintln(w, r.Tables[i].Title)
		}
		if err := r.Tables[i].writeText(w); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	if len(r.Notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, note := range r.Notes {
		if _, err := fmt.Fprintln(w, note); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	return nil
}

func (t *Table) writeText(w io.Writer) error {
	width := 0
	for _, row := range append([][]string{t.Columns}, t.Rows...) {
		width = max(width, utf8.RuneCountInString(row[0]))
	}
	table := tabwriter.NewWriter(w, 0, 0, 0, ' ', tabwriter.AlignRight)
	for _, row := range append([][]string{t.Columns}, t.Rows...) {
		fmt.Fprintf(table, "%-*s", width, row[0])
		for _, cell := range row[1:] {
			fmt.Fprintf(table, "\t   %s", cell)
		}
		fmt.Fprint(table, "\t\n")
	}
	return table.Flush()
}
