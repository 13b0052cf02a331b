package proxy

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/warmpath/warmpath/internal/routing"
)

// send posts a body with headers given as name, value, … and reads the whole answer.
func (g *rig) send(t testing.TB, path string, body io.Reader, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, g.URL+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(answer)
}

func TestC012_OddPromptsAreForwarded(t *testing.T) {
	engine := newReplica(t, nil)
	g := newRig(t, routing.NamePrefixAware, engine, newReplica(t, nil))
	g.apply(t, engine.URL)
	bodies := []string{
		`{"model":"m","prompt":"text"}`, `{"model":"m","prompt":["a","b"]}`, `{"model":"m","prompt":[1,2,3]}`,
		`{"model":"m","prompt":[[1,2],[3,4]]}`, `{"model":"m","prompt":[]}`, `{"model":"m"}`, `{"model":"m","prompt":{"x":1}}`, `{"model":"m","prompt":null}`,
	}
	for i, body := range bodies {
		if resp, answer := g.post(t, "/v1/completions", body); resp.StatusCode != 200 {
			t.Errorf("%s: got %d %s", body, resp.StatusCode, answer)
		} else if got := string(engine.received()[i].body); got != body {
			t.Errorf("%s reached the engine as %s", body, got)
		}
	}
}

// aliased is a rig whose clients say "alias" for the engine's "real-model".
func aliased(t testing.TB, engine *replica) *rig {
	g := newRig(t, routing.NamePrefixAware, engine)
	g.endpoint.Models, g.endpoint.Aliases = []string{"real-model"}, map[string]string{"alias": "real-model"}
	g.retable()
	return g
}

func TestC014_AliasKeepsNumbers(t *testing.T) {
	engine := newReplica(t, nil)
	const body = `{"seed":9007199254740993,"a":123456789012345678901234567890,"b":1e400,"c":0.10000000000000000555,"d":-0, "model" : "alias" ,"messages":[{"role":"user","content":"hi"}]}`
	if resp, answer := aliased(t, engine).post(t, "/v1/chat/completions", body); resp.StatusCode != 200 {
		t.Fatalf("got %d %s", resp.StatusCode, answer)
	}
	if got, want := string(engine.received()[0].body), strings.Replace(body, "alias", "real-model", 1); got != want {
		t.Errorf("the engine got\n%s\nwant\n%s", got, want)
	}
}

func TestC015_AliasKeepsOrder(t *testing.T) {
	engine := newReplica(t, nil)
	g := aliased(t, engine)
	var properties []string
	for i := range 20 {
		properties = append(properties, fmt.Sprintf(`"key%d" :  {"type":"string","description":"\u00e9\/%d"}`, (i*7)%20, i))
	}
	body := `{"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{` + strings.Join(properties, ",\n ") +
		`}}}}],"model":"alias","messages":[{"role":"user","content":"hi"}]}`
	want := strings.Replace(body, `"alias"`, `"real-model"`, 1)
	for range 100 {
		g.post(t, "/v1/chat/completions", body)
	}
	for i, seen := range engine.received() {
		if string(seen.body) != want || seen.length != int64(len(want)) {
			t.Fatalf("request %d reached the engine as %s", i, seen.body)
		}
	}
}

// pack encodes a body in a content coding.
func pack(t testing.TB, coding string, body string) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch strings.ToLower(coding) {
	case "gzip":
		w = gzip.NewWriter(&out)
	case "deflate":
		w = zlib.NewWriter(&out)
	case "raw deflate":
		w, _ = flate.NewWriter(&out, 5)
	case "zstd":
		w, _ = zstd.NewWriter(&out)
	}
	if _, err := io.WriteString(w, body); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return out.Bytes()
}

