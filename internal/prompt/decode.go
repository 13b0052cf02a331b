package prompt

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

var (
	// ErrTooLarge reports a body that is larger than the limit once decoded.
	ErrTooLarge = errors.New("request body: larger than the limit when decoded")
	// ErrCorrupt is wrapped by errors about a body that is not what its
	// Content-Encoding says, is cut short, or goes on after its end.
	ErrCorrupt = errors.New("request body: does not decode")
)

// UnsupportedEncodingError reports a Content-Encoding that Decode cannot undo.
type UnsupportedEncodingError struct {
	// Coding is the unknown coding, or the whole header if it names too many,
	// cut to 64 bytes.
	Coding string
}

// Error implements error.
func (e *UnsupportedEncodingError) Error() string {
	return fmt.Sprintf("content encoding: %q is not supported: send gzip, deflate, zstd or identity, at most %d of them", e.Coding, maxCodings)
}

// maxCodings bounds how often a body may be encoded; real clients do it once.
const maxCodings = 3

// maxZstdWindow is the largest window RFC 9659 lets a zstd content coding use,
// in bytes; it bounds what a decoder may keep.
const maxZstdWindow = 8 << 20

// codings open a decoder over an encoded body and give it back when done.
var codings = map[string]func(src *bytes.Reader) (io.Reader, func(), error){
	"gzip":    openGzip,
	"x-gzip":  openGzip, // RFC 9110 section 8.4.1.3
	"deflate": openDeflate,
	"zstd":    openZstd,
}

// Decode undoes contentEncoding, the value of a request's Content-Encoding
// header, appends the plain body to dst and returns the extended slice. Codings
// are matched without regard to case and undone from the last to the first.
//
// limit is the largest decoded size in bytes, of each coding on the way; no more
// than that is ever decoded. Errors: ErrTooLarge; *UnsupportedEncodingError; else
// one that wraps ErrCorrupt. On error the result is nil.
func Decode(dst, body []byte, contentEncoding string, limit int64) ([]byte, error) {
	names, err := parseCodings(contentEncoding)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		if int64(len(body)) > limit {
			return nil, ErrTooLarge
		}
		return append(dst, body...), nil
	}
	for _, name := range names[:len(names)-1] {
		if body, err = undo(nil, body, name, limit); err != nil {
			return nil, err
		}
	}
	return undo(dst, body, names[len(names)-1], limit)
}

// parseCodings lists the codings to undo, first to last, without identity.
func parseCodings(header string) ([]string, error) {
	var names []string
	for item := range strings.SplitSeq(header, ",") {
		name := strings.ToLower(strings.Trim(item, " \t"))
		if name == "" || name == "identity" {
			continue
		}
		if codings[name] == nil {
			return nil, unsupported(name)
		}
		if names = append(names, name); len(names) > maxCodings {
			return nil, unsupported(header)
		}
	}
	slices.Reverse(names)
	return names, nil
}

func unsupported(coding string) error {
	return &UnsupportedEncodingError{Coding: coding[:min(len(coding), 64)]}
}

// undo appends what one coding decodes to. The whole of body must belong to it.
func undo(dst, body []byte, name string, limit int64) ([]byte, error) {
	src := bytes.NewReader(body)
	defer src.Reset(nil) // pooled decoders must not keep the body alive
	r, done, err := codings[name](src)
	if err != nil {
		return nil, corrupt(name, err)
	}
	defer done()
	dst, err = appendAll(dst, r, limit)
	switch {
	case errors.Is(err, ErrTooLarge):
		return nil, err
	case err != nil:
		return nil, corrupt(name, err)
	case src.Len() > 0:
		return nil, corrupt(name, errors.New("data after its end"))
	}
	return dst, nil
}

func corrupt(name string, cause error) error {
	if errors.Is(cause, io.EOF) || errors.Is(cause, io.ErrUnexpectedEOF) {
		cause = errors.New("cut short")
	}
	return fmt.Errorf("%w as %s: %w", ErrCorrupt, name, cause)
}

// appendAll appends what r yields, growing dst as data arrives, because a size
// that the body itself declares cannot be trusted.
func appendAll(dst []byte, r io.Reader, limit int64) ([]byte, error) {
	start := len(dst)
	for {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, 4096)
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if int64(len(dst)-start) > limit {
			return nil, ErrTooLarge
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

var gzipReaders, zlibReaders, flateReaders, zstdDecoders sync.Pool

// openGzip reads all members of a gzip body (RFC 1952 section 2.2).
func openGzip(src *bytes.Reader) (io.Reader, func(), error) {
	r, _ := gzipReaders.Get().(*gzip.Reader)
	if r == nil {
		r = new(gzip.Reader)
	}
	if err := r.Reset(src); err != nil {
		return nil, nil, err
	}
	return r, func() { gzipReaders.Put(r) }, nil
}

// openDeflate reads the zlib format that "deflate" means (RFC 9110 section
// 8.4.1.2) and the bare deflate data that some clients send instead.
func openDeflate(src *bytes.Reader) (io.Reader, func(), error) {
	if hasZlibHeader(src) {
		return openZlib(src)
	}
	r, _ := flateReaders.Get().(io.ReadCloser)
	if r == nil {
		r = flate.NewReader(src)
	} else if err := r.(flate.Resetter).Reset(src, nil); err != nil {
		return nil, nil, err
	}
	return r, func() { flateReaders.Put(r) }, nil
}

// hasZlibHeader tests for RFC 1950 section 2.2. No encoder writes bare deflate
// data that passes: it would begin with a stored block whose padding is not zero.
func hasZlibHeader(src *bytes.Reader) bool {
	var header [2]byte
	if n, _ := src.ReadAt(header[:], 0); n < len(header) {
		return false
	}
	const methodDeflate = 8
	return header[0]&0x0f == methodDeflate && (uint(header[0])<<8|uint(header[1]))%31 == 0
}

func openZlib(src *bytes.Reader) (io.Reader, func(), error) {
	r, _ := zlibReaders.Get().(io.ReadCloser)
	var err error
	if r == nil {
		r, err = zlib.NewReader(src)
	} else {
		err = r.(zlib.Resetter).Reset(src, nil)
	}
	if err != nil {
		return nil, nil, err
	}
	return r, func() { zlibReaders.Put(r) }, nil
}

func openZstd(src *bytes.Reader) (io.Reader, func(), error) {
	if src.Len() == 0 { // no frame at all is not a zstd body (RFC 8878 section 3.1)
		return nil, nil, io.ErrUnexpectedEOF
	}
	d, _ := zstdDecoders.Get().(*zstd.Decoder)
	if d == nil {
		var err error
		d, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, nil, err
		}
	}
	if err := d.Reset(src); err != nil {
		return nil, nil, err
	}
	return d, func() { zstdDecoders.Put(d) }, nil
}
