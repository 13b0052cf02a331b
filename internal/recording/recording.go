// Package recording writes down of live traffic what a tuner needs, times, sizes and hashes that reveal no prompt, and reads it back.
package recording

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"time"

	"github.com/warmpath/warmpath/internal/prompt"
)

const (
	// Step is how many characters of a prompt each link of a chain adds.
	Step = 256
	// MaxCharacters is how much of a prompt a chain covers: the longest prefix window there is.
	MaxCharacters = 64 << 10
)

// Header is the first line of a recording.
type Header struct {
	Version  int       `json:"warmpath_recording"` // 1
	Endpoint string    `json:"endpoint"`
	Started  time.Time `json:"started"`
	Step     int       `json:"step"`   // characters that each link of a chain adds, 1 or more
	Sample   float64   `json:"sample"` // share of the requests that is recorded, 0 to 1
}

// Row is every further line: one request. There is no text in it, nor anything that a text could be found by.
type Row struct {
	At           float64 `json:"at_ms"`         // arrival, from Header.Started; below 0 if it was before that
	BytesIn      int64   `json:"bytes_in"`      // of the request's body
	BytesOut     int64   `json:"bytes_out"`     // of the answer's
	PromptTokens int64   `json:"prompt_tokens"` // as the engine reported; 0 = it did not
	CachedTokens int64   `json:"cached_tokens"` // the same
	OutputTokens int64   `json:"output_tokens"` // the same, or the chunks of its stream; 0 = neither is known
	Characters   int     `json:"characters"`    // of the prompt, as far as the chain covers it: MaxCharacters at most
	Chain        []byte  `json:"chain"`         // 8 bytes a link, little-endian
}

// Links gives the numbers in Chain, the last one perhaps of less than a whole step. Two requests of one file share a prefix exactly
// as far as their links agree.
func (r *Row) Links() []uint64 {
	links := make([]uint64, 0, len(r.Chain)/8)
	for at := 0; at+8 <= len(r.Chain); at += 8 {
		links = append(links, binary.LittleEndian.Uint64(r.Chain[at:]))
	}
	return links
}

// chainer makes the chains of one file. Its key is random and never written, so that a guessed prompt cannot be tried against the
// file, nor one file be compared with another.
type chainer struct {
	mac  hash.Hash
	last [sha256.Size]byte
}

func newChainer(key []byte) *chainer { return &chainer{mac: hmac.New(sha256.New, key)} }

// chain hashes an encoded prompt (prompt.AppendText, prompt.AppendBytes) step by step, each on the one before.
func (c *chainer) chain(dst, encoded []byte) (chain []byte, characters int) {
	c.last = [sha256.Size]byte{}
	for n, step := range prompt.Steps(encoded, Step) {
		if n == 0 { // a hint id alone
			continue
		}
		c.mac.Reset()
		_, _ = c.mac.Write(c.last[:]) // a hash never fails
		_, _ = c.mac.Write(step)
		c.mac.Sum(c.last[:0])
		dst = append(dst, c.last[:8]...)
		characters += n
	}
	return dst, characters
}
