package prompt

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// result is what TextKey returned.
type result struct {
	key  uint64
	used int
	ok   bool
}

func keyOf(t *testing.T, raw string, shape Shape, prefixLength int) result {
	t.Helper()
	body, err := Scan([]byte(raw), shape)
	if err != nil {
		t.Fatalf("%.200s: %v", raw, err)
	}
	var r result
	r.key, r.used, r.ok = body.TextKey(prefixLength, body.CacheKey)
	return r
}

func chatKey(t *testing.T, messages string) result {
	t.Helper()
	return keyOf(t, `{"model":"m","messages":[`+messages+`]}`, ShapeChat, 4096)
}

func wantSame(t *testing.T, name string, a, b result) {
	t.Helper()
	if a != b {
		t.Errorf("%s: keys %+v and %+v, want the same", name, a, b)
	}
}

func wantDistinct(t *testing.T, name string, results ...result) {
	t.Helper()
	seen := map[uint64]int{}
	for i, r := range results {
		if !r.ok {
			t.Errorf("%s: %d has no key", name, i)
		}
		if j, ok := seen[r.key]; ok {
			t.Errorf("%s: %d and %d have the same key", name, j, i)
		}
		seen[r.key] = i
	}
}

func TestC010_ContentForms(t *testing.T) {
	x := chatKey(t, `{"role":"user","content":"hello"}`)
	for name, messages := range map[string]string{
		"one text part":       `{"role":"user","content":[{"type":"text","text":"hello"}]}`,
		"input_text":          `{"role":"user","content":[{"type":"input_text","text":"hello"}]}`,
		"bare string part":    `{"role":"user","content":["hello"]}`,
		"escaped":             `{"role":"user","content":"\u0068ell\u006f"}`,
		"escaped names":       `{"role":"user","c\u006fntent":[{"t\u0079pe":"te\u0078t","tex\u0074":"hello"}]}`,
		"null turn before":    `{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]},{"role":"user","content":"hello"}`,
		"no content before":   `{"role":"assistant","tool_calls":[{"id":"2"}]},{"role":"user","content":"hello"}`,
		"empty texts around":  `{"content":""},{"content":[]},{"role":"user","content":"hello"},{"content":[{"type":"text","text":""}]}`,
		"role is not in it":   `{"role":"system","name":"n","content":"hello"}`,
		"last content counts": `{"content":"other","role":"user","content":"hello"}`,
	} {
		wantSame(t, name, x, chatKey(t, messages))
	}
	wantDistinct(t, "contents",
		x,
		chatKey(t, `{"content":[{"type":"text","text":"other"}]}`),
		chatKey(t, `{"content":[{"type":"text","text":"hello"},{"type":"text","text":"more"}]}`),
		chatKey(t, `{"content":[{"type":"text","text":"hell"},{"type":"text","text":"o"}]}`),
		chatKey(t, `{"content":"hello"},{"content":"later turn"}`),
		chatKey(t, `{"content":null,"tool_calls":[{"id":"1"}]},{"content":"after null"}`),
		chatKey(t, `{"content":[{"type":"image_url","image_url":{"url":"a"}}]}`),
		chatKey(t, `{"content":null,"tool_calls":[{"id":"1"}]}`),
		chatKey(t, `{"content":null,"tool_calls":[{"id":"2"}]}`),
		chatKey(t, `{"content":5}`), chatKey(t, `{"content":6}`), chatKey(t, `{"content":{"text":"hello"}}`),
		chatKey(t, `7`), chatKey(t, `"hello"`), chatKey(t, `["hello"]`),
	)
}

