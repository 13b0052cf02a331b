package prompt

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// benchmarkTexts are JSON string contents of three densities of escapes: almost
// none, one a line and around every literal, and nothing else.
var benchmarkTexts = map[string]string{
	"prose": `The tide tables of a small harbour are read twice a day, once by those who sail and once by those who wait for them. `,
	"code":  `func add(a, b int) int {\n\tif a == 0 {\n\t\treturn b // \"nothing\"\n\t}\n\treturn a + b\n}\n`,
	"cjk-escapes": `\u6f6e\u6c50\u8868\u6bcf\u5929\u88ab\u9605\u8bfb\u4e24\u6b21\u4e00\u6b21\u7531` +
		`\u51fa\u6d77\u7684\u4eba\u4e00\u6b21\u7531\u7b49\u5f85\u7684\u4eba`,
	"cjk": "潮汐表每天被阅读两次一次由出海的人一次由等待的人",
}

var benchmarkSizes = []struct {
	name  string
	bytes int
}{{"4KB", 4 << 10}, {"64KB", 64 << 10}, {"1MB", 1 << 20}}

// benchmarkBody is a chat of a system prompt, a few turns and sampling options
// whose text is the given one, repeated up to about size bytes.
func benchmarkBody(text string, size int) []byte {
	const turns = 8
	var b strings.Builder
	b.WriteString(`{"model":"llama-3.1-70b","stream":true,"temperature":0.7,"messages":[`)
	for turn := range turns {
		if turn > 0 {
			b.WriteString(`,`)
		}
		role := [...]string{"system", "user", "assistant"}[min(turn, 1+turn%2)]
		fmt.Fprintf(&b, `{"role":%q,"content":"%s"}`, role, strings.Repeat(text, size/turns/len(text)+1))
	}
	b.WriteString(`],"max_tokens":256,"stream_options":{"include_usage":true}}`)
	return []byte(b.String())
}

// eachBody runs a benchmark over every kind of text and size.
func eachBody(b *testing.B, run func(b *testing.B, raw []byte)) {
	for _, kind := range []string{"prose", "code", "cjk-escapes", "cjk"} {
		for _, size := range benchmarkSizes {
			b.Run(kind+"/"+size.name, func(b *testing.B) {
				raw := benchmarkBody(benchmarkTexts[kind], size.bytes)
				b.SetBytes(int64(len(raw)))
				b.ReportAllocs()
				run(b, raw)
			})
		}
	}
}

func BenchmarkScan(b *testing.B) {
	eachBody(b, func(b *testing.B, raw []byte) {
		for b.Loop() {
			if _, err := Scan(raw, ShapeChat); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkScanReference is jsontext's validation of the same bodies, without
// reading anything from them.
func BenchmarkScanReference(b *testing.B) {
	eachBody(b, func(b *testing.B, raw []byte) {
		for b.Loop() {
			if !jsontext.Value(raw).IsValid(lenient...) {
				b.Fatal("not valid")
			}
		}
	})
}

// BenchmarkTextKey keys the narrowest, a usual and the widest window.
func BenchmarkTextKey(b *testing.B) {
	for _, prefixLength := range []int{1024, 4096, 65536} {
		b.Run(fmt.Sprintf("prefix=%d", prefixLength), func(b *testing.B) {
			eachBody(b, func(b *testing.B, raw []byte) {
				body, err := Scan(raw, ShapeChat)
				if err != nil {
					b.Fatal(err)
				}
				_, used, _ := body.TextKey(prefixLength, "")
				b.SetBytes(int64(used))
				for b.Loop() {
					body.TextKey(prefixLength, "")
				}
			})
		})
	}
}

func BenchmarkTextKeyTokens(b *testing.B) {
	raw := []byte(`{"prompt":[` + strings.Repeat("12345,", 20_000) + `1]}`)
	body, err := Scan(raw, ShapeCompletion)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		body.TextKey(4096, "")
	}
}

func BenchmarkBytesKey(b *testing.B) {
	raw := benchmarkBody(benchmarkTexts["prose"], 1<<20)
	for _, prefixLength := range []int{1024, 4096, 65536} {
		b.Run(fmt.Sprintf("prefix=%d", prefixLength), func(b *testing.B) {
			b.SetBytes(int64(prefixLength))
			b.ReportAllocs()
			for b.Loop() {
				BytesKey(raw, prefixLength, "hint")
			}
		})
	}
}
