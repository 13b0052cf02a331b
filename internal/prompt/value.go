package prompt

import "iter"

// A value is the bytes of one JSON value that Scan has already validated,
// without white space around it; nil is an absent one. Because it is valid,
// walking it needs no checks and strings are skipped at memory speed.
type value []byte

func (v value) isNull() bool   { return len(v) == 0 || v[0] == 'n' }
func (v value) isString() bool { return len(v) > 0 && v[0] == '"' }
func (v value) isArray() bool  { return len(v) > 0 && v[0] == '[' }
func (v value) isObject() bool { return len(v) > 0 && v[0] == '{' }

// isEmpty reports whether an array has no elements.
func (v value) isEmpty() bool { return v[next(v, 1)] == ']' }

// is reports whether v is a string that decodes to text.
func (v value) is(text string) bool {
	if !v.isString() {
		return false
	}
	var scratch nameBuffer
	return string(memberName(v, &scratch)) == text
}

// member is the value of the last member of an object that has this name.
func (v value) member(name string) (found value) {
	for key, val := range v.members() {
		if key.is(name) {
			found = val
		}
	}
	return found
}

// members yields the names and values of an object in order.
func (v value) members() iter.Seq2[value, value] {
	return func(yield func(key, val value) bool) { v.object(0, yield) }
}

// object visits the members of the object that starts at i and returns the index after it, 0 if yield ended the visit.
func (v value) object(i int, yield func(key, val value) bool) (end int) {
	for i = next(v, i+1); v[i] != '}'; {
		key := v[i:stringEnd(v, i)]
		i = next(v, i+len(key)) // the colon
		i = next(v, i+1)
		val := v[i:skip(v, i)]
		if !yield(key, val) {
			return 0
		}
		i = nextItem(v, i+len(val))
	}
	return i + 1
}

// elements yields the values of an array in order.
func (v value) elements() iter.Seq[value] {
	return func(yield func(val value) bool) {
		for i := next(v, 1); v[i] != ']'; {
			val := v[i:skip(v, i)]
			if !yield(val) {
				return
			}
			i = nextItem(v, i+len(val))
		}
	}
}

// next is the index of the first byte at or after i that is no white space.
func next(v value, i int) int {
	for isSpace(v[i]) {
		i++
	}
	return i
}

// nextItem moves from the end of an item past a comma, if there is one.
func nextItem(v value, i int) int {
	if i = next(v, i); v[i] == ',' {
		i = next(v, i+1)
	}
	return i
}

// skip is the index after the value that starts at i.
func skip(v value, i int) int {
	switch v[i] {
	case '"':
		return stringEnd(v, i)
	case '{', '[':
		return skipContainer(v, i)
	}
	for i < len(v) && !isSpace(v[i]) && v[i] != ',' && v[i] != ']' && v[i] != '}' {
		i++
	}
	return i
}

// skipContainer counts brackets only: that they match is known.
func skipContainer(v value, i int) int {
	for depth := 0; ; {
		switch v[i] {
		case '"':
			i = stringEnd(v, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		i++
		if depth == 0 {
			return i
		}
	}
}