func TestNothingToKey(t *testing.T) {
	for _, tc := range []struct {
		shape Shape
		raw   string
	}{
		{ShapeChat, `{}`}, {ShapeChat, `{"messages":[]}`}, {ShapeChat, `{"messages":null}`}, {ShapeChat, `null`},
		{ShapeChat, `{"messages":[{"content":null},{"content":""},{"content":[]},{}]}`}, {ShapeChat, `["messages"]`},
		{ShapeCompletion, `{}`}, {ShapeCompletion, `{"prompt":[]}`}, {ShapeCompletion, `{"prompt":[[],[]]}`},
		{ShapeCompletion, `{"prompt":""}`}, {ShapeCompletion, `{"prompt":["",""]}`}, {ShapeCompletion, `{"messages":[{"content":"x"}]}`},
		{ShapeResponses, `{"instructions":null,"input":[]}`}, {ShapeAnthropic, `{"system":"","messages":[]}`},
		{ShapeNone, `{"messages":[{"content":"x"}],"prompt":"x","input":"x","prompt_cache_key":"k"}`},
	} {
		if got := keyOf(t, tc.raw, tc.shape, 4096); got.ok || got.used != 0 {
			t.Errorf("%s: %+v, want no key", tc.raw, got)
		}
	}
	if _, _, ok := BytesKey(nil, 4096, ""); ok {
		t.Error("an empty native body has a key")
	}
}

func TestTextWindowOfEachAPI(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   result
		want int
	}{
		{"responses string", keyOf(t, `{"input":"abc"}`, ShapeResponses, 100), 3},
		{"responses instructions", keyOf(t, `{"input":"abc","instructions":"xy"}`, ShapeResponses, 100), 5},
		{"responses items", keyOf(t, `{"input":[{"role":"user","content":[{"type":"input_text","text":"abc"},{"type":"input_image","image_url":"u"}]},
			{"type":"function_call_output","call_id":"1","output":"long output"},{"role":"assistant","content":[{"type":"output_text","text":"de"}]}]}`, ShapeResponses, 100), 7},
		{"anthropic", keyOf(t, `{"system":"abc","messages":[{"role":"user","content":"de"}]}`, ShapeAnthropic, 100), 5},
		{"anthropic blocks", keyOf(t, `{"system":[{"type":"text","text":"abc","cache_control":{"type":"ephemeral"}}],
			"messages":[{"role":"user","content":[{"type":"tool_result","content":"r"},{"type":"text","text":"de"}]}]}`, ShapeAnthropic, 100), 6},
		{"tokens", keyOf(t, `{"prompt":[1,2,3]}`, ShapeCompletion, 100), 12},
		{"tokens cut", keyOf(t, `{"prompt":[1,2,3]}`, ShapeCompletion, 9), 9},
		{"text cut", keyOf(t, `{"prompt":["abc","def","ghi"]}`, ShapeCompletion, 4), 4},
		{"no room", keyOf(t, `{"prompt":"abc","prompt_cache_key":"k"}`, ShapeCompletion, 0), 0},
		{"negative room", keyOf(t, `{"prompt":"abc","prompt_cache_key":"k"}`, ShapeCompletion, -1), 0},
	} {
		if tc.in.used != tc.want || !tc.in.ok {
			t.Errorf("%s: %+v, want %d characters", tc.name, tc.in, tc.want)
		}
	}
	wantSame(t, "system comes first wherever it stands",
		keyOf(t, `{"system":"abc","messages":[{"content":"de"}]}`, ShapeAnthropic, 100),
		keyOf(t, `{"messages":[{"content":"de"}],"system":[{"text":"abc","type":"text"}]}`, ShapeAnthropic, 100))
}

func TestC012_EveryPromptFormIsAccepted(t *testing.T) {
	var keys []result
	for _, prompt := range []string{`"a"`, `["a","b"]`, `[1,2,3]`, `[[1,2],[3,4]]`, `[[1],[2,3,4]]`, `[1,2,3,4]`, `[[1,2,3,4]]`, `5`, `{"x":1}`, `true`, `[null]`, `[1.5]`, `[1e3]`, `[[["a"]]]`, `[99999999999999999999]`} {
		keys = append(keys, keyOf(t, `{"prompt":`+prompt+`}`, ShapeCompletion, 4096))
	}
	wantDistinct(t, "prompts", keys...)
}

