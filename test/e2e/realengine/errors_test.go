//go:build e2ereal

package realengine

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/test/e2e/lab"
)

const (
	chatPath, completionPath  = "POST /v1/chat/completions", "POST /v1/completions"
	responsePath, messagePath = "POST /v1/responses", "POST /v1/messages"

	key = "secret"
)

// mistake is a request that the engine refuses.
type mistake struct {
	request string // method and path
	body    string
	header  string // "Name: value" in place of, or beside, the usual ones; empty = none
	own     string // the code with which Warmpath refuses it itself; empty = it leaves that to the engine
}

// chatWith is a chat completion with further fields.
func chatWith(fields string) string {
	return `{"messages": [{"role": "user", "content": "Well?"}], "max_tokens": 2, ` + fields + `}`
}

// chatOf is a chat completion of these messages.
func chatOf(messages string) string { return `{"messages": ` + messages + `, "max_tokens": 2}` }

// mistakes are one of each kind that was found to be refused, by API.
func mistakes() (all []mistake) {
	long := strings.Repeat("x", roomyContext+1)
	for _, body := range []string{
		`{}`, `[]`, `7`, chatOf(`"x"`), chatOf(`[1]`), chatOf(`[{"content": "x"}]`), chatOf(`[{"role": "user"}]`), chatOf(`[{"role": "user", "content": 7}]`),
		chatOf(`[{"role": "user", "content": "` + long + `"}]`),
		chatOf(`[{"role": "user", "content": [{"type": "what"}]}]`),
		chatOf(`[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]`),
		chatOf(`[{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]}]`),
		chatWith(`"max_tokens": "x"`), chatWith(`"temperature": "hot"`), chatWith(`"seed": "x"`), chatWith(`"min_keep": "x"`),
		chatWith(`"n_predict": "x"`), chatWith(`"t_max_predict_ms": "x"`), chatWith(`"stream": "x"`), chatWith(`"repeat_last_n": -5`),
		chatWith(`"n": 3`), chatWith(`"n": -1`), chatWith(`"top_logprobs": 2`), chatWith(`"lora": 7`), chatWith(`"dry_sequence_breakers": []`),
		chatWith(`"tools": "x"`), chatWith(`"tools": [{}]`), chatWith(`"tools": [], "tool_choice": "maybe"`),
		chatWith(`"response_format": {"type": "what"}`), chatWith(`"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "what"}}}`),
		chatWith(`"grammar": "((("`), chatWith(`"grammar": "x", "json_schema": {}`), chatWith(`"reasoning_format": "x"`),
		chatWith(`"chat_template_kwargs": {"enable_thinking": "x"}`), chatWith("\"x\": \"\xff\xfe\""),
	} {
		all = append(all, mistake{request: chatPath, body: body})
		if strings.HasSuffix(body, "}") && body != "{}" && !strings.Contains(body, `"stream"`) {
			all = append(all, mistake{request: chatPath, body: strings.TrimSuffix(body, "}") + `, "stream": true}`})
		}
	}
	for request, bodies := range map[string][]string{
		completionPath: {`{}`, `{"prompt": 7}`, `{"prompt": []}`, `{"prompt": [-1]}`, `{"prompt": [99999999]}`, `{"prompt": {"a": 1}}`,
			`{"prompt": "` + long + `"}`, `{"prompt": "x", "max_tokens": 2, "logprobs": "x"}`},
		responsePath: {`{}`, `{"input": 7}`, `{"input": [{"type": "what"}]}`, `{"input": "x", "previous_response_id": "x"}`, `{"input": "` + long + `"}`},
		messagePath:  {`{}`, chatOf(`[{"role": "user", "content": "` + long + `"}]`)},

		"POST /v1/messages/count_tokens": {`{}`}, "POST /v1/chat/completions/input_tokens": {`{}`}, "POST /v1/responses/input_tokens": {`{}`},
		"POST /v1/chat/completions/control": {`{}`},
		"POST /v1/embeddings":               {`{"input": "x"}`, `{}`}, "POST /v1/rerank": {`{"query": "x", "documents": ["x"]}`},
		"POST /v1/reranking": {`{"query": "x", "documents": ["x"]}`}, "POST /v1/audio/transcriptions": {`{}`},
		"POST /v1/audio/speech": {`{"input": "x"}`}, "POST /v1/images/generations": {`{"prompt": "x"}`}, "POST /v1/what": {`{}`, ``, `no JSON`},
	} {
		for _, body := range bodies {
			all = append(all, mistake{request: request, body: body})
		}
	}
	for _, request := range []string{
		"GET /v1/what", "GET /v1/files", "GET /v1/", "GET /v1/responses/x", "DELETE /v1/responses/x", "POST /v1/models", "GET /v1/stream", "DELETE /v1/stream",
		"GET /v1/chat/completions", "PUT /v1/chat/completions", "PATCH /v1/chat/completions", "DELETE /v1/chat/completions", "HEAD /v1/chat/completions",
		"WHAT /v1/chat/completions", "GET /v1/" + strings.Repeat("x", 9000),
	} {
		all = append(all, mistake{request: request})
	}
	fine := chatWith(`"temperature": 0`)
	return append(all,
		mistake{request: chatPath, body: fine, header: "Authorization: Bearer wrong"},
		mistake{request: chatPath, body: fine, header: "Authorization: "},
		mistake{request: messagePath, body: fine, header: "Authorization: "},
		mistake{request: "GET /v1/what", header: "Authorization: "},
		mistake{request: chatPath, body: gzipped(fine), header: "Content-Encoding: gzip"},
		mistake{request: chatPath, body: fine, header: "X-Long: " + strings.Repeat("x", 9000)},
		mistake{request: "POST /v1/audio/transcriptions", header: "Content-Type: multipart/form-data; boundary=b",
			body: "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nx\r\n--b--\r\n"},

		mistake{request: chatPath, body: `{"messages":`, own: "invalid_json"},
		mistake{request: chatPath, body: ``, own: "invalid_json"},
		mistake{request: completionPath, body: `{"prompt": "x"} x`, own: "invalid_json"},
		mistake{request: responsePath, body: `no JSON`, own: "invalid_json"},
		mistake{request: messagePath, body: `{'messages': []}`, own: "invalid_json"},
		mistake{request: "POST /v1/embeddings", body: `{`, own: "invalid_json"},
		mistake{request: chatPath, body: fine, header: "Content-Encoding: gzip", own: "undecodable_body"},
		mistake{request: chatPath, body: fine, header: "Content-Encoding: br", own: "unsupported_content_encoding"},
		mistake{request: "GET /v1/models/none", own: "model_not_found"},
		mistake{request: "GET /what", own: "unknown_path"},
		mistake{request: "POST /completion", body: `{}`, own: "unknown_path"},
		mistake{request: "GET /v1", own: "unknown_path"},
		mistake{request: "TRACE /v1/chat/completions", own: "method_not_allowed"},
	)
}

