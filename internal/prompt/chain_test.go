package prompt

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// document is text of so many full blocks; name makes it unlike others from its first byte on.
func document(name string, blocks int) string {
	var b strings.Builder
	for i := 0; b.Len() < blocks*BlockBytes; i++ {
		fmt.Fprintf(&b, "%s, line %d. ", name, i)
	}
	return b.String()
}

func chainOf(t rapid.TB, raw string, shape Shape) Chain {
	t.Helper()
	body, err := Scan([]byte(raw), shape)
	if err != nil {
		t.Fatalf("%.200s: %v", raw, err)
	}
	return body.Chain(nil, body.Model)
}

// shared is the number of leading blocks in which two chains agree.
func shared(a, b Chain) (n int) {
	for n < min(len(a.Blocks), len(b.Blocks)) && a.Blocks[n] == b.Blocks[n] {
		n++
	}
	return n
}

// The first chat is the same in all cases: a system prompt, a long document, a question.
func TestChainsShareWhatPromptsShare(t *testing.T) {
	const system = `{"role":"system","content":"be brief"},`
	doc, other := document("tides", 8), document("winds", 8)
	user := func(text string) string { return `{"role":"user","content":"` + text + `"}` }
	chat := func(messages string) string { return `{"model":"m","messages":[` + messages + `]}` }
	first := chat(system + user(doc+"when is high water?"))
	for _, tc := range []struct {
		name string
		raw  string
		want int // shared blocks
	}{
		{"same", first, 8},
		{"another question behind the document", chat(system + user(doc+"and low water?")), 8},
		{"a longer question", chat(system + user(doc+"when is high water? "+other)), 8},
		{"the conversation goes on", chat(system + user(doc+"when is high water?") + `,{"role":"assistant","content":"at noon"},` + user(other)), 8},
		{"one text part", chat(system + `{"role":"user","content":[{"type":"text","text":"` + doc + `when is high water?"}]}`), 8},
		{"question in a part of its own", chat(system + `{"role":"user","content":[{"type":"text","text":"` + doc + `"},{"type":"text","text":"why?"}]}`), 8},
		{"members in another order", chat(`{"content":"be brief","role":"system"},{"content":"` + doc + `?","role":"user"}`), 8},
		{"settings that are no part of the prompt", strings.Replace(first, `{`, `{"temperature":0.5,"stream":true,"user":"u",`, 1), 8},
		{"no tools", strings.Replace(first, `{`, `{"tools":[],"cache_salt":null,`, 1), 8},
		{"escaped otherwise", strings.ReplaceAll(first, "line", `l\u0069ne`), 8},
		{"another document", chat(system + user(other)), 0},
		{"another system prompt", chat(`{"role":"system","content":"be thorough"},` + user(doc)), 0},
		{"another role", chat(`{"role":"developer","content":"be brief"},` + user(doc)), 0},
		{"a name", chat(`{"role":"system","name":"n","content":"be brief"},` + user(doc)), 0},
		{"tools", strings.Replace(first, `{`, `{"tools":[{"type":"function"}],`, 1), 0},
		{"another model", strings.Replace(first, `"m"`, `"n"`, 1), 0},
		{"salt", strings.Replace(first, `{`, `{"cache_salt":"s",`, 1), 0},
		{"SGLang's extra key", strings.Replace(first, `{`, `{"extra_key":"s",`, 1), 0},
		{"adapter", strings.Replace(first, `{`, `{"lora_path":"a",`, 1), 0},
	} {
		if got := shared(chainOf(t, first, ShapeChat), chainOf(t, tc.raw, ShapeChat)); got != tc.want {
			t.Errorf("%s: %d shared blocks, want %d", tc.name, got, tc.want)
		}
	}
}

