package proxy

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// stripper takes out of an event stream what stands there only because Warmpath asked for the usage (plan.injected), so that the
// client gets the bytes it would have got without: the chunk that holds nothing but the usage, and "usage": null in the others. A
// line passes as soon as it is whole, unless usage is spoken of in it. What is not just as engines write it passes untouched.
//
// Two engines put into the usage chunk what otherwise ends the chunk before it. The last chunk of a choice is therefore held until
// the next line, which engines send with it.
type stripper struct {
	keepNulls bool // "usage": null is there without being asked for

	event  []byte // the line under way; before it, one that waits for the blank line after it
	inside bool   // a line of the event under way has passed
	cut    bool   // so has the beginning of its line
	last   []byte // the event that ended a choice
	out    []byte
}

// moved are the members that engines put into the usage chunk, if there is one, instead of the chunk before it: vLLM and llama.cpp.
var moved = [...]string{"system_fingerprint", "timings"}

// newStripper gives nil, which strips nothing, where there is nothing to strip or it could not be done.
func newStripper(c *call, o *observer) *stripper {
	if !c.x.plan.injected || !o.events || o.blind || c.resp.ContentLength >= 0 {
		return nil
	}
	return &stripper{keepNulls: c.x.plan.variant.Pool.NullUsage}
}

// next takes the next bytes of the answer, and whether they are the last, and gives those that the client is to get now. They are
// valid until the next call.
func (s *stripper) next(p []byte, end bool) []byte {
	if s == nil {
		return p
	}
	s.out = s.out[:0]
	for len(p) > 0 {
		n := bytes.IndexByte(p, '\n') + 1
		if n == 0 {
			s.hold(p)
			break
		}
		s.event = append(s.event, p[:n]...)
		s.line()
		p = p[n:]
	}
	if end {
		s.pass(s.event)
		s.event = nil
	}
	return s.out
}

// hold keeps the beginning of a line, until the line is sure to be too long for line.
func (s *stripper) hold(p []byte) {
	s.event = append(s.event, p...)
	if len(s.event) > maxLine+len("\r") {
		s.pass(s.event)
		s.event, s.inside, s.cut = s.event[:0], true, true
	}
}

// line decides over the event under way, of which a line is whole.
func (s *stripper) line() {
	n := bytes.IndexByte(s.event, '\n') + 1
	line, after := s.event[:n], s.event[n:]
	switch {
	case len(after) == 0 && !s.inside && len(line) <= maxLine && speaksOfUsage(line):
		return // until it is known that the event has no other line
	case len(after) > 0 && isBlank(after):
		s.judge(line, after)
	default:
		s.pass(s.event)
		s.inside = len(after) > 0 || s.cut || !isBlank(line)
		s.cut = false
	}
	s.event = s.event[:0]
}

// speaksOfUsage says whether a line may have to be changed or held. Inside a JSON string the quotes would be escaped.
func speaksOfUsage(line []byte) bool {
	return bytes.HasPrefix(line, []byte("data:")) && (bytes.Contains(line, []byte(`"usage"`)) || endsChoice(line))
}

// endsChoice says that a chunk is the last one of a choice, as the engines of which something is moved write it.
func endsChoice(line []byte) bool { return bytes.Contains(line, []byte(`"finish_reason":"`)) }

func isBlank(line []byte) bool { return string(line) == "\n" || string(line) == "\r\n" }

// judge takes an event of one line that speaks of usage, and the blank line after it.
func (s *stripper) judge(line, blank []byte) {
	c, ok := readChunk(line)
	if ok && c.onlyUsage() {
		s.giveBack(c)
		return
	}
	if ok && !s.keepNulls {
		line = c.withoutNull()
	}
	if ok && endsChoice(line) {
		s.pass(nil)
		s.last = append(append(s.last, line...), blank...)
		return
	}
	s.pass(line)
	s.out = append(s.out, blank...)
}

// giveBack passes what is held, with what belongs there and came in a chunk of usage.
func (s *stripper) giveBack(c chunk) {
	last, ok := readChunk(s.last)
	end := bytes.LastIndexByte(s.last, '}')
	for i, m := range c.moved {
		if !ok || last.moved[i].there() || !m.there() || c.line[m.start] != ',' {
			continue
		}
		s.last = slices.Insert(s.last, end, c.line[m.start:m.end]...)
		end += m.end - m.start
	}
	s.pass(nil)
}

// pass gives bytes to the client, after those that are held.
func (s *stripper) pass(p []byte) {
	s.out = append(append(s.out, s.last...), p...)
	s.last = s.last[:0]
}

// chunk is an event of one line that holds a JSON object, and where in the line its interesting members stand.
type chunk struct {
	line           []byte
	choices, usage member
	moved          [len(moved)]member
}

// member is a range of a chunk's line, from the end of the member before, so that it begins with a comma unless it is the first.
// The zero member is none.
type member struct{ start, value, end int }

func (m member) there() bool { return m.end > 0 }

// readChunk reads "data: {...}", and gives false for anything else.
func readChunk(line []byte) (chunk, bool) {
	c := chunk{line: line}
	data := bytes.TrimPrefix(line, []byte("data:"))
	from := len(line) - len(data)
	d := jsontext.NewDecoder(bytes.NewBuffer(data), lenient...)
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return c, false
	}
	for d.PeekKind() == '"' {
		m := member{start: from + int(d.InputOffset())}
		name, err := d.ReadToken()
		if err != nil {
			return c, false
		}
		place := c.place(name.String())
		value, err := d.ReadValue()
		if err != nil {
			return c, false
		}
		m.end = from + int(d.InputOffset())
		m.value = m.end - len(value)
		*place = m
	}
	_, err := d.ReadToken()
	if err != nil {
		return c, false
	}
	_, err = d.ReadToken()
	return c, errors.Is(err, io.EOF)
}

// place is where the range of a member is to be kept. Of duplicates the last counts.
func (c *chunk) place(name string) *member {
	switch name {
	case "choices":
		return &c.choices
	case "usage":
		return &c.usage
	}
	if i := slices.Index(moved[:], name); i >= 0 {
		return &c.moved[i]
	}
	return new(member)
}

func (c *chunk) text(m member) []byte { return c.line[m.value:m.end] }

// onlyUsage says that the chunk is the one that engines add when asked for the usage: it has no choice.
func (c *chunk) onlyUsage() bool {
	choices := c.text(c.choices)
	return len(choices) > 0 && choices[0] == '[' && isSpace(choices[1:len(choices)-1]) && c.usage.there() && c.text(c.usage)[0] == '{'
}

// withoutNull cuts "usage": null out of the chunk's line, and gives the line.
func (c *chunk) withoutNull() []byte {
	if !c.usage.there() || c.text(c.usage)[0] != 'n' || c.line[c.usage.start] != ',' {
		return c.line
	}
	return slices.Delete(c.line, c.usage.start, c.usage.end)
}

func isSpace(b []byte) bool { return len(bytes.TrimSpace(b)) == 0 }
