package emulator

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// virtual runs f with a server whose time is virtual.
func virtual(t *testing.T, o Options, f func(*testing.T, *Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := New(o)
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go s.Run(ctx)
		f(t, s)
	})
}

// do sends one request with a fixed id to a handler.
func do(s *Server, method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("X-Request-Id", "1")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// serve answers a request whose client may leave.
func serve(s *Server, r *http.Request) {
	defer func() {
		if err := recover(); err != nil && err != http.ErrAbortHandler {
			panic(err)
		}
	}()
	s.ServeHTTP(httptest.NewRecorder(), r)
}

func chatBody(text string, outputs int, extra string) string {
	return fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"max_tokens":%d%s}`, text, outputs, extra)
}

// usageOf reads prompt and cached tokens from a chat answer.
func usageOf(t *testing.T, w *httptest.ResponseRecorder) (prompt, cached int) {
	t.Helper()
	var body struct {
		Usage openAIUsage `json:"usage"`
	}
	if err := unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != http.StatusOK {
		t.Fatalf("answer %d %s: %v", w.Code, w.Body, err)
	}
	return body.Usage.PromptTokens, body.Usage.Details.CachedTokens
}

func TestAnswersTakeTheModelledTime(t *testing.T) {
	for _, scale := range []float64{1, 10} {
		virtual(t, Options{TimeScale: scale, Config: Config{Cost: flat}}, func(t *testing.T, s *Server) {
			start := time.Now()
			w := do(s, "POST", "/v1/completions", fmt.Sprintf(`{"prompt":%q,"max_tokens":1}`, strings.Repeat("x", 4000)))
			if prompt, _ := usageOf(t, w); prompt != 1000 {
				t.Errorf("got %d prompt tokens, want 1000", prompt)
			}
			near(t, "answer", time.Since(start), time.Duration(float64(time.Second)/scale))
		})
	}
}

func TestRepeatedPromptHitsAllButItsEnd(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, s *Server) {
		body := fmt.Sprintf(`{"prompt":%q}`, strings.Repeat("abcd", 160))
		if _, cached := usageOf(t, do(s, "POST", "/v1/completions", body)); cached != 0 {
			t.Errorf("cold: got %d cached tokens", cached)
		}
		if _, cached := usageOf(t, do(s, "POST", "/v1/completions", body)); cached != 144 {
			t.Errorf("ten blocks repeated: got %d cached tokens, want nine blocks, 144", cached)
		}
		salted := strings.Replace(body, "{", `{"cache_salt":"s",`, 1)
		if _, cached := usageOf(t, do(s, "POST", "/v1/completions", salted)); cached != 0 {
			t.Errorf("with a salt: got %d cached tokens, want none", cached)
		}
		if got, want := s.Stats(), (Stats{Requests: 3, PromptTokens: 480, CachedTokens: 144}); got != want {
			t.Errorf("Stats: got %+v, want %+v", got, want)
		}
	})
}

func TestResetEmptiesTheCache(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, s *Server) {
		body := fmt.Sprintf(`{"prompt":%q}`, strings.Repeat("abcd", 160))
		usageOf(t, do(s, "POST", "/v1/completions", body))
		if w := do(s, "POST", "/reset_prefix_cache", ""); w.Code != http.StatusOK || w.Body.Len() != 0 {
			t.Errorf("reset: got %d %q, want an empty 200", w.Code, w.Body)
		}
		if _, cached := usageOf(t, do(s, "POST", "/v1/completions", body)); cached != 0 {
			t.Errorf("got %d cached tokens after a reset, want none", cached)
		}
	})
}

func TestRenderedTokensHitTheChat(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, s *Server) {
		chat := chatBody("Which tokens am I, and why is my length odd? "+strings.Repeat("Tell me. ", 40), 1, "")
		prompt, _ := usageOf(t, do(s, "POST", "/v1/chat/completions", chat))
		var rendered struct {
			TokenIDs []uint32 `json:"token_ids"`
		}
		if err := unmarshal(do(s, "POST", "/v1/chat/completions/render", chat).Body.Bytes(), &rendered); err != nil {
			t.Fatal(err)
		}
		if len(rendered.TokenIDs) != prompt {
			t.Errorf("%d tokens rendered, %d in the prompt", len(rendered.TokenIDs), prompt)
		}
		ids, err := json.Marshal(rendered.TokenIDs)
		if err != nil {
			t.Fatal(err)
		}
		_, cached := usageOf(t, do(s, "POST", "/v1/completions", fmt.Sprintf(`{"prompt":%s}`, ids)))
		if want := (prompt - 1) / 16 * 16; cached != want {
			t.Errorf("got %d cached tokens, want %d of %d", cached, want, prompt)
		}
	})
}

func TestNextTurnHitsTheAnswer(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, s *Server) {
		question := `{"role":"user","content":"What is a prefix cache, and why odd lengths?"}`
		first := do(s, "POST", "/v1/chat/completions", `{"messages":[`+question+`],"max_tokens":100}`)
		prompt, _ := usageOf(t, first)
		var body struct {
			Choices []struct {
				Message struct {
					Content string `json:"content"`
				} `json:"message"`
			} `json:"choices"`
		}
		if err := unmarshal(first.Body.Bytes(), &body); err != nil {
			t.Fatal(err)
		}
		next := fmt.Sprintf(`{"messages":[%s,{"role":"assistant","content":%q},{"role":"user","content":"Go on."}]}`,
			question, body.Choices[0].Message.Content)
		_, cached := usageOf(t, do(s, "POST", "/v1/chat/completions", next))
		if want := (prompt + 99) / 16 * 16; cached != want {
			t.Errorf("got %d cached tokens, want %d: prompt %d and answer in whole blocks", cached, want, prompt)
		}
	})
}

func TestAnswersFollowThePrompt(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, s *Server) {
		a, again := do(s, "POST", "/v1/completions", `{"prompt":"a"}`), do(s, "POST", "/v1/completions", `{"prompt":"a"}`)
		b := do(s, "POST", "/v1/completions", `{"prompt":"b"}`)
		if a.Body.String()[:150] != again.Body.String()[:150] {
			t.Errorf("the same prompt got %s and %s", a.Body, again.Body)
		}
		if a.Body.String()[:150] == b.Body.String()[:150] {
			t.Errorf("two prompts got the same answer %s", a.Body)
		}
	})
}

// wire are exchanges whose answers are pinned in testdata.
var wire = []struct{ name, method, path, body string }{
	{"chat", "POST", "/v1/chat/completions", chatBody("Say hi.", 3, "")},
	{"chat-natural-end", "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"Say hi."}]}`},
	{"chat-choices", "POST", "/v1/chat/completions", chatBody("Say hi.", 2, `,"n":2`)},
	{"chat-stream", "POST", "/v1/chat/completions", chatBody("Say hi.", 3, `,"stream":true`)},
	{"chat-stream-usage", "POST", "/v1/chat/completions", chatBody("Say hi.", 2, `,"stream":true,"stream_options":{"include_usage":true}`)},
	{"chat-render", "POST", "/v1/chat/completions/render", chatBody("Say hi.", 3, "")},
	{"completions", "POST", "/v1/completions", `{"model":"tiny","prompt":"Hello there","max_tokens":2}`},
	{"completions-batch", "POST", "/v1/completions", `{"prompt":["abc","def"],"max_tokens":2}`},
	{"completions-ids", "POST", "/v1/completions", `{"prompt":[1,2,3,4,5],"max_tokens":2}`},
	{"completions-ids-batch", "POST", "/v1/completions", `{"prompt":[[1,2],[3]],"max_tokens":2}`},
	{"completions-stream-usage", "POST", "/v1/completions", `{"prompt":"Hello there","max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`},
	{"embeddings", "POST", "/v1/embeddings", `{"input":["a","b"],"dimensions":2}`},
	{"responses", "POST", "/v1/responses", `{"input":"Say hi.","instructions":"Be brief.","max_output_tokens":2}`},
	{"responses-stream", "POST", "/v1/responses", `{"input":[{"role":"user","content":[{"type":"input_text","text":"Say hi."}]},{"type":"function_call_output","output":"1"}],"max_output_tokens":2,"stream":true}`},
	{"messages", "POST", "/v1/messages", `{"system":"Be brief.","messages":[{"role":"user","content":"Say hi."}],"max_tokens":2}`},
	{"messages-stream", "POST", "/v1/messages", `{"messages":[{"role":"user","content":[{"type":"text","text":"Say hi."}]}],"max_tokens":2,"stream":true}`},
	{"messages-count-tokens", "POST", "/v1/messages/count_tokens", `{"messages":[{"role":"user","content":"Say hi."}]}`},
	{"invocations-chat", "POST", "/invocations", chatBody("Say hi.", 2, "")},
	{"invocations-completions", "POST", "/invocations", `{"prompt":"Say hi.","max_tokens":1}`},
	{"invocations-embeddings", "POST", "/invocations", `{"input":"Say hi."}`},
	{"models", "GET", "/v1/models", ""},
	{"version", "GET", "/version", ""},
	{"health", "GET", "/health", ""},
	{"ping", "POST", "/ping", ""},
	{"error-unknown-model", "POST", "/v1/chat/completions", `{"model":"nope","messages":[{"role":"user","content":"x"}]}`},
	{"error-unknown-model-messages", "POST", "/v1/messages", `{"model":"nope","messages":[{"role":"user","content":"x"}],"max_tokens":1}`},
	{"error-json", "POST", "/v1/chat/completions", `{"model": "tiny", `},
	{"error-empty", "POST", "/v1/chat/completions", ``},
	{"error-no-messages", "POST", "/v1/chat/completions", `{"model":"tiny"}`},
	{"error-render", "POST", "/v1/chat/completions/render", `{"model":"tiny","messages":[]}`},
	{"error-no-max-tokens", "POST", "/v1/messages", `{"messages":[{"role":"user","content":"x"}]}`},
	{"error-no-prompt", "POST", "/invocations", `{"foo":1}`},
	{"error-type", "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":1}]}`},
	{"error-max-tokens-zero", "POST", "/v1/completions", `{"prompt":"x","max_tokens":0}`},
	{"error-max-tokens", "POST", "/v1/completions", `{"prompt":"x","max_tokens":99999}`},
	{"error-prompt-too-long", "POST", "/v1/completions", `{"prompt":"` + strings.Repeat("x", 4100) + `"}`},
	{"error-sum-too-long", "POST", "/v1/completions", `{"prompt":"` + strings.Repeat("x", 4000) + `","max_tokens":100}`},
	{"error-choices", "POST", "/v1/completions", `{"prompt":"x","n":1000}`},
	{"error-path", "GET", "/nope", ""},
	{"error-method", "GET", "/v1/chat/completions", ""},
}

func TestWire(t *testing.T) {
	for _, tt := range wire {
		t.Run(tt.name, func(t *testing.T) {
			virtual(t, Options{Models: []string{"tiny"}, Config: Config{Blocks: 64}}, func(t *testing.T, s *Server) {
				w := do(s, tt.method, tt.path, tt.body)
				got := fmt.Sprintf("%d %s\n%s\n", w.Code, w.Header().Get("Content-Type"), w.Body)
				golden(t, tt.name, got)
			})
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("golden file: %v; run the test with -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs from the golden file:\n%s", name, diff)
	}
}

func TestLenientBodies(t *testing.T) {
	for name, body := range map[string]string{
		"null content":      `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"user","content":"x"}]}`,
		"parts":             `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"x"}},"b"]}]}`,
		"duplicate names":   `{"messages":[],"messages":[{"role":"user","content":"x"}]}`,
		"lone surrogate":    `{"messages":[{"role":"user","content":"\ud800"}]}`,
		"unknown fields":    `{"messages":[{"role":"user","content":"x","zz":1}],"zz":[{}]}`,
		"nulls":             `{"model":null,"messages":[{"role":"user","content":"x"}],"max_tokens":null,"stream":null,"stream_options":null,"n":null,"tools":null}`,
		"surrounding space": "\n\t " + `{"messages":[{"role":"user","content":"x"}]}` + "\r\n",
		"escaped keys":      `{"m\u0065ssages":[{"role":"user","content":"x"}]}`,
		"tools":             `{"tools":[{"type":"function"}],"messages":[{"role":"user","content":"x"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, Options{}, func(t *testing.T, s *Server) {
				usageOf(t, do(s, "POST", "/v1/chat/completions", body))
			})
		})
	}
}

