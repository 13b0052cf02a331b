package recording

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
)

// maxLine bounds a line that is read, in bytes: a chain of the whole window takes 2,731.
const maxLine = 64 << 10

// Reader reads a recording from the beginning to its end.
type Reader struct {
	Header Header
	lines  *bufio.Scanner
	line   int
}

// NewReader reads the header. The error says that the text is no recording, or one that this version cannot read.
func NewReader(from io.Reader) (*Reader, error) {
	r := &Reader{lines: bufio.NewScanner(from)}
	r.lines.Buffer(make([]byte, 0, 8<<10), maxLine)
	if err := r.next(&r.Header); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("line 1: is empty")
		}
		return nil, fmt.Errorf("%w; a recording is a file that `record` in the configuration writes", err)
	}
	if r.Header.Version != 1 || r.Header.Step < 4 || r.Header.Step > MaxCharacters {
		return nil, errors.New("line 1: is not the header of a recording that this version reads; a recording is a file that `record` in the configuration writes")
	}
	return r, nil
}

// Next gives the next request, or io.EOF. A last line that was cut off is taken for the end: the process may have been killed in the
// middle of it. Any other error names the line.
func (r *Reader) Next() (row Row, err error) {
	if err := r.next(&row); err != nil {
		return Row{}, err
	}
	if row.Characters < 0 || row.BytesIn < 0 || row.PromptTokens < 0 || row.OutputTokens < 0 ||
		len(row.Chain) != 8*((row.Characters+r.Header.Step-1)/r.Header.Step) {
		return Row{}, fmt.Errorf("line %d: its numbers do not agree with each other", r.line)
	}
	return row, nil
}

func (r *Reader) next(into any) error {
	if !r.lines.Scan() {
		if err := r.lines.Err(); err != nil {
			return fmt.Errorf("line %d: %w", r.line+1, err)
		}
		return io.EOF
	}
	r.line++
	err := json.Unmarshal(r.lines.Bytes(), into)
	switch {
	case err == nil:
		return nil
	case r.line > 1 && !r.lines.Scan() && r.lines.Err() == nil:
		return io.EOF
	}
	return fmt.Errorf("line %d: is not JSON of the kind that stands there: %w", r.line, err)
}