func TestC018_CodedBodies(t *testing.T) {
	replicas := []*replica{newReplica(t, nil), newReplica(t, nil), newReplica(t, nil), newReplica(t, nil)}
	g := newRig(t, routing.NamePrefixAware, replicas...)
	for _, size := range []int{200, 2 << 10, 66 << 10} {
		body := longBody(size)
		resp, _ := g.post(t, "/v1/chat/completions", body)
		owner := resp.Header.Get("X-Warmpath-Replica")
		for _, coding := range []string{"gzip", "GZIP", "deflate", "zstd"} {
			packed := pack(t, coding, body)
			resp, answer := g.send(t, "/v1/chat/completions", bytes.NewReader(packed), "Content-Encoding", coding, "Content-Type", "application/json")
			if resp.StatusCode != 200 || resp.Header.Get("X-Warmpath-Replica") != owner || resp.Header.Get("X-Warmpath-Decision") != "affinity" {
				t.Errorf("%s of %d bytes: got %d %s at %s, plain went to %s", coding, size, resp.StatusCode, answer, resp.Header.Get("X-Warmpath-Replica"), owner)
			}
			for _, r := range replicas {
				if !strings.HasSuffix(r.URL, owner) {
					continue
				}
				seen := r.received()
				last := seen[len(seen)-1]
				if !bytes.Equal(last.body, packed) || last.header.Get("Content-Encoding") != coding || last.length != int64(len(packed)) {
					t.Errorf("%s of %d bytes was changed on its way", coding, size)
				}
			}
		}
	}
}

func TestC018_BadCodings(t *testing.T) {
	g := newRig(t, routing.NamePrefixAware, newReplica(t, nil))
	g.settings.Limits.DecodedBody = 1 << 20
	whole := pack(t, "gzip", chatBody)
	for name, c := range map[string]struct {
		coding string
		body   []byte
		status int
	}{
		"bomb":            {"gzip", pack(t, "gzip", longBody(4<<20)), 413},
		"bomb of zstd":    {"zstd", pack(t, "zstd", longBody(4<<20)), 413},
		"truncated":       {"gzip", whole[:len(whole)-9], 400},
		"not gzip at all": {"gzip", []byte(chatBody), 400},
		"unknown":         {"br", whole, 415},
		"two members":     {"gzip", append(pack(t, "gzip", chatBody[:9]), pack(t, "gzip", chatBody[9:])...), 200},
		"identity":        {"identity", []byte(chatBody), 200},
	} {
		resp, answer := g.send(t, "/v1/chat/completions", bytes.NewReader(c.body), "Content-Encoding", c.coding)
		if resp.StatusCode != c.status {
			t.Errorf("%s: got %d %s, want %d", name, resp.StatusCode, answer, c.status)
		}
	}
}

func TestC018_AliasInACodedBody(t *testing.T) {
	engine := newReplica(t, nil)
	g := aliased(t, engine)
	body := strings.Replace(chatBody, `"m"`, `"alias"`, 1)
	for _, coding := range []string{"gzip", "deflate", "zstd"} {
		g.send(t, "/v1/chat/completions", bytes.NewReader(pack(t, coding, body)), "Content-Encoding", coding)
	}
	want := strings.Replace(chatBody, `"m"`, `"real-model"`, 1)
	for _, seen := range engine.received() {
		if string(seen.body) != want || seen.header.Get("Content-Encoding") != "" || seen.length != int64(len(want)) {
			t.Errorf("the engine got %q in %q", seen.body, seen.header.Get("Content-Encoding"))
		}
	}
	if len(engine.received()) != 3 {
		t.Errorf("the engine got %d requests", len(engine.received()))
	}
}

