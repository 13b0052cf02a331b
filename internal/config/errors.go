package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one finding in a configuration: where it is, what is wrong and what to do.
type Error struct {
	// File is the name of the configuration file; empty where the configuration came from flags.
	File string
	// Line and Column are 1-based; 0 means that the finding has no place in the file.
	Line, Column int
	// Path is the key path, such as `pools.chat.static[1]`, or a flag, such as `--replica`.
	Path string
	// Message says what is wrong and what to do. It never holds a secret or a value taken from the environment.
	Message string
}

// Error returns `file:line:column: key.path: message` without the parts that are unknown.
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
		}
		b.WriteString(": ")
	}
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	return b.String() + e.Message
}

// Errors are all findings in a configuration, in the order of the file.
type Errors []*Error

// Error returns one finding a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, each := range e {
		lines[i] = each.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.As find each *Error.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i, each := range e {
		all[i] = each
	}
	return all
}

// sort puts the findings in the order of the file.
func (e Errors) sort() {
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Path, b.Path))
	})
}

// place is where a key stands in the file and how its value was written there.
type place struct {
	line, column int
	written      string
}

// report collects findings and knows where each key path stands in the file.
type report struct {
	file     string
	places   map[string]place
	errors   Errors
	warnings Errors
	// failed holds the paths that have an error: what follows from the first one only distracts.
	failed map[string]bool
	// rename turns key paths into the flags they came from; nil where the configuration is a file.
	rename map[string]string
}

func newReport(file string) *report {
	return &report{file: file, places: map[string]place{}, failed: map[string]bool{}}
}

// errorf adds an error about the value at path, unless it has one.
func (r *report) errorf(path, format string, args ...any) {
	if r.failed[path] {
		return
	}
	r.failed[path] = true
	r.errors = append(r.errors, r.finding(path, fmt.Sprintf(format, args...)))
}

// warnf adds a warning about the value at path.
func (r *report) warnf(path, format string, args ...any) {
	r.warnings = append(r.warnings, r.finding(path, fmt.Sprintf(format, args...)))
}

func (r *report) finding(path, message string) *Error {
	at := r.at(path)
	return &Error{File: r.file, Line: at.line, Column: at.column, Path: r.name(path), Message: message}
}

// name is what the user calls path: the path itself or a flag.
func (r *report) name(path string) string {
	for at := path; at != ""; at = parent(at) {
		if flag, ok := r.rename[at]; ok {
			return flag + path[len(at):]
		}
	}
	return path
}

// at is the place of path, or that of the nearest part of the file that holds it.
func (r *report) at(path string) place {
	for ; path != ""; path = parent(path) {
		if p, ok := r.places[path]; ok {
			return p
		}
	}
	return r.places[""]
}

// isSet says whether the file gives path a value.
func (r *report) isSet(path string) bool {
	return r.places[path].written != ""
}

// written is the value at path as the file has it, so that a value from the environment is named and not shown.
func (r *report) written(path string, value any) string {
	if p, ok := r.places[path]; ok && p.written != "" {
		return p.written
	}
	return fmt.Sprint(value)
}

// result sorts what was found and returns the errors, or nil.
func (r *report) result() error {
	r.warnings.sort()
	if len(r.errors) == 0 {
		return nil
	}
	r.errors.sort()
	return r.errors
}
