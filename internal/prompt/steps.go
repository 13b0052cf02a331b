package prompt

import (
	"encoding/binary"
	"iter"
	"unicode/utf8"
)

// tagBytes stands before the length and the bytes of a native body's beginning. It is never hashed into a key, which has the
// body's digest instead.
const tagBytes = 9

// continued is added to the tag of a text that began in an earlier step: ["ab","c"] cut after two characters is not ["abc"].
const continued = 0x80

// AppendText appends to dst an encoding of what TextKey hashes: the first characters of the prompt's text and the hint id. It is
// the input of Steps, and as confidential as the prompt.
func (b *Body) AppendText(dst []byte, characters int, hint string) []byte {
	w := newWindow(characters, hint)
	defer w.release()
	w.addPrompt(b)
	return append(dst, w.buf...)
}

// AppendBytes does for a native body what AppendText does for a prompt: it appends an encoding of its first n bytes and of the
// hint id, for Steps.
func AppendBytes(dst, raw []byte, n int, hint string) []byte {
	w := newWindow(0, hint)
	defer w.release()
	raw = raw[:min(len(raw), max(n, 0))]
	if len(raw) > 0 {
		w.buf = append(w.appendTagged(tagBytes, uint64(len(raw))), raw...)
	}
	return append(dst, w.buf...)
}

// Steps cuts what AppendText or AppendBytes has made after every size characters (bytes of a native body), the last step being
// what remains, and yields the characters of each step and its own encoding. Two prompts agree in their first n steps exactly if
// they have the same key with a prefix length of n*size. size is 4 or more. A yielded slice is valid until the next one.
func Steps(encoded []byte, size int) iter.Seq2[int, []byte] {
	return func(yield func(characters int, step []byte) bool) {
		c := cutter{size: size, yield: yield}
		for len(encoded) > 0 && !c.stopped {
			encoded = c.record(encoded)
		}
		if len(c.step) > 0 && !c.stopped {
			yield(c.filled, c.step)
		}
	}
}

// cutter gathers the encoding of one step after the other.
type cutter struct {
	size    int
	filled  int // characters in step
	step    []byte
	yield   func(int, []byte) bool
	stopped bool
}

// record takes the record that encoded begins with and gives what follows it.
func (c *cutter) record(encoded []byte) (rest []byte) {
	const head = 9 // a tag and a number
	tag := encoded[0]
	if tag == tagList {
		c.step = append(c.step, tag)
		return encoded[1:]
	}
	if tag == tagHint || tag == tagText || tag == tagBytes {
		end := head + int(binary.LittleEndian.Uint64(encoded[1:]))
		if tag == tagHint {
			c.step = append(c.step, encoded[:end]...)
		} else {
			c.text(tag, encoded[head:end])
		}
		return encoded[end:]
	}
	c.step = append(c.step, encoded[:head]...)
	if tag == tagToken {
		c.advance(charactersPerToken)
	} else {
		c.advance(1)
	}
	return encoded[head:]
}

// text adds a text piece by piece, as the steps have room.
func (c *cutter) text(tag byte, text []byte) {
	for len(text) > 0 && !c.stopped {
		size, characters := measure(tag, text, c.size-c.filled)
		c.step = binary.LittleEndian.AppendUint64(append(c.step, tag), uint64(size))
		c.step = append(c.step, text[:size]...)
		c.advance(characters)
		text, tag = text[size:], tag|continued
	}
}

// measure gives the size in bytes of the first characters of a text, at most limit of them, and their number.
func measure(tag byte, text []byte, limit int) (size, characters int) {
	if tag&^continued == tagBytes {
		n := min(len(text), limit)
		return n, n
	}
	for size < len(text) && characters < limit {
		_, n := utf8.DecodeRune(text[size:])
		size, characters = size+n, characters+1
	}
	return size, characters
}

// advance counts characters, and hands the step on once it is full. A token id that begins in a step belongs to it whole.
func (c *cutter) advance(characters int) {
	if c.filled += characters; c.filled < c.size {
		return
	}
	c.stopped = !c.yield(c.size, c.step)
	c.step, c.filled = c.step[:0], c.filled-c.size
}