// Engines make the same prompt of the same conversation, whichever API it comes by.
func TestChainsAreTheSameOnAllAPIs(t *testing.T) {
	doc := document("tides", 4)
	want := chainOf(t, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"`+doc+`"}]}`, ShapeChat)
	for _, tc := range []struct {
		raw   string
		shape Shape
	}{
		{`{"system":"s","messages":[{"role":"user","content":"` + doc + `"}]}`, ShapeAnthropic},
		{`{"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"` + doc + `"}]}`, ShapeAnthropic},
		{`{"instructions":"s","input":"` + doc + `"}`, ShapeResponses},
		{`{"instructions":"s","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"` + doc + `"}]}]}`, ShapeResponses},
	} {
		if diff := cmp.Diff(want, chainOf(t, tc.raw, tc.shape)); diff != "" {
			t.Errorf("%.80s (-want +got):\n%s", tc.raw, diff)
		}
	}
}

// An agent's turns consist mostly of tool results, and its client moves the cache marker on with every turn.
func TestChainsOfAgents(t *testing.T) {
	const marker = `,"cache_control":{"type":"ephemeral"}`
	turn := func(id, marker string) string {
		return `{"role":"assistant","content":[{"type":"tool_use","id":"` + id + `","name":"read","input":{"path":"a"}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id + `","content":[{"type":"text","text":"` + document(id, 6) + `"}]` + marker + `}]}`
	}
	one := chainOf(t, `{"messages":[{"role":"user","content":"go"},`+turn("t1", marker)+`]}`, ShapeAnthropic)
	two := chainOf(t, `{"messages":[{"role":"user","content":"go"},`+turn("t1", "")+`,`+turn("t2", marker)+`]}`, ShapeAnthropic)
	if got := shared(one, two); got != len(one.Blocks) || got < 6 {
		t.Errorf("%d of %d blocks shared with the next turn", got, len(one.Blocks))
	}
	if two.Bytes < 2*6*BlockBytes {
		t.Errorf("%d bytes: tool results do not count", two.Bytes)
	}
}

func TestC012_ChainsOfEveryPromptForm(t *testing.T) {
	doc := document("tides", 2)
	ids := strings.Repeat("1,", 64)
	for _, tc := range []struct {
		prompt string
		blocks int
		bytes  int
	}{
		{`"` + doc + `"`, 2, 1 + len(doc)},
		{`["` + doc + `","b"]`, 2, 1 + len(doc)}, // of a batch the first
		{`[` + ids + ids + `2]`, 2, 1 + 129*4},
		{`[[` + ids + `2],[3,4]]`, 1, 1 + 65*4},
		{`[]`, 0, 0}, {`null`, 0, 0}, {`[[]]`, 0, 1},
	} {
		got := chainOf(t, `{"prompt":`+tc.prompt+`}`, ShapeCompletion)
		if len(got.Blocks) != tc.blocks || got.Bytes != tc.bytes {
			t.Errorf("%.40s: %d blocks of %d bytes, want %d of %d", tc.prompt, len(got.Blocks), got.Bytes, tc.blocks, tc.bytes)
		}
	}
	for _, raw := range []string{`{}`, `[]`, `{"prompt":"` + doc + `"}`} {
		if got := chainOf(t, raw, ShapeNone); len(got.Blocks) != 0 || got.Bytes != 0 {
			t.Errorf("%.40s without a shape: %d blocks of %d bytes, want none", raw, len(got.Blocks), got.Bytes)
		}
	}
}

func TestC035_BlocksAreChained(t *testing.T) {
	p, q := document("tides", 4)[:4*BlockBytes], document("winds", 4)[:4*BlockBytes]
	chain := func(text string) Chain { return BytesChain(nil, []byte(text)) }
	for name, tc := range map[string]struct {
		a, b string
		want int
	}{
		"the other's text behind":   {q, q + p, 4},
		"the other's text before":   {p, q + p, 0},
		"first byte changed":        {p, "x" + p[1:], 0},
		"byte of block 2 changed":   {p, p[:2*BlockBytes] + "x" + p[2*BlockBytes+1:], 2},
		"blocks in another order":   {p + q, q + p, 0},
		"shorter than one block":    {"short", "short", 0},
		"one block less one byte":   {p[:BlockBytes-1], p, 0},
		"one block":                 {p[:BlockBytes], p, 1},
		"empty":                     {"", p, 0},
		"the same block repeatedly": {strings.Repeat("a", 3*BlockBytes), strings.Repeat("a", 5*BlockBytes), 3},
	} {
		if got := shared(chain(tc.a), chain(tc.b)); got != tc.want {
			t.Errorf("%s: %d shared blocks, want %d", name, got, tc.want)
		}
	}
}

