package eventstream

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	aws "github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/google/go-cmp/cmp"
)

// Frames as AWS's encoder writes them.
const (
	partVector      = "0000007300000059c9e7ac260b3a6576656e742d7479706507000b5061796c6f6164506172740d3a636f6e74656e742d747970650700186170706c69636174696f6e2f6f637465742d73747265616d0d3a6d6573736167652d747970650700056576656e74646174613a207b7d0a0ac35f3796"
	exceptionVector = "000000980000005e0887cf4b0f3a657863657074696f6e2d747970650700104d6f64656c53747265616d4572726f720d3a636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e0d3a6d6573736167652d74797065070009657863657074696f6e7b224572726f72436f6465223a2253747265616d42726f6b656e222c224d657373616765223a2278227d58c10c51"
)

func TestVectors(t *testing.T) {
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"data":             {AppendPart(nil, []byte("data: {}\n\n")), partVector},
		"ModelStreamError": {AppendException(nil, ModelStreamError, StreamBroken, "x"), exceptionVector},
		"appended":         {AppendPart([]byte{0xab, 0xcd}, []byte("data: {}\n\n")), "abcd" + partVector},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}

// frame is what AWS's decoder makes of a frame.
type frame struct {
	Headers map[string]string
	Payload string
}

func decode(t *testing.T, stream []byte) (frames []frame) {
	t.Helper()
	in, d := bytes.NewReader(stream), aws.NewDecoder()
	for {
		m, err := d.Decode(in, nil)
		if errors.Is(err, io.EOF) {
			return frames
		}
		if err != nil {
			t.Fatalf("frame %d: %v", len(frames), err)
		}
		f := frame{Headers: map[string]string{}, Payload: string(m.Payload)}
		for _, h := range m.Headers {
			f.Headers[h.Name] = h.Value.String()
		}
		frames = append(frames, f)
	}
}

func partFrame(payload string) frame {
	return frame{map[string]string{":message-type": "event", ":event-type": "PayloadPart", ":content-type": "application/octet-stream"}, payload}
}

func exceptionFrame(kind, payload string) frame {
	return frame{map[string]string{":message-type": "exception", ":exception-type": kind, ":content-type": "application/json"}, payload}
}

func TestStreamAsTheSDKReadsIt(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	stream := AppendPart(nil, []byte("data: 1\n\n"))
	stream = AppendPart(stream, nil)
	stream = AppendPart(stream, []byte(long))
	stream = AppendException(stream, ModelStreamError, ModelInvocationTimeExceeded, "too \"slow\"\n")
	stream = AppendException(stream, InternalStreamFailure, "", "ours\xff")
	want := []frame{
		partFrame("data: 1\n\n"), partFrame(""), partFrame(long),
		exceptionFrame("ModelStreamError", `{"ErrorCode":"ModelInvocationTimeExceeded","Message":"too \"slow\"\n"}`),
		exceptionFrame("InternalStreamFailure", "{\"Message\":\"ours\ufffd\"}"),
	}
	if diff := cmp.Diff(want, decode(t, stream)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzPart(f *testing.F) {
	f.Add([]byte("data: {}\n\n"), []byte{})
	f.Add([]byte{}, []byte("\x00\xff"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		got := decode(t, AppendPart(AppendPart(nil, first), second))
		if diff := cmp.Diff([]frame{partFrame(string(first)), partFrame(string(second))}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func FuzzException(f *testing.F) {
	f.Add("StreamBroken", "x")
	f.Add("", "quo\"te\xff\u2028")
	f.Fuzz(func(t *testing.T, code, message string) {
		got := decode(t, AppendException(nil, ModelStreamError, ErrorCode(code), message))
		if len(got) != 1 {
			t.Fatalf("%d frames", len(got))
		}
		var payload struct{ ErrorCode, Message string }
		if err := json.Unmarshal([]byte(got[0].Payload), &payload); err != nil {
			t.Fatalf("%v: %s", err, got[0].Payload)
		}
		if want := valid(message); payload.Message != want || payload.ErrorCode != valid(code) {
			t.Errorf("got %+v, want %q", payload, want)
		}
	})
}

// valid is text with what encoding/json puts for bytes that are not UTF-8.
func valid(text string) string { return string([]rune(text)) }

func TestPartAllocatesNothing(t *testing.T) {
	payload, buf := bytes.Repeat([]byte("x"), 300), make([]byte, 0, 1<<10)
	if n := testing.AllocsPerRun(100, func() { buf = AppendPart(buf[:0], payload) }); n != 0 {
		t.Errorf("%v allocations a part", n)
	}
}

// BenchmarkPart frames what engines send for a token, here and with AWS's encoder.
func BenchmarkPart(b *testing.B) {
	payload := bytes.Repeat([]byte("x"), 300)
	b.Run("warmpath", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf = AppendPart(buf[:0], payload)
		}
	})
	b.Run("aws", func(b *testing.B) {
		b.ReportAllocs()
		var buf bytes.Buffer
		e := aws.NewEncoder()
		for b.Loop() {
			buf.Reset()
			m := aws.Message{Payload: payload}
			m.Headers.Set(":event-type", aws.StringValue("PayloadPart"))
			m.Headers.Set(":content-type", aws.StringValue("application/octet-stream"))
			m.Headers.Set(":message-type", aws.StringValue("event"))
			if err := e.Encode(&buf, m); err != nil {
				b.Fatal(err)
			}
		}
	})
}
