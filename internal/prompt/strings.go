package prompt

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"unicode/utf8"
)

// Eight bytes are examined at a time in a machine word (SWAR). In each test the
// lowest flagged byte is exact, because a subtraction borrows only out of a byte
// that is itself flagged; bytes above it may be flagged falsely, so only the
// lowest is ever used. See "Bit Twiddling Hacks", S. E. Anderson, "haszero".
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// encoded flags backslashes and bytes of multi-byte characters.
func encoded(x uint64) uint64 {
	backslash := (x ^ '\\'*ones) - ones
	return (backslash | x) & highs
}

// firstByte is the index of the lowest flagged byte of a word.
func firstByte(flags uint64) int { return bits.TrailingZeros64(flags) / 8 }

// load is the eight bytes of b at i as a word, the first in the lowest place.
func load(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i : i+8 : i+8]) }

// stringEnd is the index after the string that starts at i with its opening quote, -1 if it does not end: it looks for the quote
// that an even number of backslashes precedes. What stands between the quotes is the engine's to judge, which reads the same bytes
// and finds the same end: validating escapes and control characters here costs five times as much as finding the end.
func stringEnd(raw []byte, i int) int {
	for i++; ; i++ {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		backslashes := 0
		for raw[i-1-backslashes] == '\\' {
			backslashes++
		}
		if backslashes%2 == 0 {
			return i + 1
		}
	}
}

// hex4 is the value of four hexadecimal digits, negative if one is none.
func hex4(b []byte) int32 {
	_ = b[3]
	return hexDigits[b[0]]<<12 | hexDigits[b[1]]<<8 | hexDigits[b[2]]<<4 | hexDigits[b[3]]
}

var hexDigits = func() (table [256]int32) {
	for c := range table {
		table[c] = -1
	}
	for i, c := range []byte("0123456789abcdef") {
		table[c] = int32(i)
	}
	for i, c := range []byte("ABCDEF") {
		table[c] = int32(10 + i)
	}
	return table
}()

// shortEscapes maps the letter of a two-byte escape to what it stands for.
var shortEscapes = [256]byte{
	'"': '"', '\\': '\\', '/': '/',
	'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// appendText appends what a string (between its quotes) decodes to, at most
// limit characters, and returns how many there were. Characters are Unicode code
// points; an invalid UTF-8 byte, a lone surrogate and the backslash of an escape
// that JSON does not have are each one U+FFFD.
func appendText(dst, s []byte, limit int) ([]byte, int) {
	left := limit
	for len(s) > 0 && left > 0 {
		if n := plainStrides(s, left); n > 0 {
			dst = append(dst, s[:n]...)
			s, left = s[n:], left-n
			continue
		}
		if len(s) < 8 || left < 8 {
			dst, s = appendCharacter(dst, s)
			left--
			continue
		}
		word := load(s, 0)
		plain := 8
		if flags := encoded(word); flags != 0 {
			plain = firstByte(flags)
		}
		// Appending the whole word and cutting it is faster than a copy of plain bytes.
		dst = binary.LittleEndian.AppendUint64(dst, word)
		dst = dst[:len(dst)-8+plain]
		s, left = s[plain:], left-plain
		if size, characters := wideRun(s, left); size > 0 {
			dst = append(dst, s[:size]...)
			s, left = s[size:], left-characters
			continue
		}
		for len(s) > 0 && left > 0 && (s[0] == '\\' || s[0] >= utf8.RuneSelf) {
			dst, s = appendCharacter(dst, s)
			left--
		}
	}
	return dst, limit - left
}

// stride is how many bytes of plain text are told at once.
const stride = 32

// plainStrides measures the leading strides that are ASCII without a backslash, at most limit bytes.
func plainStrides(s []byte, limit int) (n int) {
	for n+stride <= min(len(s), limit) && encoded(load(s, n))|encoded(load(s, n+8))|encoded(load(s, n+16))|encoded(load(s, n+24)) == 0 {
		n += stride
	}
	return n
}

// wideRun measures the leading run of valid multi-byte characters, at most limit.
func wideRun(s []byte, limit int) (size, characters int) {
	for characters < limit {
		n := wideSize(s[size:])
		if n == 0 {
			break
		}
		size, characters = size+n, characters+1
	}
	return size, characters
}

// wideSize is the size of the multi-byte character at the start of s, 0 if there
// is none. Most three-byte characters (CJK) are told without the tables of utf8:
// their lead byte allows any two continuation bytes.
func wideSize(s []byte) int {
	if len(s) == 0 || s[0] < utf8.RuneSelf {
		return 0
	}
	if len(s) >= 3 && s[0] > 0xe0 && s[0] < 0xed && s[1]&s[2]&0xc0 == 0x80 && (s[1]|s[2])&0xc0 == 0x80 {
		return 3
	}
	if _, n := utf8.DecodeRune(s); n > 1 {
		return n
	}
	return 0
}

// appendCharacter appends the first character of s and returns what follows it.
func appendCharacter(dst, s []byte) (appended, rest []byte) {
	switch c := s[0]; {
	case c == '\\' && shortEscapes[s[1]] != 0:
		return append(dst, shortEscapes[s[1]]), s[2:]
	case c == '\\':
		r, size := unescape(s)
		return utf8.AppendRune(dst, r), s[size:]
	case c < utf8.RuneSelf:
		return append(dst, c), s[1:]
	default:
		r, size := utf8.DecodeRune(s)
		return utf8.AppendRune(dst, r), s[size:]
	}
}

// unescape decodes the escape at the start of s, which is not of two bytes. A
// surrogate pair is one character of twelve bytes (RFC 8259 section 7).
func unescape(s []byte) (r rune, size int) {
	if s[1] != 'u' || len(s) < 6 {
		return utf8.RuneError, 1
	}
	r = hex4(s[2:6])
	if r < 0 {
		return utf8.RuneError, 1
	}
	if r < 0xd800 || r > 0xdfff {
		return r, 6
	}
	if r < 0xdc00 && len(s) >= 12 && s[6] == '\\' && s[7] == 'u' {
		if low := hex4(s[8:12]); low >= 0xdc00 && low <= 0xdfff {
			return (r-0xd800)<<10 + (low - 0xdc00) + 0x10000, 12
		}
	}
	return utf8.RuneError, 6
}

// asciiRun is the number of leading bytes that are ASCII and no backslash.
func asciiRun(s []byte) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		if flags := encoded(load(s, i)); flags != 0 {
			return i + firstByte(flags)
		}
	}
	for i < len(s) && s[i] < utf8.RuneSelf && s[i] != '\\' {
		i++
	}
	return i
}

// decodedString is the text of a string, given with its quotes.
func decodedString(quoted []byte) string {
	text := quoted[1 : len(quoted)-1]
	if asciiRun(text) == len(text) {
		return string(text)
	}
	decoded, _ := appendText(nil, text, math.MaxInt)
	return string(decoded)
}

// maxName is longer than every name that is looked for, so a longer one can be
// cut there without becoming equal to any.
const maxName = 32

type nameBuffer [maxName * utf8.UTFMax]byte

// memberName is the decoded text of a name, given with its quotes; names with
// escapes are decoded into scratch and cut at maxName characters.
func memberName(quoted []byte, scratch *nameBuffer) []byte {
	text := quoted[1 : len(quoted)-1]
	if asciiRun(text) == len(text) {
		return text
	}
	name, _ := appendText(scratch[:0], text, maxName)
	return name
}