func TestContentType(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, s *Server) {
		for kind, want := range map[string]int{"": 200, "application/json": 200, "application/json; charset=utf-8": 200, "text/plain": 400} {
			r := httptest.NewRequest("POST", "/v1/completions", strings.NewReader(`{"prompt":"x"}`))
			r.Header.Set("Content-Type", kind)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%q: got %d, want %d", kind, w.Code, want)
			}
		}
	})
}

func TestLoadReport(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, s *Server) {
		r := httptest.NewRequest("POST", "/v1/completions", strings.NewReader(`{"prompt":"x"}`))
		r.Header.Set("Endpoint-Load-Metrics-Format", "JSON")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		want := `JSON {"named_metrics": {"num_requests_waiting": 0.0, "kv_cache_usage_perc": 0}}`
		if got := w.Header().Get("Endpoint-Load-Metrics"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestDisconnectAbortsAtOnce(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, s *Server) {
		ctx, cancel := context.WithCancel(t.Context())
		for _, stream := range []string{"", `,"stream":true`} {
			r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(chatBody("x", 1000, stream))).WithContext(ctx)
			go serve(s, r)
		}
		time.Sleep(time.Second)
		if got := s.load(); got.Running != 2 || got.Usage == 0 {
			t.Errorf("before: got %+v, want two running", got)
		}
		cancel()
		synctest.Wait()
		if got := s.load(); got.Running != 0 || got.Usage != 0 {
			t.Errorf("after: got %+v, want none running", got)
		}
	})
}

