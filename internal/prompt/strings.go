package prompt

import (
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

// special flags quotes, backslashes and control characters. Flipping bit 1 maps
// the quote (0x22) next to the controls (below 0x20) and moves no other byte
// there, so one comparison finds both.
func special(x uint64) uint64 {
	quoteOrControl := (x ^ 0x02*ones) - 0x21*ones
	backslash := (x ^ '\\'*ones) - ones
	return (quoteOrControl | backslash) &^ x & highs
}

// encoded flags backslashes and bytes of multi-byte characters.
func encoded(x uint64) uint64 {
	backslash := (x ^ '\\'*ones) - ones
	return (backslash | x) & highs
}

// firstByte is the index of the lowest flagged byte of a word.
func firstByte(flags uint64) int { return bits.TrailingZeros64(flags) / 8 }

// stringEnd validates a string from i, just after its opening quote, and returns
// the index after the closing one. If reason is not empty the string is invalid
// at end.
func stringEnd(raw []byte, i int) (end int, reason string) {
	for {
		i = plainEnd(raw, i)
		switch {
		case i == len(raw):
			return i, "unexpected end of body"
		case raw[i] == '"':
			return i + 1, ""
		case raw[i] != '\\':
			return i, "control character in a string: escape it"
		}
		bad := false
		if i, bad = escapesEnd(raw, i); bad {
			return i, "invalid escape in a string"
		}
	}
}

// plainEnd is the index of the first quote, backslash or control character at
// or after i, len(raw) if there is none.
func plainEnd(raw []byte, i int) int {
	for ; i+32 <= len(raw); i += 32 {
		block := raw[i : i+32 : i+32]
		a := special(binary.LittleEndian.Uint64(block[0:]))
		b := special(binary.LittleEndian.Uint64(block[8:]))
		c := special(binary.LittleEndian.Uint64(block[16:]))
		d := special(binary.LittleEndian.Uint64(block[24:]))
		switch {
		case a|b|c|d == 0:
			continue
		case a != 0:
			return i + firstByte(a)
		case b != 0:
			return i + 8 + firstByte(b)
		case c != 0:
			return i + 16 + firstByte(c)
		default:
			return i + 24 + firstByte(d)
		}
	}
	for ; i < len(raw); i++ {
		if c := raw[i]; c == '"' || c == '\\' || c < 0x20 {
			return i
		}
	}
	return i
}

// escapesEnd validates the run of adjacent escapes that starts at i, as text in
// CJK scripts often consists of them, and returns the index after it, or that of
// the first byte that is wrong.
func escapesEnd(raw []byte, i int) (end int, bad bool) {
	for i < len(raw) && raw[i] == '\\' {
		if i+1 == len(raw) {
			return i + 1, true
		}
		if c := raw[i+1]; c != 'u' {
			if shortEscapes[c] == 0 {
				return i + 1, true
			}
			i += 2
			continue
		}
		if i+6 > len(raw) || hex4(raw[i+2:i+6]) < 0 {
			return hexEnd(raw, i+2), true
		}
		i += 6
	}
	return i, false
}

// hexEnd is the index of the first byte at or after i that is no hex digit.
func hexEnd(raw []byte, i int) int {
	for i < len(raw) && hexDigits[raw[i]] >= 0 {
		i++
	}
	return i
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

// appendText appends what a valid string (between its quotes) decodes to, at
// most limit characters, and returns how many there were. Characters are Unicode
// code points; an invalid UTF-8 byte and a lone surrogate are each one U+FFFD.
func appendText(dst, s []byte, limit int) ([]byte, int) {
	left := limit
	for len(s) > 0 && left > 0 {
		size, characters := plainRun(s, left)
		if size > 0 {
			dst = append(dst, s[:size]...)
			s, left = s[size:], left-characters
			continue
		}
		r := utf8.RuneError
		size = 1
		if s[0] == '\\' {
			r, size = unescape(s)
		}
		dst = utf8.AppendRune(dst, r)
		s, left = s[size:], left-1
	}
	return dst, limit - left
}

// plainRun measures the start of s, in bytes and in characters, that needs no
// decoding: valid UTF-8 without a backslash, at most limit characters.
func plainRun(s []byte, limit int) (size, characters int) {
	for size < len(s) && characters < limit {
		n := asciiRun(s[size:min(len(s), size+limit-characters)])
		size, characters = size+n, characters+n
		for size < len(s) && characters < limit && s[size] >= utf8.RuneSelf {
			_, n := utf8.DecodeRune(s[size:])
			if n == 1 {
				return size, characters
			}
			size, characters = size+n, characters+1
		}
		if size < len(s) && s[size] == '\\' {
			break
		}
	}
	return size, characters
}

// asciiRun is the number of leading bytes that are ASCII and no backslash.
func asciiRun(s []byte) int {
	i := 0
	for ; i+8 <= len(s); i += 8 {
		if flags := encoded(binary.LittleEndian.Uint64(s[i:])); flags != 0 {
			return i + firstByte(flags)
		}
	}
	for i < len(s) && s[i] < utf8.RuneSelf && s[i] != '\\' {
		i++
	}
	return i
}

// unescape decodes the valid escape at the start of s. A surrogate pair is one
// character of twelve bytes (RFC 8259 section 7).
func unescape(s []byte) (r rune, size int) {
	if s[1] != 'u' {
		return rune(shortEscapes[s[1]]), 2
	}
	r = hex4(s[2:6])
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

// decodedString is the text of a valid string, given with its quotes.
func decodedString(quoted []byte) string {
	text := quoted[1 : len(quoted)-1]
	if n, _ := plainRun(text, len(text)); n == len(text) {
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
