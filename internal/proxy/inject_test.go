package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// strip shows a stream to a stripper in reads of one size, and gives what passed.
func strip(s *stripper, stream string, size int) string {
	var out []byte
	for rest := []byte(stream); len(rest) > 0; rest = rest[min(size, len(rest)):] {
		out = append(out, s.next(bytes.Clone(rest[:min(size, len(rest))]), false)...)
	}
	return string(append(out, s.next(nil, true)...))
}

// twins gives two captured streams of an engine, of one request and of the same request asking for usage, with everything that is
// different between any two streams made equal.
func twins(t testing.TB, name string) (plain, usage string) {
	t.Helper()
	varying := regexp.MustCompile(`("id":"\w+-|"created":|_ms":|_second":|cache_n":|"prompt_n":|"cached_tokens":)[\w.]+`)
	var streams [2]string
	for i, kind := range []string{".plain", ".usage"} {
		raw, err := os.ReadFile(filepath.Join("testdata", "streams", name+kind))
		if err != nil {
			t.Fatal(err)
		}
		streams[i] = varying.ReplaceAllString(string(raw), "${1}0")
	}
	return streams[0], streams[1]
}

var twinNames = []string{"vllm-chat", "vllm-completion", "llamacpp-chat", "llamacpp-chat-of-two", "llamacpp-completion"}

// TestStripGivesTheStreamThatWasNotAskedForUsage: for every engine whose streams were captured both ways.
func TestStripGivesTheStreamThatWasNotAskedForUsage(t *testing.T) {
	for _, name := range twinNames {
		plain, usage := twins(t, name)
		for size := 1; size <= len(usage); size += 1 + size/3 {
			if got := strip(&stripper{}, usage, size); got != plain {
				t.Fatalf("%s, %d bytes at a time: got\n%s\nwant\n%s", name, size, got, plain)
			}
			if got := strip(&stripper{}, plain, size); got != plain {
				t.Fatalf("%s, %d bytes at a time: a stream without usage was changed:\n%s", name, size, got)
			}
		}
	}
}

func TestStrip(t *testing.T) {
	const (
		a     = `data: {"id":"c","choices":[{"delta":{"content":"a"}}]}` + "\n\n"
		usage = `data: {"id":"c","choices":[],"usage":{"prompt_tokens":7}}` + "\n\n"
		done  = "data: [DONE]\n\n"
	)
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	for name, c := range map[string]struct{ in, want string }{
		"the usage chunk":            {a + usage + done, a + done},
		"carriage returns":           {crlf(a + usage + done), crlf(a + done)},
		"white space in JSON":        {a + `data: {"choices": [ ], "usage": {"prompt_tokens": 7}}` + "\n\n" + done, a + done},
		"no space after data":        {`data:{"choices":[],"usage":{}}` + "\n\n" + done, done},
		"several":                    {a + usage + a + usage, a + a},
		"only that":                  {usage, ""},
		"null in every chunk":        {`data: {"choices":[{"text":"a"}],"usage":null,"x":1}` + "\n\n" + `data: {"choices":[{"text":"b"}], "usage": null}` + "\n\n", `data: {"choices":[{"text":"a"}],"x":1}` + "\n\n" + `data: {"choices":[{"text":"b"}]}` + "\n\n"},
		"null in the last of one":    {`data: {"choices":[{"finish_reason":"stop"}],"usage":null}` + "\n\n" + usage + done, `data: {"choices":[{"finish_reason":"stop"}]}` + "\n\n" + done},
		"a fingerprint comes back":   {`data: {"choices":[{"finish_reason":"stop"}]}` + "\n\n" + `data: {"choices":[],"usage":{},"system_fingerprint":"f"}` + "\n\n" + done, `data: {"choices":[{"finish_reason":"stop"}],"system_fingerprint":"f"}` + "\n\n" + done},
		"a fingerprint there before": {`data: {"choices":[{"finish_reason":"stop"}],"system_fingerprint":"f"}` + "\n\n" + `data: {"choices":[],"usage":{},"system_fingerprint":"f"}` + "\n\n", `data: {"choices":[{"finish_reason":"stop"}],"system_fingerprint":"f"}` + "\n\n"},
	} {
		for _, size := range []int{1, 2, 3, 7, 50, 1 << 20} {
			if got := strip(&stripper{}, c.in, size); got != c.want {
				t.Errorf("%s, %d bytes at a time: got %q, want %q", name, size, got, c.want)
			}
		}
	}
	nulls := `data: {"choices":[{"text":"a"}],"usage":null}` + "\n\n"
	if got := strip(&stripper{keepNulls: true}, nulls+usage, 9); got != nulls {
		t.Errorf("an engine that writes nulls unasked: got %q", got)
	}
}