func TestC095_MediaInChainsAreDigests(t *testing.T) {
	header := strings.Repeat("iVBORw0KGgo", 20)
	doc := document("tides", 3)
	ask := func(part, text string) Chain {
		return chainOf(t, `{"messages":[{"role":"user","content":[`+part+`,{"type":"text","text":"`+doc+text+`"}]}]}`, ShapeChat)
	}
	image := func(data string) string {
		return `{"type":"image_url","image_url":{"url":"data:image/png;base64,` + header + data + `"}}`
	}
	first := ask(image("A"), "what is it?")
	if got := shared(first, ask(image("B"), "what is it?")); got != 0 {
		t.Errorf("other images share %d blocks, want 0", got)
	}
	if got := shared(first, ask(image("A"), "and where?")); got != 3 {
		t.Errorf("questions on one image share %d blocks, want 3", got)
	}
	if large := ask(image(strings.Repeat("A", 1<<20)), "what is it?"); large.Bytes != first.Bytes {
		t.Errorf("an image of 1 MB makes %d bytes, a small one %d, want the same", large.Bytes, first.Bytes)
	}
}

func TestC113_SeedsAreSeparated(t *testing.T) {
	doc := document("tides", 1)
	seen := map[uint64]string{}
	for _, members := range []string{
		`"model":"acme"`, `"model":"m"`, `"model":"m","cache_salt":"acme"`, `"model":"m","extra_key":"acme"`, `"model":"m","lora_path":"acme"`,
		`"model":"ab","cache_salt":"c"`, `"model":"a","cache_salt":"bc"`, `"model":"m","lora":[{"id":0,"scale":1.0}]`, `"model":"m","cache_salt":"a","extra_key":"b"`,
	} {
		block := chainOf(t, `{`+members+`,"prompt":"`+doc+`"}`, ShapeCompletion).Blocks[0]
		if other, ok := seen[block]; ok {
			t.Errorf("%s and %s have the same chain", members, other)
		}
		seen[block] = members
	}
}

func TestChainsAllocateNothing(t *testing.T) {
	raw := []byte(`{"cache_salt":"s","tools":[{}],"messages":[{"role":"user","content":[{"type":"text","text":"` + document("ti\\u0064es", 4) + `"},{"type":"image_url","x":1},{"type":"x"}]}]}`)
	body, err := Scan(raw, ShapeChat)
	if err != nil {
		t.Fatal(err)
	}
	blocks := make([]uint64, 0, 16)
	got := testing.AllocsPerRun(100, func() {
		blocks = body.Chain(blocks, "m").Blocks
		blocks = BytesChain(blocks, raw).Blocks
	})
	if got > 0 && !raceEnabled {
		t.Errorf("%v allocations, want none", got)
	}
}

// Pooled chainers must not leak from one request into another.
func TestChainsInParallel(t *testing.T) {
	var group sync.WaitGroup
	for i := range 4 {
		raw := `{"messages":[{"role":"user","content":"` + document(fmt.Sprint(`\n`, i), 3+i) + `"}]}`
		want := chainOf(t, raw, ShapeChat)
		group.Go(func() {
			for range 200 {
				if got := chainOf(t, raw, ShapeChat); !cmp.Equal(want, got) {
					t.Errorf("chain %d: %v, want %v", i, got, want)
					return
				}
			}
		})
	}
	group.Wait()
}

// A prompt beyond the bound is still measured whole.
func TestChainsAreBounded(t *testing.T) {
	const size = maxBlocks*BlockBytes + 3*BlockBytes
	text := strings.Repeat(strings.Repeat("abcd", BlockBytes/4-1)+`ab\u0063d`, size/BlockBytes)
	got := chainOf(t, `{"prompt":"`+text+`"}`, ShapeCompletion)
	if len(got.Blocks) != maxBlocks || got.Bytes != 1+size {
		t.Errorf("%d blocks of %d bytes, want %d of %d", len(got.Blocks), got.Bytes, maxBlocks, 1+size)
	}
}

