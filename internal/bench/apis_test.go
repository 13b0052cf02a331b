package bench

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/emulator"
	"github.com/warmpath/warmpath/internal/workload"
)

// Every API of an engine gives the same figures for the same prompt, streamed or not.
func TestEveryAPI(t *testing.T) {
	text := strings.Repeat("word ", 200)
	chat := `"messages":[{"role":"user","content":"` + text + `"}],"max_tokens":4`
	tests := []struct{ name, path, body string }{
		{"chat", "/v1/chat/completions", `{` + chat + `}`},
		{"chat, streamed", "/v1/chat/completions", `{"stream":true,"stream_options":{"include_usage":true},` + chat + `}`},
		{"completions", "/v1/completions", `{"prompt":"` + text + `","max_tokens":4}`},
		{"completions, streamed", "/v1/completions", `{"stream":true,"stream_options":{"include_usage":true},"prompt":"` + text + `","max_tokens":4}`},
		{"messages", "/v1/messages", `{"model":"m",` + chat + `}`},
		{"messages, streamed", "/v1/messages", `{"model":"m","stream":true,` + chat + `}`},
		{"responses", "/v1/responses", `{"input":"` + text + `","max_output_tokens":4}`},
		{"responses, streamed", "/v1/responses", `{"stream":true,"input":"` + text + `","max_output_tokens":4}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			engine, err := emulator.Listen("127.0.0.1:0", emulator.Options{
				Models: []string{"m"}, TimeScale: 1000, Config: emulator.Config{Cost: emulator.Cost70B, BlockSize: 16, Blocks: 1000},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer engine.Kill()
			r := workload.Request{Path: test.path, Body: []byte(test.body)}
			run := play(t, slices.Values([]workload.Request{r, r}), Options{Target: engine.URL(), Concurrency: 1, Timeout: 10 * time.Second})
			if run.Failed+run.Refused != 0 || run.OutputTokens != 8 || run.TTFT.P50 <= 0 {
				t.Errorf("%v, %d output tokens, TTFT %v", run.Errors, run.OutputTokens, run.TTFT)
			}
			if run.PromptTokens < 500 || run.HitRate == nil || *run.HitRate < 0.45 || *run.HitRate > 0.5 {
				t.Errorf("%d prompt tokens, %d cached; want the second prompt cached", run.PromptTokens, run.CachedTokens)
			}
		})
	}
}