// untouched are streams that the stripper has no business with.
var untouched = map[string]string{
	"empty":                       "",
	"usage beside choices":        `data: {"choices":[{"text":"","finish_reason":"length"}],"usage":{"prompt_tokens":7}}` + "\n\n",
	"no choices, no usage":        `data: {"choices":[],"prompt_filter_results":[]}` + "\n\n",
	"an error":                    `data: {"error":{"message":"\"usage\" of memory","code":500},"usage":7}` + "\n\n",
	"a word in a text":            `data: {"choices":[{"text":"\"choices\":[],\"usage\":{}"}]}` + "\n\n",
	"broken JSON":                 `data: {"choices":[],"usage":{}` + "\n\n",
	"data after the JSON":         `data: {"choices":[],"usage":{}} x` + "\n\n",
	"two values":                  `data: {"choices":[],"usage":{}}{}` + "\n\n",
	"an array":                    `data: [{"choices":[],"usage":{}}]` + "\n\n",
	"an event of two lines":       `data: {"choices":[],"usage":{}}` + "\ndata: x\n\n",
	"an event with a name":        "event: x\n" + `data: {"choices":[],"usage":{}}` + "\n\n",
	"no blank line at the end":    `data: {"choices":[],"usage":{}}` + "\n",
	"no end of the line":          `data: {"choices":[],"usage":{}}`,
	"broken off":                  `data: {"choices":[{"finish_reason":"stop"}]}` + "\n\n" + `data: {"choi`,
	"a comment while one is held": `data: {"choices":[{"finish_reason":"stop"}]}` + "\n\n: ping\n\n",
	"null as the first member":    `data: {"usage":null,"choices":[]}` + "\n\n",
	"a usage of another kind":     `data: {"choices":[],"usage":7}` + "\n\n",
	"choices of another kind":     `data: {"choices":{},"usage":{}}` + "\n\n",
	"lone carriage returns":       "data: x\r\rdata: y\r\r",
	"no events at all":            "{\"a\":1}\n{\"choices\":[],\"usage\":{}}\n\n",
	"a line too long to be held":  `data: {"choices":[{"text":"` + strings.Repeat("x", 2*maxLine) + `"}],"usage":null}` + "\n\n",
}

func TestStripLeavesTheRestAlone(t *testing.T) {
	for name, stream := range untouched {
		for _, size := range []int{1, 5, 1000, 1 << 20} {
			if got := strip(&stripper{}, stream, size); got != stream {
				t.Errorf("%s, %d bytes at a time: got %.200q", name, size, got)
			}
		}
	}
}