func gzipped(text string) string {
	var packed strings.Builder
	w := gzip.NewWriter(&packed)
	_, _ = io.WriteString(w, text) // a Builder takes all
	_ = w.Close()
	return packed.String()
}

// engineErrors makes every mistake at the engine itself and by way of Warmpath: what comes back must be the same, but for those that
// Warmpath refuses by design.
func engineErrors(t *testing.T, l lab.Lab) {
	s := setUp(t, l, "KV_AWARE", "", lab.Settings{Slots: lab.Slots, Context: roomyContext, APIKey: key})
	relayed := map[int]map[string]bool{} // different answers of each status
	var own []string
	for _, m := range mistakes() {
		engine, by := m.make(t, s.engines[0].URL), m.make(t, s.url)
		switch {
		case engine.status < 400:
			t.Errorf("%s: the engine answers %d: this is no mistake", m, engine.status)
		case m.own != by.code:
			t.Errorf("%s: code of Warmpath's own %q, want %q", m, by.code, m.own)
		case m.own != "":
			own = append(own, fmt.Sprintf("%d %s instead of %d: %s", by.status, by.code, engine.status, m))
		case engine.text != by.text:
			t.Errorf("%s:\nthe engine answers  %s\nby way of Warmpath  %s", m, engine.text, by.text)
		default:
			if relayed[engine.status] == nil {
				relayed[engine.status] = map[string]bool{}
			}
			relayed[engine.status][engine.text] = true
		}
	}
	t.Logf("%d mistakes, %d of them refused by the engine in these ways:", len(mistakes()), len(mistakes())-len(own))
	for _, status := range slices.Sorted(maps.Keys(relayed)) {
		t.Logf("%d with %d different answers", status, len(relayed[status]))
	}
	t.Logf("Warmpath's own:\n%s", strings.Join(own, "\n"))
}

func (m mistake) String() string {
	return fmt.Sprintf("%.60s %.100q %.40s", m.request, m.body, m.header)
}

// refusal is what came of a mistake.
type refusal struct {
	status int
	code   string // Warmpath's own
	text   string // status, header and body, but for what may differ
}

// passing are headers that belong to a connection or a moment, or that Warmpath says it adds.
var passing = []string{"Connection", "Date", "Keep-Alive", "X-Request-Id", "X-Warmpath-Code", "X-Warmpath-Decision", "X-Warmpath-Replica"}

func (m mistake) make(t *testing.T, base string) (r refusal) {
	t.Helper()
	method, path, _ := strings.Cut(m.request, " ")
	request, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(m.body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+key)
	if name, value, ok := strings.Cut(m.header, ": "); ok {
		request.Header.Set(name, value)
	}
	response, err := plainly.Do(request)
	if err != nil {
		t.Fatalf("%s: %v", m, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("%s: %v", m, err)
	}
	var text bytes.Buffer
	r.status, r.code = response.StatusCode, response.Header.Get("X-Warmpath-Code")
	fmt.Fprintln(&text, response.Status)
	for _, name := range passing {
		response.Header.Del(name)
	}
	if err := response.Header.Write(&text); err != nil {
		t.Fatal(err)
	}
	r.text = text.String() + string(body)
	return r
}