func TestC019_LimitsAreHonest(t *testing.T) {
	engine := newReplica(t, nil)
	g := newRig(t, routing.NamePrefixAware, engine)
	imaged := func(size int) string {
		head := `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,`
		tail := `"}}]}],"model":"m"}`
		return head + strings.Repeat("A", size-len(head)-len(tail)) + tail
	}
	const limit = 8 << 20
	g.settings.Limits.Body = limit
	for _, size := range []int{1 << 20, limit - 1, limit, limit + 1, 2 * limit} {
		body := imaged(size)
		for _, chunked := range []bool{false, true} {
			var r io.Reader = strings.NewReader(body)
			if chunked {
				r = io.MultiReader(r)
			}
			before := len(engine.received())
			resp, answer := g.send(t, "/v1/chat/completions", r, "Content-Type", "application/json")
			seen := engine.received()[before:]
			switch {
			case size > limit:
				if resp.StatusCode != 413 || !strings.Contains(answer, fmt.Sprint(limit)) || len(seen) != 0 {
					t.Errorf("%d bytes, chunked %t: got %d %s", size, chunked, resp.StatusCode, answer)
				}
			case resp.StatusCode != 200 || len(seen) != 1 || string(seen[0].body) != body:
				t.Errorf("%d bytes, chunked %t: got %d %s", size, chunked, resp.StatusCode, answer)
			}
		}
	}
}

func TestC030_LengthIsAlwaysSent(t *testing.T) {
	engine := newReplica(t, nil)
	g := newRig(t, routing.NameRandom, engine)
	for _, body := range []string{chatBody, longBody(100 << 10)} {
		g.send(t, "/v1/chat/completions", strings.NewReader(body))
		g.send(t, "/v1/chat/completions", io.MultiReader(strings.NewReader(body)))
	}
	for _, seen := range engine.received() {
		if seen.chunked || seen.length != int64(len(seen.body)) || seen.length == 0 {
			t.Errorf("length %d for %d bytes, chunked %t", seen.length, len(seen.body), seen.chunked)
		}
	}
}

func TestC045_KeysAreCaseSensitive(t *testing.T) {
	engine := newReplica(t, nil)
	g := aliased(t, engine)
	for body, want := range map[string]string{
		`{"Model":"alias","messages":[]}`:                 "", // names no model: the lone endpoint takes it as it is
		`{"model":"alias","MODEL":"x","messages":[]}`:     `{"model":"real-model","MODEL":"x","messages":[]}`,
		`{"MODEL":"x","model":"alias","STREAM":true}`:     `{"MODEL":"x","model":"real-model","STREAM":true}`,
		`{"mode\u006c":"alias","Messages":[],"stream":1}`: `{"mode\u006c":"real-model","Messages":[],"stream":1}`,
	} {
		if want == "" {
			want = body
		}
		before := len(engine.received())
		if resp, answer := g.post(t, "/v1/chat/completions", body); resp.StatusCode != 200 {
			t.Errorf("%s: got %d %s", body, resp.StatusCode, answer)
		} else if got := string(engine.received()[before].body); got != want {
			t.Errorf("%s reached the engine as %s", body, got)
		}
	}
}

func TestC046_WhatIsNotOneObject(t *testing.T) {
	engine := newReplica(t, nil)
	g := newRig(t, routing.NamePrefixAware, engine)
	const marker = "marker-in-the-body"
	object := `{"model":"m","messages":[{"role":"user","content":"` + marker + `"}]}`
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"white space after":  {object + " \r\n\t ", 200},
		"a brace after":      {object + "}", 400},
		"a second object":    {object + object, 400},
		"NUL after":          {object + "\x00", 400},
		"a byte-order mark":  {"\xef\xbb\xbf" + object, 400},
		"empty":              {"", 400},
		"null":               {"null", 200}, // one JSON value, though not an object: the engine's to judge
		"an array":           {"[" + object + "]", 200},
		"UTF-16":             {"\xff\xfe{\x00}\x00", 400},
		"trailing comma":     {strings.TrimSuffix(object, "}") + ",}", 400},
		"NaN":                {strings.TrimSuffix(object, "}") + `,"x":NaN}`, 400},
		"raw control":        {strings.Replace(object, "marker-in", "marker-in-the-body\n", 1), 200}, // the engine judges what strings say
		"cut in the middle ": {object[:len(object)-5], 400},
	} {
		before := len(engine.received())
		resp, answer := g.post(t, "/v1/chat/completions", c.body)
		reached := len(engine.received()) > before
		if resp.StatusCode != c.status || reached != (c.status == 200) || strings.Contains(answer, marker) {
			t.Errorf("%s: got %d %s; reached an engine: %t", name, resp.StatusCode, answer, reached)
		}
	}
	if strings.Contains(g.log.String(), marker) {
		t.Error("the log repeats a body")
	}
}