func TestC013_TokenIDs(t *testing.T) {
	tokens := func(ids []string) result {
		return keyOf(t, `{"prompt":[`+strings.Join(ids, ",")+`]}`, ShapeCompletion, 4*512)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var unrelated []result
	var buckets [4]int
	for range 1000 {
		ids := make([]string, 512)
		for i := range ids {
			ids[i] = strconv.Itoa(random.IntN(150_000))
		}
		r := tokens(ids)
		unrelated = append(unrelated, r)
		buckets[r.key%4]++
	}
	wantDistinct(t, "random arrays of one length", unrelated...)
	for i, n := range buckets {
		if n < 200 || n > 300 {
			t.Errorf("bucket %d of 4 holds %d of 1000 arrays", i, n)
		}
	}
	prefix := strings.Repeat("7,", 512)
	wantSame(t, "same first 512 ids",
		keyOf(t, `{"prompt":[`+prefix+`1,2]}`, ShapeCompletion, 4*512), keyOf(t, `{"prompt":[ `+prefix+` 345678 ]}`, ShapeCompletion, 4*512))
	wantDistinct(t, "digits regrouped", tokens([]string{"12", "34"}), tokens([]string{"123", "4"}), tokens([]string{"1234"}), tokens([]string{"12345"}),
		tokens([]string{"-12", "34"}), keyOf(t, `{"prompt":"1234"}`, ShapeCompletion, 4096), keyOf(t, `{"prompt":["12","34"]}`, ShapeCompletion, 4096))
}

func TestC014_NumbersKeepTheirDigits(t *testing.T) {
	const numbers = `"seed":9007199254740993,"id":123456789012345678901234567890,"big":1e400,"small":0.10000000000000000555,"zero":-0`
	raw := `{` + numbers + `,"model" : "alias","tools":[{` + numbers + `}]}`
	body, err := Scan([]byte(raw), ShapeChat)
	if err != nil {
		t.Fatal(err)
	}
	want := `{` + numbers + `,"model" : "llama-3.1-70b","tools":[{` + numbers + `}]}`
	if got := string(body.Splice(nil, body.SetModel("llama-3.1-70b"))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestC015_SplicingChangesNothingElse(t *testing.T) {
	var schema strings.Builder
	for i := range 20 {
		fmt.Fprintf(&schema, "\"key%d\" :\t{\"type\":\"\\u0073tring\" , \"description\":\"é \\/ \\ud83d\\ude00\"},\r\n", 19-i)
	}
	raw := " {\"tools\": [{" + schema.String() + "\"last\":1}], \"model\":\"alias\" ,\"messages\":[]}\n "
	body, err := Scan([]byte(raw), ShapeChat)
	if err != nil {
		t.Fatal(err)
	}
	hashes := map[[32]byte]bool{}
	for range 100 {
		hashes[sha256.Sum256(body.Splice(nil, body.SetModel("real")))] = true
	}
	if want := sha256.Sum256([]byte(strings.Replace(raw, `"alias"`, `"real"`, 1))); len(hashes) != 1 || !hashes[want] {
		t.Errorf("%d different bodies, or not the client's own outside the model", len(hashes))
	}
}

func TestSetModel(t *testing.T) {
	for _, tc := range []struct{ raw, name, want string }{
		{`{"model":"a","model":"b"}`, "c", `{"model":"a","model":"c"}`},
		{`{"model":"a","model":3}`, "c", `{"model":"a","model":3}`},
		{`{"x":{"model":"a"}}`, "c", `{"x":{"model":"a"}}`},
		{`[]`, "c", `[]`},
		{`{"mod\u0065l":"a\"}"}`, "quote\" back\\ line\n é \x00 </s>", `{"mod\u0065l":"quote\" back\\ line\n é \u0000 </s>"}`},
		{`{"model":"a"}`, "bad\xff", `{"model":"bad�"}`},
	} {
		body, err := Scan([]byte(tc.raw), ShapeNone)
		if err != nil {
			t.Fatal(err)
		}
		got := body.Splice([]byte("x"), body.SetModel(tc.name))
		if string(got) != "x"+tc.want {
			t.Errorf("%s: got %s, want x%s", tc.raw, got, tc.want)
		}
		if !json.Valid(got[1:]) {
			t.Errorf("%s: spliced body is not valid JSON: %s", tc.raw, got)
		}
	}
}

func TestC034_ShortPromptsThatDifferAtTheEnd(t *testing.T) {
	common := strings.Repeat("x", 60)
	var texts, images []result
	for i := range 1000 {
		texts = append(texts, chatKey(t, fmt.Sprintf(`{"content":"%s%010d"}`, common, i)))
		images = append(images, chatKey(t, fmt.Sprintf(`{"content":[{"type":"image_url","image_url":{"url":"https://bucket/%s/%d.png"}}]}`, common, i)))
	}
	wantDistinct(t, "texts", texts...)
	wantDistinct(t, "image addresses", images...)
}

func TestC045_KeysMatchExactly(t *testing.T) {
	for _, tc := range []struct {
		raw    string
		model  string
		has    bool
		stream bool
	}{
		{`{"Model":"a"}`, "", false, false},
		{`{"model":"a","MODEL":"b"}`, "a", true, false},
		{`{"STREAM":true,"Stream":true}`, "", false, false},
		{`{"model":"a","stream":true}`, "a", true, true},
		{`{"mod\u0065l":"a","\u0073tream":true}`, "a", true, true},
		{`{"model":"a","mod\u0065l":"b"}`, "b", true, false},
		{`{"model":"a","model":null}`, "", false, false},
		{`{"model":["a"],"stream":"true"}`, "", false, false},
		{`{"model":"a","stream":true,"stream":false}`, "a", true, false},
		{`{"model":"a","stream":1}`, "a", true, false},
		{`{"x":{"model":"a","stream":true}}`, "", false, false},
		{`{"model":"","models":"x"," model":"y","model\u0000":"z"}`, "", true, false},
		{`{"model":"\u006d\ud83d\ude00\ud83d"}`, "m😀�", true, false},
	} {
		body, err := Scan([]byte(tc.raw), ShapeChat)
		if err != nil || body.Model != tc.model || body.HasModel != tc.has || body.Stream != tc.stream {
			t.Errorf("%s: model %q %v stream %v error %v, want %q %v %v", tc.raw, body.Model, body.HasModel, body.Stream, err, tc.model, tc.has, tc.stream)
		}
	}
	wantDistinct(t, "Messages are not messages", chatKey(t, `{"content":"x"}`), keyOf(t, `{"messages":[{"content":"y"}],"Messages":[{"content":"x"}]}`, ShapeChat, 100))
}

// What stands inside strings is the engine's to judge: whatever it makes of it, it finds the same end of the string.
func TestC046_StringsAreNotJudged(t *testing.T) {
	for _, tc := range []struct{ name, content, reads string }{
		{"raw line break", "a\nb", `a\nb`},
		{"NUL", "a\x00b", `a\u0000b`},
		{"unknown escape", `a\xb`, `a\ufffdxb`},
		{"half an escape", `a\u12g4`, `a\ufffdu12g4`},
		{"escape cut short", `a\u00`, `a\ufffdu00`},
		{"only an unknown escape", `\q`, `\ufffdq`},
	} {
		got := chatKey(t, `{"role":"user","content":"`+tc.content+`"}`)
		want := chatKey(t, `{"role":"user","content":"`+tc.reads+`"}`)
		if got != want {
			t.Errorf("%s: key %v, want that of %s", tc.name, got, tc.reads)
		}
	}
}

func TestC046_OnlyOneJSONValue(t *testing.T) {
	for _, tc := range []struct {
		raw    string
		offset int64
		reason string
	}{
		{``, 0, "end of body"}, {`  `, 2, "end of body"}, {`{"secret":1}}`, 12, "data after"}, {`{"secret":1} {"secret":2}`, 13, "data after"},
		{"{\"secret\":1}\x00", 12, "data after"}, {"\xef\xbb\xbf{}", 0, "byte order mark"}, {"\xff\xfe{\x00}\x00", 0, "UTF-16"}, {"{\x00}\x00", 1, "member name"},
		{`{"secret":1,}`, 12, "member name"}, {`["secret",]`, 10, "a value"}, {`{"secret":NaN}`, 10, "a value"},
		{`{"secret":Infinity}`, 10, "a value"}, {`{'secret':1}`, 1, "member name"}, {`{"secret" 1}`, 10, "colon"}, {`{"secret":1 "b":2}`, 12, "comma"}, {`[1 2]`, 3, "comma"},
		{`{"secret":[1}`, 12, "end of the array"}, {`{"secret":{"a":1]`, 16, "end of the object"},
		{`{"secret":01}`, 11, "comma"}, {`{"secret":1.}`, 12, "digit"}, {`{"secret":-}`, 11, "digit"}, {`{"secret":1e}`, 12, "digit"}, {`{"secret":tru}`, 13, "a value"},
		{`{"secret`, 8, "end of body"}, {`{"secret":"\`, 12, "end of body"}, {`{"secret":"\u00`, 15, "end of body"}, {`{"secret":`, 10, "end of body"}, {`nul`, 3, "end of body"},
		{strings.Repeat("[", 10_001), 10_000, "nested deeper"}, {strings.Repeat(`{"a":`, 10_001), 50_000, "nested deeper"},
	} {
		_, err := Scan([]byte(tc.raw), ShapeChat)
		syntax, ok := err.(*SyntaxError)
		if !ok || syntax.Offset != tc.offset || !strings.Contains(syntax.Reason, tc.reason) {
			t.Errorf("%.40q: error %v, want one at byte %d with %q", tc.raw, err, tc.offset, tc.reason)
			continue
		}
		if text := err.Error(); strings.Contains(text, "secret") || !strings.Contains(text, fmt.Sprint(tc.offset)) {
			t.Errorf("%.40q: message %q must give the position and nothing of the body", tc.raw, text)
		}
	}
	for _, raw := range []string{`null`, `[]`, `[1,{"model":"a"}]`, `-1.5e+10`, `"model"`, `true`, " {} \r\n\t ", `{"a":"\ud83d\u0041"}`, "{\"a\":\"\xff\xfe\"}",
		strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), strings.Repeat(`{"a":`, 9_999) + `{}` + strings.Repeat("}", 9_999)} {
		if body, err := Scan([]byte(raw), ShapeChat); err != nil || body.HasModel || body.Stream {
			t.Errorf("%.40q: %v, model %q, want an accepted body without anything", raw, err, body.Model)
		}
		compareWithReference(t, []byte(raw), ShapeChat, 100, "")
	}
}

func TestC048_WindowsAreCutBetweenCharacters(t *testing.T) {
	ascii := strings.Repeat("a", 99)
	family := "👨‍👩‍👧‍👦" // seven code points
	for _, tc := range []struct {
		name, a, b string
		same       bool
	}{
		{"emoji is the hundredth", ascii + "😀" + "tail", ascii + "😀" + "other", true},
		{"emoji differs", ascii + "😀", ascii + "😁", false},
		{"surrogate escapes are one character", ascii + `\ud83d\ude00` + "tail", ascii + "😀" + "x", true},
		{"hundred CJK characters", strings.Repeat("字", 100) + "甲", strings.Repeat("字", 100) + "乙", true},
		{"CJK differs at the end", strings.Repeat("字", 99) + "甲", strings.Repeat("字", 99) + "乙", false},
		{"combining mark inside", strings.Repeat("a", 98) + "e\u0301" + "x", strings.Repeat("a", 98) + "e\u0301" + "y", true},
		{"combining mark outside", ascii + "e\u0301", ascii + "e\u0300", true},
		{"cut within a family", strings.Repeat("a", 95) + family + "x", strings.Repeat("a", 95) + family[:len(family)-4] + "y", true},
		{"invalid bytes are one each", ascii + "\xff" + "x", ascii + "\xff" + "y", true},
		{"cut lone surrogate", ascii + `\ud83d` + "x", ascii + `\ud83d\ud83d`, true},
	} {
		a := keyOf(t, `{"prompt":"`+tc.a+`"}`, ShapeCompletion, 100)
		b := keyOf(t, `{"prompt":"`+tc.b+`"}`, ShapeCompletion, 100)
		if a.used != 100 || b.used != 100 {
			t.Errorf("%s: windows of %d and %d characters, want 100", tc.name, a.used, b.used)
		}
		if (a.key == b.key) != tc.same {
			t.Errorf("%s: same key %v, want %v", tc.name, a.key == b.key, tc.same)
		}
	}
}

func TestC095_MediaStandAsDigests(t *testing.T) {
	header := strings.Repeat("iVBORw0KGgo", 20)
	image := func(i int) string {
		data := header + strings.Repeat("A", 1<<20) + fmt.Sprint(i)
		return `{"type":"image_url","image_url":{"url":"data:image/png;base64,` + data + `"}}`
	}
	ask := func(before, image, after string) result {
		return keyOf(t, `{"messages":[{"role":"user","content":[{"type":"text","text":"`+before+`"},`+image+`,{"type":"text","text":"`+after+`"}]}]}`, ShapeChat, 1024)
	}
	var images, questions []result
	for i := range 8 {
		images = append(images, ask("look:", image(i), "what is it?"))
		questions = append(questions, ask("look:", image(0), fmt.Sprintf("question %d", i)))
	}
	wantDistinct(t, "images", images...)
	wantDistinct(t, "questions", questions...)
	wantSame(t, "same image and question", images[0], ask("look:", image(0), "what is it?"))
	if want := len("look:") + 1 + len("what is it?"); images[0].used != want {
		t.Errorf("window of %d characters, want %d: the image counts as one", images[0].used, want)
	}
	long := strings.Repeat("w", 2000)
	wantSame(t, "an image after the window", ask(long, image(1), ""), ask(long, image(2), ""))
}

func TestC113_FieldsAreSeparated(t *testing.T) {
	text := func(prompt, hint string) result {
		return keyOf(t, fmt.Sprintf(`{"prompt":%q,"prompt_cache_key":%q}`, prompt, hint), ShapeCompletion, 100)
	}
	raw := func(body, hint string) (r result) {
		r.key, r.used, r.ok = BytesKey([]byte(body), 100, hint)
		return r
	}
	wantDistinct(t, "text and hint",
		text("c", "ab"), text("bc", "a"), text("abc", ""), text("", "abc"), text("ab", "c"), text("abc", "abc"), text("abc", "abd"),
		keyOf(t, `{"prompt":["ab","c"]}`, ShapeCompletion, 100), keyOf(t, `{"prompt":["a","bc"]}`, ShapeCompletion, 100))
	wantDistinct(t, "bytes and hint", raw("c", "ab"), raw("bc", "a"), raw("abc", ""), raw("", "abc"), raw("ab", "c"), raw("abc", "abc"), text("abc", ""))
}

func TestBytesKeyWindow(t *testing.T) {
	body := []byte(strings.Repeat("a", 1000))
	for _, tc := range []struct{ prefixLength, want int }{{-1, 0}, {0, 0}, {1, 1}, {999, 999}, {1000, 1000}, {5000, 1000}} {
		key, used, ok := BytesKey(body, tc.prefixLength, "h")
		same, _, _ := BytesKey(body[:tc.want], 5000, "h")
		if used != tc.want || !ok || key != same {
			t.Errorf("%d bytes: used %d, ok %v, key %x, want %d and %x", tc.prefixLength, used, ok, key, tc.want, same)
		}
	}
}

// Model and CacheKey may outlive the body's buffer.
func TestScanCopiesStrings(t *testing.T) {
	raw := []byte(`{"model":"m1","prompt_cache_key":"k1"}`)
	body, err := Scan(raw, ShapeChat)
	if err != nil {
		t.Fatal(err)
	}
	copy(raw, bytes.Repeat([]byte("x"), len(raw)))
	if body.Model != "m1" || body.CacheKey != "k1" {
		t.Errorf("model %q, cache key %q after the buffer was reused", body.Model, body.CacheKey)
	}
}
