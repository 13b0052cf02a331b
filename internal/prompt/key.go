package prompt

import (
	"encoding/binary"
	"sync"

	"github.com/zeebo/xxh3"
)

// keySeed keeps Warmpath's keys apart from other uses of XXH3. Routers find the
// same replica for a prompt only if they agree on it and on the encoding below:
// changing either moves every prompt of a fleet to another replica, so the
// golden vectors in testdata pin both.
const keySeed = 0x5741524d50415448 // "WARMPATH"

// A window is encoded as a sequence of records, each a tag followed by fields of
// a fixed size or preceded by their length, so that no two different sequences
// have the same encoding (["ab","c"] is not ["a","bc"]). The key is the XXH3 hash
// of the encoding. Tags are part of the key: never renumber them.
const (
	tagHint      = 1 // length, bytes: the routing hint id
	tagRaw       = 2 // length, digest: the window of a native body
	tagText      = 3 // length, bytes: one string of text, decoded, cut at the window's end
	tagToken     = 4 // 8 bytes little-endian: a token id
	tagList      = 5 // nothing: token ids of another list of the batch follow
	tagPart      = 6 // digest: a part that is not text
	tagOdd       = 7 // digest: a value of an unknown form
	tagToolCalls = 8 // digest: the tool calls of a message in a chat without content
)

// maxPooled bounds the buffers that are kept for reuse, in bytes. The widest
// configurable window fits: 65,536 characters, each at worst a record of its own
// of 13 bytes.
const maxPooled = 1 << 20

// window encodes what falls into the first characters of a prompt.
type window struct {
	buf      []byte
	left     int  // characters that still fit
	prompted bool // buf holds more than the hint
}

var windows = sync.Pool{New: func() any { return new(window) }}

// newWindow is an empty window of a number of characters; release gives it back.
func newWindow(characters int, hint string) *window {
	w := windows.Get().(*window)
	w.buf, w.left, w.prompted = w.buf[:0], max(characters, 0), false
	if hint != "" {
		w.buf = append(w.appendTagged(tagHint, uint64(len(hint))), hint...)
	}
	return w
}

func (w *window) release() {
	if cap(w.buf) <= maxPooled {
		windows.Put(w)
	}
}

func (w *window) full() bool { return w.left == 0 }

// addText adds a string's decoded text as far as it fits. Empty text adds
// nothing: a message without words is no part of the prompt.
func (w *window) addText(quoted value) {
	start := len(w.buf)
	buf := w.appendTagged(tagText, 0)
	text := len(buf)
	buf, characters := appendText(buf, quoted[1:len(quoted)-1], w.left)
	if characters == 0 {
		return
	}
	binary.LittleEndian.PutUint64(buf[start+1:], uint64(len(buf)-text))
	w.add(buf, characters)
}

// addDigest adds the hash of a value's bytes; it counts as one character.
func (w *window) addDigest(tag byte, v value) {
	if !w.full() {
		w.add(w.appendTagged(tag, xxh3.HashSeed(v, keySeed)), 1)
	}
}

// addID adds a token id. One that begins inside the window belongs to it.
func (w *window) addID(id int64) {
	w.add(w.appendTagged(tagToken, uint64(id)), min(charactersPerToken, w.left))
}

// mark adds a tag that stands alone and takes no room.
func (w *window) mark(tag byte) { w.add(append(w.buf, tag), 0) }

func (w *window) add(buf []byte, characters int) {
	w.buf, w.prompted = buf, true
	w.left -= characters
}

func (w *window) appendTagged(tag byte, field uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(w.buf, tag), field)
}

func (w *window) key() (key uint64, ok bool) {
	return xxh3.HashSeed(w.buf, keySeed), len(w.buf) > 0
}

// TextKey is PREFIX_AWARE's key on the OpenAI-style APIs: a hash of the first
// prefixLength characters (Unicode code points) of the prompt's text and of the
// hint id. Text that is escaped in another way, or that stands in one text part
// instead of a string, has the same key. Parts that are not text count as one
// character, token ids as four. used is the number of characters that
// went in, at most prefixLength.
//
// ok is false when there is nothing to key: no text, no other part and no hint.
//
// The cost grows with the window and the message it ends in, not with the body.
// Nothing is allocated in steady state. Safe for concurrent use.
func (b *Body) TextKey(prefixLength int, hint string) (key uint64, used int, ok bool) {
	w := newWindow(prefixLength, hint)
	defer w.release()
	room := w.left
	w.addPrompt(b)
	key, ok = w.key()
	return key, room - w.left, ok
}

// BytesKey is PREFIX_AWARE's key on SageMaker's native routes, which do not look
// into the body: a hash of its first prefixLength bytes and of the hint id. used
// is the number of bytes that went in.
//
// ok is false when there is nothing to key: an empty body and no hint.
func BytesKey(raw []byte, prefixLength int, hint string) (key uint64, used int, ok bool) {
	w := newWindow(0, hint)
	defer w.release()
	raw = raw[:min(len(raw), max(prefixLength, 0))]
	if len(raw) > 0 {
		w.buf = w.appendTagged(tagRaw, uint64(len(raw)))
		w.buf = binary.LittleEndian.AppendUint64(w.buf, xxh3.HashSeed(raw, keySeed))
	}
	key, ok = w.key()
	return key, len(raw), ok
}