// TestC087_OddUsage: whatever an engine writes where usage belongs, the client gets it and the process lives.
func TestC087_OddUsage(t *testing.T) {
	const whole = `{"id":"x","usage":%s}`
	answers := map[string]string{"an HTML page": "<html>no</html>", "empty": ""}
	for name, usage := range map[string]string{
		"a string": `"x"`, "null": "null", "an array": "[]", "a number": "7", "wrong types": `{"prompt_tokens":"7","prompt_tokens_details":[]}`,
		"negative": `{"prompt_tokens":-5,"completion_tokens":-1}`, "a float": `{"prompt_tokens":7.5}`, "huge": `{"prompt_tokens":1e400}`,
		"details that are null": `{"prompt_tokens":1,"prompt_tokens_details":null}`, "deep": strings.Repeat("[", 5<<20),
	} {
		answers[name] = fmt.Sprintf(whole, usage)
	}
	n := 0
	for _, media := range []string{"application/json", "text/event-stream"} {
		for name, answer := range answers {
			if media == "text/event-stream" {
				answer = "data: " + answer + "\n\n"
			}
			n++
			g := newRig(t, routing.NameRandom, newReplica(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", media)
				_, _ = io.WriteString(w, answer)
			}))
			if resp, got := g.post(t, "/v1/chat/completions", chatBody); resp.StatusCode != 200 || got != answer {
				t.Errorf("%s as %s: got %d and %d bytes", name, media, resp.StatusCode, len(got))
			}
			if l := g.access(t, 1)[0]; l.Outcome != "ok" || l.PromptTokens < 0 || l.OutputTokens < 0 {
				t.Errorf("%s as %s: logged %+v", name, media, l)
			}
		}
	}
	g := newRig(t, routing.NameRandom, newReplica(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }))
	if resp, got := g.post(t, "/v1/chat/completions", chatBody); resp.StatusCode != 204 || got != "" {
		t.Errorf("204: got %d %q", resp.StatusCode, got)
	}
}

func TestC095_ImagesRouteByTheirContent(t *testing.T) {
	replicas := []*replica{newReplica(t, nil), newReplica(t, nil), newReplica(t, nil), newReplica(t, nil)}
	g := newRig(t, routing.NamePrefixAware, replicas...)
	ask := func(image, question string) string {
		body := `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + image +
			`"}},{"type":"text","text":"` + question + `"}]}]}`
		resp, answer := g.post(t, "/v1/chat/completions", body)
		if resp.StatusCode != 200 {
			t.Fatalf("got %d %s", resp.StatusCode, answer)
		}
		return resp.Header.Get("X-Warmpath-Replica")
	}
	header := strings.Repeat("iVBORw0KGgo", 20)
	spread := map[string]int{}
	for i := range 100 { // so many that chance leaves no replica out
		spread[ask(header+strings.Repeat(fmt.Sprintf("%04d", i), 5000), "what is this?")]++
	}
	if len(spread) != 4 {
		t.Errorf("100 images went to %v", spread)
	}
	same := ask(header+strings.Repeat("same", 5000), "what is this?")
	for range 5 {
		if got := ask(header+strings.Repeat("same", 5000), "what is this?"); got != same {
			t.Errorf("one image and question went to %s and %s", same, got)
		}
	}
}
