package prompt

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Generators of bodies as clients write them and slightly beyond: every form of
// content, escapes of every kind, duplicate and misplaced members, white space.

var (
	genGap  = rapid.SampledFrom([]string{"", "", "", " ", "\n\t"})
	genText = rapid.Custom(func(t *rapid.T) string {
		pieces := rapid.SliceOfN(rapid.SampledFrom([]string{
			"word ", "a", "é", "字", "😀", "\xff", `\n`, `\"`, `\\`, `\/`, `\u0041`, `\u000a`, `\u0022`, `\u0000`, `\\u`, `\\/`, `\u5b57`, `\ud83d\ude00`, `\ud83d`, `\ude00`, "0123456789abcdef0123456789",
		}), 0, 12).Draw(t, "pieces")
		return `"` + strings.Repeat(strings.Join(pieces, ""), rapid.SampledFrom([]int{1, 1, 1, 1, 1, 20}).Draw(t, "times")) + `"`
	})
	genScalar = rapid.SampledFrom([]string{"null", "true", "false", "0", "-12", "1.5", "1e9", "9223372036854775807", "-9223372036854775809", "{}", "[]", `{"a":[1,"]"]}`})
	genPart   = rapid.Custom(func(t *rapid.T) string {
		kind := rapid.SampledFrom([]string{`"text"`, `"input_text"`, `"te\u0078t"`, `"output_text"`, `"image_url"`, `"tool_result"`, `"refusal"`, "null"}).Draw(t, "type")
		second := rapid.SampledFrom([]string{"text", "text", "text", "text", "input_audio", "output", "content", "cache_control"}).Draw(t, "second")
		return object(t, "type", kind, second, rapid.OneOf(genText, genScalar, list(genItem)).Draw(t, "text"))
	})
	// genItem is a part that holds parts, two levels deep, which is one more than is looked into.
	genItem = rapid.Custom(func(t *rapid.T) string {
		return object(t, "type", `"text"`, rapid.SampledFrom([]string{"text", "file", "x", "content"}).Draw(t, "second"), rapid.OneOf(genText, list(genText)).Draw(t, "content"))
	})
	genParts   = list(rapid.OneOf(genPart, genPart, genText, genScalar))
	genContent = rapid.OneOf(genText, genText, genParts, genScalar)
	genMessage = rapid.Custom(func(t *rapid.T) string {
		pairs := []string{"role", `"user"`, "content", genContent.Draw(t, "content"), "tool_calls", genScalar.Draw(t, "calls"), "content", genContent.Draw(t, "again")}
		from := rapid.IntRange(0, 2).Draw(t, "from") * 2
		pairs = pairs[from : rapid.IntRange(from/2, 4).Draw(t, "to")*2]
		if rapid.Bool().Draw(t, "tool") {
			extra := rapid.SampledFrom([]string{"name", "tool_call_id", "reasoning", "reasoning_content", "function_call", "role", "refusal"}).Draw(t, "extra")
			pairs = append(pairs[:len(pairs):len(pairs)], extra, rapid.OneOf(genText, genScalar).Draw(t, "value"))
		}
		return object(t, pairs...)
	})
	genMessages = list(rapid.OneOf(genMessage, genMessage, genPart, genText, genScalar))
	genPrompt   = list(rapid.OneOf(genText, genScalar, list(rapid.OneOf(genScalar, genText))))
)

func list(element *rapid.Generator[string]) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		gap := genGap.Draw(t, "gap")
		return "[" + gap + strings.Join(rapid.SliceOfN(element, 0, 4).Draw(t, "elements"), gap+","+gap) + gap + "]"
	})
}

func object(t *rapid.T, pairs ...string) string {
	gap := genGap.Draw(t, "gap")
	var members []string
	for i := 0; i < len(pairs); i += 2 {
		members = append(members, fmt.Sprintf("%q%s:%s%s", pairs[i], gap, gap, pairs[i+1]))
	}
	return "{" + gap + strings.Join(members, gap+","+gap) + gap + "}"
}

func TestGeneratedBodiesAgreeWithReference(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		raw := object(r,
			"model", rapid.OneOf(genText, genScalar).Draw(r, "model"),
			"messages", rapid.OneOf(genMessages, genMessages, genContent).Draw(r, "messages"),
			"system", genContent.Draw(r, "system"),
			"stream", genScalar.Draw(r, "stream"),
			"prompt", rapid.OneOf(genPrompt, genContent).Draw(r, "prompt"),
			"input", rapid.OneOf(genMessages, genContent).Draw(r, "input"),
			"instructions", genContent.Draw(r, "instructions"),
			rapid.SampledFrom(seedFields[:]).Draw(r, "seed"), rapid.OneOf(genText, genScalar).Draw(r, "salt"),
			rapid.SampledFrom(frontFields[:]).Draw(r, "front"), rapid.OneOf(genText, genScalar, genParts).Draw(r, "tools"),
			"prompt_cache_key", rapid.OneOf(genText, genScalar).Draw(r, "cache key"),
		)
		prefixLength := rapid.IntRange(0, 80).Draw(r, "prefix length")
		for shape := ShapeNone; shape <= ShapeAnthropic; shape++ {
			compareWithReference(r, []byte(raw), shape, prefixLength, "")
		}
		cut := rapid.IntRange(0, len(raw)).Draw(r, "cut")
		compareWithReference(r, []byte(raw[:cut]), ShapeChat, prefixLength, "")
	})
}
