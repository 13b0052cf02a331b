package prompt

import "unicode/utf8"

// Text has a normal form in the canonical prompt, which is JSON's with as few
// escapes as possible: \" \\ \b \f \n \r \t, and nothing else. Every encoder writes
// these alike, so what most bodies hold is in it already and is hashed without
// being copied: decoding source code instead costs ten times as much as hashing it.
// That a line end counts as two bytes brings code, whose tokens are shorter than
// those of prose, nearer to its number of tokens.
//
// Bytes that are not UTF-8 are left alone, because engines refuse them, but for
// those that are tags.

// normalRun is the length of the longest beginning of s, the inside of a string,
// that is in normal form.
func normalRun(s []byte) int {
	for i := 0; i < len(s); {
		i += normalStrides(s[i:])
		for end := min(i+stride, len(s)); i < end; {
			if i+8 <= end && backslashes(load(s, i))|tags(load(s, i)) == 0 {
				i += 8
				continue
			}
			if s[i] >= fieldMessage || s[i] == '\\' && isOddEscape(s, i) {
				return i
			}
			i++
		}
	}
	return len(s)
}

// normalStrides measures the leading strides in which nothing can be out of normal
// form. Every letter of an escape that belongs to it is even, and the others, u and
// the slash, are odd: a backslash before an odd byte is what to look for.
func normalStrides(s []byte) (n int) {
	for ; n+stride < len(s); n += stride {
		a, b, c, d := load(s, n), load(s, n+8), load(s, n+16), load(s, n+24)
		if backslashes(a)|backslashes(b)|backslashes(c)|backslashes(d) != 0 {
			odd := backslashes(a)&(load(s, n+1)<<7) | backslashes(b)&(load(s, n+9)<<7) |
				backslashes(c)&(load(s, n+17)<<7) | backslashes(d)&(load(s, n+25)<<7)
			if odd != 0 {
				return n
			}
		}
		if (a|b|c|d)&highs != 0 && tags(a)|tags(b)|tags(c)|tags(d) != 0 {
			return n
		}
	}
	return n
}

// backslashes flags backslashes, and at times what follows one.
func backslashes(x uint64) uint64 {
	x ^= '\\' * ones
	return (x - ones) &^ x & highs
}

// tags flags the bytes from 0xf8 on, whose five highest bits are set.
func tags(x uint64) uint64 {
	x &= x << 1
	return x & (x << 2) & (x << 3) & highs
}

// isOddEscape reports whether the backslash at i begins an escape that is not in
// normal form; it may itself be what another backslash escapes.
func isOddEscape(s []byte, i int) bool {
	if i+1 == len(s) || s[i+1]&1 == 0 {
		return false
	}
	before := i
	for before > 0 && s[before-1] == '\\' {
		before--
	}
	return (i-before)%2 == 0
}

// normalEscapes maps what is escaped in normal form to the letter of its escape.
var normalEscapes = [128]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}

// appendNormal appends the normal form of what s begins with and normalRun has
// stopped at, about as much as a block holds, and returns what follows it.
func appendNormal(dst, s []byte) (appended, rest []byte) {
	for len(s) > 0 && len(dst) < BlockBytes {
		r, size := utf8.RuneError, 1
		switch {
		case s[0] == '\\' && s[1]&1 == 0:
			return dst, s
		case s[0] == '\\' && s[1] == '/':
			r, size = '/', 2
		case s[0] == '\\':
			r, size = unescape(s)
		case s[0] < fieldMessage:
			return dst, s
		}
		dst, s = appendNormalRune(dst, r), s[size:]
	}
	return dst, s
}

// appendNormalRune appends a character in normal form. Most that are escaped without need are of three bytes (CJK, quotation marks,
// dashes), which utf8 takes twice as long for.
func appendNormalRune(dst []byte, r rune) []byte {
	switch {
	case r >= utf8.RuneSelf<<4 && r < 0x10000:
		return append(dst, 0xe0|byte(r>>12), 0x80|byte(r>>6&0x3f), 0x80|byte(r&0x3f))
	case r < utf8.RuneSelf && normalEscapes[r] != 0:
		return append(dst, '\\', normalEscapes[r])
	default:
		return utf8.AppendRune(dst, r)
	}
}
