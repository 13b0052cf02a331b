package prompt

import "bytes"

// maxDepth bounds how deep arrays and objects may nest. Engines' own parsers
// give up far earlier (Python's json at about 1,000); the bound equals that of
// the jsontext package, so that both accept the same bodies.
const maxDepth = 10_000

// Scan validates raw as one JSON value and notes the top-level members that
// routing reads. Names match exactly, escaped spellings included, and of
// duplicates the last counts, as in the engines' Python. A value that is not an
// object is valid and yields a Body without model or text. What stands inside
// strings is not validated: that is for the engine to judge.
//
// The error is a *SyntaxError. Only the Model and CacheKey strings are allocated.
func Scan(raw []byte, shape Shape) (Body, error) {
	s := scanner{raw: raw}
	b := Body{Raw: raw, shape: shape}
	if !s.document(&b) {
		return Body{}, s.err
	}
	b.settle()
	if b.model != (span{}) {
		b.Model, b.HasModel = decodedString(raw[b.model.start:b.model.end]), true
	}
	return b, nil
}

// scanner validates JSON iteratively, so that nesting costs one bit a level
// instead of a stack frame. Its methods report success; on failure err is set.
type scanner struct {
	raw     []byte
	pos     int
	depth   int
	objects [maxDepth/64 + 1]uint64 // bit d: the container at depth d is an object
	err     *SyntaxError
}

func (s *scanner) fail(at int, reason string) bool {
	if at >= len(s.raw) {
		at, reason = len(s.raw), "unexpected end of body"
	}
	s.err = &SyntaxError{Offset: int64(at), Reason: reason}
	return false
}

// document reads the whole body.
func (s *scanner) document(b *Body) bool {
	switch {
	case bytes.HasPrefix(s.raw, []byte("\xef\xbb\xbf")):
		return s.fail(0, "byte order mark: send UTF-8 without one")
	case bytes.HasPrefix(s.raw, []byte("\xff\xfe")), bytes.HasPrefix(s.raw, []byte("\xfe\xff")):
		return s.fail(0, "UTF-16: send UTF-8")
	}
	ok := false
	if s.space() == '{' {
		ok = s.members(b)
	} else {
		ok = s.value()
	}
	if !ok {
		return false
	}
	if s.space(); s.pos < len(s.raw) {
		return s.fail(s.pos, "data after the JSON value")
	}
	return true
}

// members reads the top-level object.
func (s *scanner) members(b *Body) bool {
	s.pos++
	s.depth = 1
	if s.space() == '}' {
		s.pos++
		return true
	}
	for {
		key, ok := s.key()
		if !ok {
			return false
		}
		s.space()
		start := s.pos
		if !s.value() {
			return false
		}
		b.note(s.raw[key.start:key.end], span{start, s.pos})
		switch s.space() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			return true
		default:
			return s.fail(s.pos, "expected a comma or the end of the object")
		}
	}
}

// note keeps the value of a top-level member that routing reads.
func (b *Body) note(key []byte, value span) {
	var scratch nameBuffer
	name := memberName(key, &scratch)
	switch string(name) {
	case "model":
		b.model = span{}
		if b.Raw[value.start] == '"' {
			b.model = value
		}
	case "stream":
		b.Stream = b.Raw[value.start] == 't'
	case "stream_options":
		b.options = value
	case "prompt_cache_key":
		b.CacheKey = ""
		if b.shape != ShapeNone && b.Raw[value.start] == '"' {
			b.CacheKey = decodedString(b.Raw[value.start:value.end])
		}
	default:
		b.noteText(name, value)
	}
}

func (b *Body) noteText(name []byte, value span) {
	if b.shape == ShapeNone {
		return
	}
	for i, field := range textFields[b.shape] {
		if string(name) == field {
			b.text[i] = value
		}
	}
	for i, field := range frontFields {
		if string(name) == field {
			b.front[i] = value
		}
	}
	for i, field := range seedFields {
		if string(name) == field {
			b.seeds[i] = value
		}
	}
}

// value reads one value with everything nested in it.
func (s *scanner) value() bool {
	base := s.depth
	for {
		opened, ok := s.begin()
		if !ok {
			return false
		}
		if opened {
			continue
		}
		more, ok := s.proceed(base)
		if !ok {
			return false
		}
		if !more {
			return true
		}
	}
}