// TestStripHoldsNothingBack: a line that does not speak of usage has passed when its last byte is there, and of what does, all but
// the last chunk of a choice when its event is whole.
func TestStripHoldsNothingBack(t *testing.T) {
	s := &stripper{}
	for _, c := range []struct{ in, want string }{
		{`data: {"choices":[{"delta":{"con`, ""},
		{`tent":"a"}}]}` + "\n", `data: {"choices":[{"delta":{"content":"a"}}]}` + "\n"},
		{"\n", "\n"},
		{": ping\n", ": ping\n"},
		{"\n", "\n"},
		{`data: {"choices":[{"text":"b"}],"usage":null}` + "\n\n", `data: {"choices":[{"text":"b"}]}` + "\n\n"},
		{`data: {"choices":[{"finish_reason":"stop"}]}` + "\n\n", ""},
		{"data: [DONE]\n\n", `data: {"choices":[{"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"},
	} {
		if got := string(s.next([]byte(c.in), false)); got != c.want {
			t.Errorf("after %q: got %q, want %q", c.in, got, c.want)
		}
	}
	long := strings.Repeat("x", maxLine/2+1)
	passed := len(s.next([]byte(long), false)) + len(s.next([]byte(long), false))
	if passed != 2*len(long) {
		t.Errorf("%d bytes of a line of %d have passed", passed, 2*len(long))
	}
}

// FuzzStrip: what usage adds to a stream is taken out of it, whatever the stream, and nothing else is.
func FuzzStrip(f *testing.F) {
	for _, stream := range untouched {
		f.Add(stream, uint16(3), uint16(10))
	}
	for _, name := range twinNames {
		plain, _ := twins(f, name)
		f.Add(plain, uint16(1), uint16(300))
	}
	f.Fuzz(func(t *testing.T, stream string, size, at uint16) {
		if len(stream) > 4*maxLine {
			return
		}
		step := int(size) + 1
		clean := strip(&stripper{}, stream, step)
		if whole := strip(&stripper{}, stream, len(stream)+1); whole != clean {
			t.Fatalf("the split counts: %.200q in one, %.200q in reads of %d", whole, clean, step)
		}
		if !strings.Contains(stream, `"usage"`) && clean != stream {
			t.Fatalf("a stream without usage was changed: %q to %q", stream, clean)
		}
		asked := withUsage(clean, int(at))
		if strings.Contains(clean, `"usage"`) || asked == clean {
			return
		}
		if got := strip(&stripper{}, asked, step); got != clean {
			t.Fatalf("%q\nasked for usage is  %q\nand comes back as   %q", clean, asked, got)
		}
	})
}

// withUsage does to a stream what an engine does when it is asked for usage: null in the chunk that begins at byte at or after, and
// a chunk of usage after it. A stream without such a chunk stays as it is.
func withUsage(stream string, at int) string {
	before, rest, ok := cutAfter(stream, at, "\n\ndata: {")
	line, after, whole := strings.Cut(rest, "\n\n")
	if !ok || !whole || strings.ContainsAny(before+rest, "\r") || strings.Contains(line, "\n") {
		return stream
	}
	c, ok := readChunk([]byte("data: {" + line))
	if !ok || c.choices == (member{}) || c.onlyUsage() {
		return stream
	}
	end := strings.LastIndexByte(line, '}')
	return before + "data: {" + line[:end] + `,"usage":null` + line[end:] + "\n\n" +
		`data: {"choices":[],"usage":{"prompt_tokens":1}}` + "\n\n" + after
}

// cutAfter cuts a stream before "data: {" of the first mark that begins at byte at or after.
func cutAfter(stream string, at int, mark string) (before, rest string, ok bool) {
	at = min(at, len(stream))
	i := strings.Index(stream[at:], mark)
	if i < 0 {
		return "", "", false
	}
	i += at
	return stream[:i+2], stream[i+len(mark):], true
}

// streaming answers like vLLM: with usage at the end if the request asks for it.
func streaming(chunks ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked := bytes.Contains(body, []byte(`"include_usage":true`))
		w.Header().Set("Content-Type", "text/event-stream")
		for _, c := range chunks {
			_, _ = io.WriteString(w, c)
			_ = http.NewResponseController(w).Flush()
		}
		if asked {
			_, _ = io.WriteString(w, usageChunk)
		}
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	}
}

const (
	usageChunk = `data: {"id":"c","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\n"
	twoChunks  = `data: {"id":"c","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}` + "\n\n" +
		`data: {"id":"c","choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop"}]}` + "\n\n"
	streamBody = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`
)

// injecting is a rig whose endpoint asks for usage; last is the record of its latest request.
func injecting(t *testing.T, replicas ...*replica) (g *rig, last *telemetry.Request) {
	t.Helper()
	g, last = newRig(t, routing.NameRandom, replicas...), new(telemetry.Request)
	g.endpoint.InjectUsage = true
	g.proxy.Access = func(r *telemetry.Request) { *last = *r }
	return g, last
}

// serve hands a request to the proxy without a network between.
func serve(g *rig, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	g.proxy.ServeHTTP(w, r)
	return w
}

func TestInjectUsage(t *testing.T) {
	const (
		asks  = `{"stream_options":{"include_usage":true},`
		plain = twoChunks + "data: [DONE]\n\n"
	)
	asking := strings.Replace(streamBody, "{", asks, 1)
	completion := `{"model":"m","stream":true,"prompt":"hello"}`
	for name, c := range map[string]struct {
		path, body, sent, answer string
		known                    bool
	}{
		"a chat":               {"/v1/chat/completions", streamBody, asking, plain, true},
		"a completion":         {"/v1/completions", completion, strings.Replace(completion, "{", asks, 1), plain, true},
		"the client asks":      {"/v1/chat/completions", asking, asking, twoChunks + usageChunk + "data: [DONE]\n\n", true},
		"no stream":            {"/v1/chat/completions", chatBody, chatBody, plain, false},
		"an API without usage": {"/v1/responses", `{"model":"m","stream":true,"input":"x"}`, `{"model":"m","stream":true,"input":"x"}`, plain, false},
	} {
		engine := newReplica(t, streaming(twoChunks))
		g, last := injecting(t, engine)
		w := serve(g, c.path, c.body, "Accept-Encoding", "gzip")
		seen := engine.received()[0]
		if w.Body.String() != c.answer || string(seen.body) != c.sent || seen.length != int64(len(c.sent)) {
			t.Errorf("%s: the engine got %s, the client %q", name, seen.body, w.Body)
		}
		if last.HasUsage != c.known || last.CachedKnown != c.known || c.known && last.CachedTokens != 4 || last.BytesOut != int64(len(c.answer)) {
			t.Errorf("%s: recorded %+v", name, last)
		}
		if stripped := c.sent != c.body; (seen.header.Get("Accept-Encoding") == "") != stripped {
			t.Errorf("%s: the engine was sent Accept-Encoding %q", name, seen.header.Get("Accept-Encoding"))
		}
	}
}

func TestInjectOnlyIfSaid(t *testing.T) {
	engine := newReplica(t, streaming(twoChunks))
	g, last := injecting(t, engine)
	g.endpoint.InjectUsage = false
	w := serve(g, "/v1/chat/completions", streamBody)
	if string(engine.received()[0].body) != streamBody || w.Body.String() != twoChunks+"data: [DONE]\n\n" || last.HasUsage {
		t.Errorf("the engine got %s, the client %q", engine.received()[0].body, w.Body)
	}
}

func TestInjectIntoAnAliasedAndACodedBody(t *testing.T) {
	engine := newReplica(t, streaming(twoChunks))
	g, _ := injecting(t, engine)
	g.endpoint.Models, g.endpoint.Aliases = []string{"real-model"}, map[string]string{"m": "real-model"}
	g.retable()
	w := serve(g, "/v1/chat/completions", string(pack(t, "gzip", streamBody)), "Content-Encoding", "gzip")
	seen := engine.received()[0]
	want := strings.NewReplacer("{\"model\":\"m\"", `{"stream_options":{"include_usage":true},"model":"real-model"`).Replace(streamBody)
	if string(seen.body) != want || seen.header.Get("Content-Encoding") != "" || w.Body.String() != twoChunks+"data: [DONE]\n\n" {
		t.Errorf("the engine got %s as %q, the client %q", seen.body, seen.header.Get("Content-Encoding"), w.Body)
	}
}

// TestInjectOtherAnswers: engines that do not know the option, errors, and what is no event stream.
func TestInjectOtherAnswers(t *testing.T) {
	broken := twoChunks + `data: {"error":{"message":"EngineCore encountered an issue.","code":500}}` + "\n\ndata: [DONE]\n\n"
	answer := func(status int, media, body string, length bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			if length {
				w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			_ = http.NewResponseController(w).Flush()
		}
	}
	for name, c := range map[string]struct {
		engine  http.HandlerFunc
		status  int
		want    string
		outcome string
	}{
		"the option is ignored":    {answer(200, "text/event-stream", twoChunks+"data: [DONE]\n\n", false), 200, twoChunks + "data: [DONE]\n\n", "ok"},
		"the option is refused":    {answer(400, "application/json", `{"error":{"message":"stream_options"}}`, true), 400, `{"error":{"message":"stream_options"}}`, "client_error"},
		"an error event":           {answer(200, "text/event-stream", broken, false), 200, broken, "upstream_error"},
		"an answer with a length":  {answer(200, "text/event-stream", twoChunks+usageChunk, true), 200, twoChunks + usageChunk, "ok"},
		"JSON instead of a stream": {answer(200, "application/json", chatAnswer, true), 200, chatAnswer, "ok"},
	} {
		g, last := injecting(t, newReplica(t, c.engine))
		w := serve(g, "/v1/chat/completions", streamBody)
		if w.Code != c.status || w.Body.String() != c.want || last.Outcome != c.outcome {
			t.Errorf("%s: got %d %q, %s", name, w.Code, w.Body, last.Outcome)
		}
	}
}

func TestInjectAndRetry(t *testing.T) {
	busy := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	engines := []*replica{newReplica(t, busy), newReplica(t, streaming(twoChunks))}
	for range 8 { // whichever is first
		g, last := injecting(t, engines...)
		w := serve(g, "/v1/chat/completions", streamBody)
		if w.Body.String() != twoChunks+"data: [DONE]\n\n" || last.CachedTokens != 4 {
			t.Fatalf("after %d attempts: got %q", last.Attempts, w.Body)
		}
	}
	for _, e := range engines {
		for _, seen := range e.received() {
			if strings.Count(string(seen.body), "include_usage") != 1 {
				t.Errorf("an engine got %s", seen.body)
			}
		}
	}
}

// TestInjectAndABrokenStream: what an engine had sent when it broke off reaches the client, held bytes included.
func TestInjectAndABrokenStream(t *testing.T) {
	const begun = twoChunks + `data: {"id":"c","cho`
	engine := newReplica(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, begun)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	g := newRig(t, routing.NameRandom, engine)
	g.endpoint.InjectUsage = true
	resp, err := http.Post(g.URL+"/v1/chat/completions", "application/json", strings.NewReader(streamBody))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if string(got) != begun || err == nil {
		t.Errorf("got %q, %v", got, err)
	}
	if l := g.access(t, 1)[0]; l.Outcome != "upstream_aborted" {
		t.Errorf("logged %+v", l)
	}
}

// TestInjectAndAClientThatLeaves: the engine is told, as without.
func TestInjectAndAClientThatLeaves(t *testing.T) {
	left := make(chan struct{})
	engine := newReplica(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, twoChunks)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	})
	g := newRig(t, routing.NameRandom, engine)
	g.endpoint.InjectUsage = true
	resp, err := http.Post(g.URL+"/v1/chat/completions", "application/json", strings.NewReader(streamBody))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(twoChunks, "\n\n")
	got := make([]byte, len(first))
	if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != first {
		t.Errorf("got %q, %v", got, err)
	}
	_ = resp.Body.Close()
	<-left
	g.idle(t)
	if l := g.access(t, 1)[0]; l.Outcome != "client_cancelled" {
		t.Errorf("logged %+v", l)
	}
}
