package prompt

import (
	"fmt"
	"strings"
	"testing"
)

// benchmarkChat is a chat of so many messages whose text is the given one, repeated up to about size bytes in all.
func benchmarkChat(messages int, text string, size int) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"llama-3.1-70b","stream":true,"messages":[`)
	for i := range messages {
		if i > 0 {
			b.WriteString(`,`)
		}
		role := [...]string{"user", "assistant"}[i%2]
		fmt.Fprintf(&b, `{"role":%q,"content":"%s"}`, role, strings.Repeat(text, max(1, size/messages/len(text))))
	}
	b.WriteString(`],"max_tokens":256}`)
	return []byte(b.String())
}

// BenchmarkChain scans a body and hashes its whole prompt: what KV_AWARE asks of
// this package for every request.
func BenchmarkChain(b *testing.B) {
	for _, bench := range []struct {
		name     string
		messages int
		text     string
		size     int
	}{
		{"prose/2KB", 1, "prose", 2 << 10},
		{"prose/64KB", 1, "prose", 64 << 10},
		{"prose/200KB", 1, "prose", 200 << 10},
		{"prose/200KB-200messages", 200, "prose", 200 << 10},
		{"code/64KB", 1, "code", 64 << 10},
		{"code/200KB", 1, "code", 200 << 10},
		{"cjk/64KB", 1, "cjk", 64 << 10},
		{"cjk-escapes/64KB", 1, "cjk-escapes", 64 << 10},
	} {
		b.Run(bench.name, func(b *testing.B) {
			raw := benchmarkChat(bench.messages, benchmarkTexts[bench.text], bench.size)
			dst := make([]uint64, 0, len(raw)/BlockBytes)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				body, err := Scan(raw, ShapeChat)
				if err != nil {
					b.Fatal(err)
				}
				dst = body.Chain(dst, body.Model).Blocks
			}
		})
	}
}

// BenchmarkChainTokens hashes a prompt of 20,001 token ids.
func BenchmarkChainTokens(b *testing.B) {
	body, err := Scan([]byte(`{"prompt":[`+strings.Repeat("12345,", 20_000)+`1]}`), ShapeCompletion)
	if err != nil {
		b.Fatal(err)
	}
	var dst []uint64
	b.ReportAllocs()
	for b.Loop() {
		dst = body.Chain(dst, "m").Blocks
	}
}