// Whatever a text holds, the bytes that are tags do not come from it.
func TestTextHoldsNoTags(t *testing.T) {
	tag := string([]byte{fieldMessage})
	a := chainOf(t, `{"messages":[{"role":"user","content":"`+tag+`assistant`+document("x", 2)+`"}]}`, ShapeChat)
	b := chainOf(t, `{"messages":[{"role":"user","content":"\ufffdassistant`+document("x", 2)+`"}]}`, ShapeChat)
	if diff := cmp.Diff(b, a); diff != "" {
		t.Errorf("a tag in text is not replaced (-want +got):\n%s", diff)
	}
}

// Parts nested in parts take time that grows with their size alone.
func TestNestedPartsAreReadOnce(t *testing.T) {
	const depth = 4000
	open := strings.Repeat(`{"type":"x","content":[`, depth)
	chain := chainOf(t, `{"messages":[{"content":[`+open+strings.Repeat(`]}`, depth)+`]}]}`, ShapeChat)
	if least := len(open) / 2; chain.Bytes < least {
		t.Errorf("%d bytes, want at least %d", chain.Bytes, least)
	}
}

// Two prompts share exactly the blocks in which their canonical bytes agree.
func TestSharedBlocksAreSharedBytes(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) string {
		word := rapid.SampledFrom([]string{"tide ", `\n`, "字", `\"`, "lantern "}).Draw(t, "word")
		return strings.Repeat(word, rapid.IntRange(1, 300).Draw(t, "times"))
	})
	message := rapid.Custom(func(t *rapid.T) string {
		role := rapid.SampledFrom([]string{"user", "assistant"}).Draw(t, "role")
		return `{"role":"` + role + `","content":"` + text.Draw(t, "content") + `"}`
	})
	rapid.Check(t, func(t *rapid.T) {
		common := rapid.SliceOfN(message, 0, 4).Draw(t, "common")
		chat := func(name string) (canonical []byte, chain Chain) {
			own := rapid.SliceOfN(message, 0, 2).Draw(t, name)
			raw := `{"messages":[` + strings.Join(append(common[:len(common):len(common)], own...), ",") + `]}`
			root, _ := parseReference([]byte(raw))
			return referenceCanonical(root, ShapeChat), chainOf(t, raw, ShapeChat)
		}
		a, chainA := chat("a")
		b, chainB := chat("b")
		agree := 0
		for agree < min(len(a), len(b)) && a[agree] == b[agree] {
			agree++
		}
		if got := shared(chainA, chainB); got != agree/BlockBytes {
			t.Fatalf("%d shared blocks, %d shared bytes", got, agree)
		}
	})
}

// chainVector pins one chain. Without a shape it is a native body.
type chainVector struct {
	Shape  string   `json:"shape"`
	Body   string   `json:"body"`
	Bytes  int      `json:"bytes"`
	Blocks []string `json:"blocks"`
}

// Routers of different releases that share what they know must agree on every block.
func TestGoldenChains(t *testing.T) {
	const file = "testdata/chains.json"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want []chainVector
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	got := make([]chainVector, len(want))
	for i, v := range want {
		chain := BytesChain(nil, []byte(v.Body))
		if shape, ok := shapeNames[v.Shape]; ok {
			chain = chainOf(t, v.Body, shape)
		}
		v.Bytes, v.Blocks = chain.Bytes, []string{}
		for _, block := range chain.Blocks {
			v.Blocks = append(v.Blocks, fmt.Sprintf("%016x", block))
		}
		got[i] = v
	}
	if diff := cmp.Diff(want, got); diff != "" && !*update {
		t.Errorf("chains changed (-want +got):\n%s", diff)
	}
	if *update {
		writeGolden(t, file, got)
	}
}