func TestMetricsPage(t *testing.T) {
	virtual(t, Options{Models: []string{"tiny"}, Config: Config{Blocks: 100, MaxRunning: 1}}, func(t *testing.T, s *Server) {
		body := fmt.Sprintf(`{"prompt":%q,"max_tokens":2}`, strings.Repeat("abcd", 160))
		do(s, "POST", "/v1/completions", body)
		do(s, "POST", "/v1/completions", body)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 3 {
			r := httptest.NewRequest("POST", "/v1/completions", strings.NewReader(`{"prompt":"x","max_tokens":33}`)).WithContext(ctx)
			go serve(s, r)
		}
		time.Sleep(30 * time.Millisecond)
		page := do(s, "GET", "/metrics", "").Body.String()
		for _, want := range []string{
			`vllm:num_requests_running{engine="0",model_name="tiny"} 1`,
			`vllm:num_requests_waiting{engine="0",model_name="tiny"} 2`,
			`vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.03`,
			`vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 321`,
			`vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 144`,
			`vllm:prompt_tokens_total{engine="0",model_name="tiny"} 321`,
			`vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"} 2`,
			`vllm:request_success_total{engine="0",finished_reason="abort",model_name="tiny"} 0`,
			`vllm:time_to_first_token_seconds_count{engine="0",model_name="tiny"} 3`,
			`vllm:time_to_first_token_seconds_bucket{engine="0",model_name="tiny",le="0.02"} 2`,
			`vllm:e2e_request_latency_seconds_count{engine="0",model_name="tiny"} 2`,
			`vllm:cache_config_info{block_size="16",enable_prefix_caching="True",engine="0",kv_cache_size_tokens="1600",num_gpu_blocks="100"} 1`,
		} {
			if !strings.Contains(page, want+"\n") {
				t.Errorf("no line %s", want)
			}
		}
		if t.Failed() {
			t.Log(page)
		}
	})
}

func TestNewRefusesBadOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"time scale": {TimeScale: -1},
		"blocks":     {Config: Config{Blocks: -1}},
		"fault":      {Faults: []Fault{{Kind: "gremlin"}}},
	} {
		if _, err := New(o); err == nil || !strings.HasPrefix(err.Error(), "emulator: ") {
			t.Errorf("%s: got error %v", name, err)
		}
	}
}