// begin reads a scalar or an empty container whole, or opens a container and
// leaves the scanner before its first value.
func (s *scanner) begin() (opened, ok bool) {
	switch c := s.space(); c {
	case '"':
		return false, s.str()
	case '{':
		return s.openObject()
	case '[':
		return s.openArray()
	case 't':
		return false, s.literal("true")
	case 'f':
		return false, s.literal("false")
	case 'n':
		return false, s.literal("null")
	default:
		if c == '-' || isDigit(c) {
			return false, s.number()
		}
		return false, s.fail(s.pos, "expected a value")
	}
}

func (s *scanner) openObject() (opened, ok bool) {
	if !s.push(1) {
		return false, false
	}
	if s.space() == '}' {
		s.pos++
		s.depth--
		return false, true
	}
	_, ok = s.key()
	return true, ok
}

func (s *scanner) openArray() (opened, ok bool) {
	if !s.push(0) {
		return false, false
	}
	if s.space() == ']' {
		s.pos++
		s.depth--
		return false, true
	}
	return true, true
}

// push enters a container; object is 1 for an object, 0 for an array.
func (s *scanner) push(object uint64) bool {
	if s.depth == maxDepth {
		return s.fail(s.pos, "nested deeper than 10000 levels")
	}
	s.pos++
	s.depth++
	word, bit := s.depth/64, uint(s.depth%64)
	s.objects[word] = s.objects[word]&^(1<<bit) | object<<bit
	return true
}

func (s *scanner) inObject() bool {
	return s.objects[s.depth/64]>>uint(s.depth%64)&1 == 1
}

// proceed reads what follows a value: closing brackets down to depth base, or a
// comma, and in an object the next key, after which more values are due.
func (s *scanner) proceed(base int) (more, ok bool) {
	for s.depth > base {
		object := s.inObject()
		switch c := s.space(); {
		case c == ',' && object:
			s.pos++
			_, ok = s.key()
			return true, ok
		case c == ',':
			s.pos++
			return true, true
		case c == '}' && object, c == ']' && !object:
			s.pos++
			s.depth--
		case object:
			return false, s.fail(s.pos, "expected a comma or the end of the object")
		default:
			return false, s.fail(s.pos, "expected a comma or the end of the array")
		}
	}
	return false, true
}

// key reads a member's name and colon; the span includes the quotes.
func (s *scanner) key() (span, bool) {
	if s.space() != '"' {
		return span{}, s.fail(s.pos, "expected a member name in double quotes")
	}
	start := s.pos
	if !s.str() {
		return span{}, false
	}
	name := span{start, s.pos}
	if s.space() != ':' {
		return span{}, s.fail(s.pos, "expected a colon after the member name")
	}
	s.pos++
	return name, true
}

func (s *scanner) str() bool {
	end := stringEnd(s.raw, s.pos)
	if end < 0 {
		return s.fail(len(s.raw), "")
	}
	s.pos = end
	return true
}

func (s *scanner) literal(word string) bool {
	for i := range len(word) {
		if s.pos+i >= len(s.raw) || s.raw[s.pos+i] != word[i] {
			return s.fail(s.pos+i, "expected a value")
		}
	}
	s.pos += len(word)
	return true
}

// number reads a number as RFC 8259 section 6 spells it.
func (s *scanner) number() bool {
	if s.peek() == '-' {
		s.pos++
	}
	switch {
	case s.peek() == '0': // no further digits: leading zeros are not JSON
		s.pos++
	case !s.digits():
		return false
	}
	if s.peek() == '.' {
		s.pos++
		if !s.digits() {
			return false
		}
	}
	if c := s.peek(); c != 'e' && c != 'E' {
		return true
	}
	s.pos++
	if c := s.peek(); c == '+' || c == '-' {
		s.pos++
	}
	return s.digits()
}

// digits reads one or more decimal digits.
func (s *scanner) digits() bool {
	start := s.pos
	for isDigit(s.peek()) {
		s.pos++
	}
	return s.pos > start || s.fail(s.pos, "expected a digit")
}

// peek is the byte at the scanner's position, 0 at the end of the body: a zero
// byte is nowhere valid outside strings, so the two need no telling apart.
func (s *scanner) peek() byte {
	if s.pos < len(s.raw) {
		return s.raw[s.pos]
	}
	return 0
}

// space skips white space and peeks.
func (s *scanner) space() byte {
	for s.pos < len(s.raw) && isSpace(s.raw[s.pos]) {
		s.pos++
	}
	return s.peek()
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }
