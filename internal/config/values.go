package config

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time, written with a unit: 250ms, 10s, 1h30m. Never negative.
type Duration time.Duration

// UnmarshalText reads a duration. Errors do not repeat the text.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return errors.New("is not a duration; write a number and a unit, such as 500ms, 10s or 5m")
	}
	if parsed < 0 {
		return errors.New("is negative; write a duration of 0s or more")
	}
	*d = Duration(parsed)
	return nil
}

// MarshalText writes the duration as String does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String writes the duration in the fewest units: 10m rather than 10m0s.
func (d Duration) String() string {
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Bytes is a size in bytes, written as a plain integer or with a unit: 64KiB and MiB are powers of 1024, kB and MB powers
// of 1000. Never negative.
type Bytes int64

// units are in the order in which String tries them.
var units = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// UnmarshalText reads a size; units are not case-sensitive. Errors do not repeat the text.
func (b *Bytes) UnmarshalText(text []byte) error {
	number, unit := strings.TrimSpace(string(text)), int64(1)
	for _, u := range units {
		if head := len(number) - len(u.name); head > 0 && strings.EqualFold(number[head:], u.name) {
			number, unit = strings.TrimSpace(number[:head]), u.bytes
			break
		}
	}
	size, err := strconv.ParseUint(number, 10, 63)
	if err != nil {
		return errors.New("is not a size; write bytes or a unit, such as 1048576, 64KiB, 64MiB or 1GB")
	}
	if size > uint64(math.MaxInt64/unit) {
		return errors.New("is too large; write at most 8388607TiB")
	}
	*b = Bytes(int64(size) * unit)
	return nil
}

// MarshalText writes the size as String does.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// String writes the size with the largest unit that divides it.
func (b Bytes) String() string {
	for _, u := range units {
		if b != 0 && int64(b)%u.bytes == 0 && u.bytes > 1 {
			return strconv.FormatInt(int64(b)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}

// redacted is what a secret prints as.
const redacted = "[redacted]"

// Secret is a value that no log, error or dump shows: every way of printing it writes [redacted]. The pointer keeps it
// out of sight even where fmt cannot call methods, in unexported fields of other structs.
type Secret struct{ value *string }

// NewSecret hides value. An empty value is no secret at all.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{&value}
}

// Reveal returns the hidden value, "" where there is none.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// Equal compares in constant time.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// UnmarshalText hides text. Text that could not stand in a header is an error, which does not repeat it.
func (s *Secret) UnmarshalText(text []byte) error {
	for _, c := range text {
		if c < ' ' || c == 0x7f {
			return errors.New("holds a line break or control character; a key is one line of printable characters")
		}
	}
	*s = NewSecret(string(text))
	return nil
}

// String returns [redacted], or "" where there is no secret.
func (s Secret) String() string {
	if s.value == nil {
		return ""
	}
	return redacted
}

// Format writes String for every verb and flag.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText writes String, in JSON and YAML too.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue logs String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
