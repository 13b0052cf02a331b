package prompt

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

func encodeWith(tb testing.TB, plain []byte, open func(io.Writer) (io.WriteCloser, error)) []byte {
	tb.Helper()
	var out bytes.Buffer
	w, err := open(&out)
	if err == nil {
		_, err = w.Write(plain)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func encodeGzip(tb testing.TB, plain []byte) []byte {
	return encodeWith(tb, plain, func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil })
}

func encodeZlib(tb testing.TB, plain []byte) []byte {
	return encodeWith(tb, plain, func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil })
}

func encodeFlate(tb testing.TB, plain []byte) []byte {
	return encodeWith(tb, plain, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, 6) })
}

func encodeZstd(tb testing.TB, plain []byte) []byte {
	return encodeWith(tb, plain, func(w io.Writer) (io.WriteCloser, error) {
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	})
}

// encoders has one encoder for each coding that Decode undoes.
var encoders = map[string]func(testing.TB, []byte) []byte{
	"gzip": encodeGzip, "x-gzip": encodeGzip, "deflate": encodeZlib, "zstd": encodeZstd,
}

func chatOf(n int) []byte {
	return []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", n/5) + `"}]}`)
}

func TestC018_CompressedBodiesReadLikePlainOnes(t *testing.T) {
	for _, size := range []int{2 << 10, 66 << 10} {
		plain := chatOf(size)
		for _, tc := range []struct {
			coding string
			body   []byte
		}{
			{"", plain},
			{"identity", plain},
			{"gzip", encodeGzip(t, plain)},
			{"GZIP", encodeGzip(t, plain)},
			{"x-gzip", encodeGzip(t, plain)},
			{" Deflate ", encodeZlib(t, plain)},
			{"deflate", encodeFlate(t, plain)},
			{"zstd", encodeZstd(t, plain)},
			{"gzip", append(encodeGzip(t, plain[:1000]), encodeGzip(t, plain[1000:])...)},
			{"zstd", append(encodeZstd(t, plain[:1000]), encodeZstd(t, plain[1000:])...)},
			{"gzip, zstd", encodeZstd(t, encodeGzip(t, plain))},
			{"identity,, deflate ,gzip", encodeGzip(t, encodeZlib(t, plain))},
			{"zstd,deflate,gzip", encodeGzip(t, encodeFlate(t, encodeZstd(t, plain)))},
		} {
			t.Run(fmt.Sprintf("%s/%d", tc.coding, size), func(t *testing.T) {
				kept := bytes.Clone(tc.body)
				got, err := Decode([]byte("x"), tc.body, tc.coding, int64(len(plain)))
				if err != nil || string(got) != "x"+string(plain) {
					t.Fatalf("Decode: %d bytes, error %v, want %d and none", len(got), err, len(plain)+1)
				}
				if !bytes.Equal(tc.body, kept) {
					t.Error("the encoded body was changed")
				}
				if _, err := Decode(nil, tc.body, tc.coding, int64(len(plain)-1)); !errors.Is(err, ErrTooLarge) {
					t.Errorf("one byte over the limit: error %v, want ErrTooLarge", err)
				}
			})
		}
	}
}

func TestC018_CorruptBodiesAreSaidToBe(t *testing.T) {
	plain := chatOf(4000)
	for coding, encode := range encoders {
		good := encode(t, plain)
		bad := map[string][]byte{
			"empty": {}, "one byte": good[:1], "half": good[:len(good)/2], "last byte missing": good[:len(good)-1],
			"garbage after it": append(bytes.Clone(good), "garbage in the tail"...), "plain": plain,
		}
		for name, body := range bad {
			if got, err := Decode(nil, body, coding, 1<<20); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s, %s: %d bytes, error %v, want ErrCorrupt", coding, name, len(got), err)
			}
		}
		flipped := bytes.Clone(good)
		flipped[len(flipped)-3] ^= 0x40 // in the checksum
		if _, err := Decode(nil, flipped, coding, 1<<20); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s, wrong checksum: error %v, want ErrCorrupt", coding, err)
		}
		if got, err := Decode(nil, good, coding, 1<<20); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%s after corrupt ones: error %v", coding, err)
		}
	}
	raw := encodeFlate(t, plain)
	for name, body := range map[string][]byte{"cut": raw[:len(raw)-1], "tail": append(bytes.Clone(raw), 0)} {
		if _, err := Decode(nil, body, "deflate", 1<<20); !errors.Is(err, ErrCorrupt) {
			t.Errorf("bare deflate, %s: error %v, want ErrCorrupt", name, err)
		}
	}
}

func TestC018_UnknownCodings(t *testing.T) {
	long := strings.Repeat("z", 1000)
	for header, want := range map[string]string{
		"br": "br", "Gzip, BR": "br", "gzip;q=1": "gzip;q=1", "gzip,gzip,gzip,gzip": "gzip,gzip,gzip,gzip", long: long[:64],
	} {
		_, err := Decode(nil, []byte("x"), header, 100)
		var unsupported *UnsupportedEncodingError
		if !errors.As(err, &unsupported) {
			t.Errorf("%.20s: error %v, want an UnsupportedEncodingError", header, err)
			continue
		}
		if diff := cmp.Diff(want, unsupported.Coding); diff != "" {
			t.Errorf("%.20s: coding (-want +got):\n%s", header, diff)
		}
		if message := err.Error(); !strings.Contains(message, want) || !strings.Contains(message, "gzip, deflate, zstd") {
			t.Errorf("%.20s: message %q must name the coding and those that work", header, message)
		}
	}
}

// Ten megabytes that decode to ten gigabytes stop at the limit, having
// allocated little more than it.
func TestC018_BombStopsAtTheLimit(t *testing.T) {
	const limit = 1 << 20
	zeros := make([]byte, 1<<20+1)
	for coding, bomb := range map[string][]byte{
		"gzip":       bytes.Repeat(encodeGzip(t, zeros), 10_000),
		"zstd":       bytes.Repeat(encodeZstd(t, zeros), 10_000),
		"deflate":    encodeZlib(t, zeros),
		"gzip, gzip": encodeGzip(t, encodeGzip(t, zeros)),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Decode(nil, bomb, coding, limit)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: error %v, want ErrTooLarge", coding, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 16*limit {
			t.Errorf("%s: %d bytes allocated for a limit of %d", coding, got, limit)
		}
	}
}

// A frame may not make the decoder hold a window beyond RFC 9659's.
func TestZstdWindowIsBounded(t *testing.T) {
	wide := encodeWith(t, make([]byte, 20<<20), func(w io.Writer) (io.WriteCloser, error) {
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(2*maxZstdWindow))
	})
	if _, err := Decode(nil, wide, "zstd", 1<<30); !errors.Is(err, ErrCorrupt) {
		t.Errorf("error %v, want ErrCorrupt", err)
	}
}

func BenchmarkDecode(b *testing.B) {
	plain := chatOf(64 << 10)
	for _, coding := range []string{"gzip", "deflate", "zstd"} {
		b.Run(coding, func(b *testing.B) {
			body := encoders[coding](b, plain)
			dst := make([]byte, 0, 2*len(plain))
			b.SetBytes(int64(len(plain)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(dst, body, coding, 1<<20); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
