package prompt

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"
)

// canon spells out the canonical prompt with literal tags over the tree of the
// reference.
type canon struct {
	out  []byte
	part bool
}

var normalForm = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\b", `\b`, "\f", `\f`, "\n", `\n`, "\r", `\r`, "\t", `\t`)

func (c *canon) tag(tag byte)       { c.out = append(c.out, tag) }
func (c *canon) normal(text string) { c.out = append(c.out, normalForm.Replace(text)...) }

func present(n node) bool { return n.kind != 0 && n.kind != 'n' }

func (c *canon) value(n node) {
	if n.kind == '"' {
		c.tag(0xf9)
		c.normal(n.text)
	} else if present(n) {
		c.tag(0xfb)
		c.out = append(c.out, n.raw...)
	}
}

func (c *canon) member(name string, n node) {
	if present(n) {
		c.tag(0xfa)
		c.normal(name)
		c.value(n)
	}
}

func (c *canon) message(n node) {
	c.tag(0xf8)
	if role := n.members["role"]; role.kind == '"' {
		c.normal(role.text)
	} else {
		c.value(role)
	}
	for _, name := range []string{"name", "tool_call_id", "reasoning_content", "reasoning"} {
		c.member(name, n.members[name])
	}
	c.content(n.members["content"])
	c.member("tool_calls", n.members["tool_calls"])
	c.member("function_call", n.members["function_call"])
}

func (c *canon) each(n node, add func(node)) {
	if n.kind != '[' {
		c.value(n)
		return
	}
	for _, item := range n.items {
		add(item)
	}
}

func (c *canon) messages(n node) {
	c.each(n, func(n node) {
		if n.kind == '{' {
			c.message(n)
		} else {
			c.value(n)
		}
	})
}

func (c *canon) content(n node) { c.each(n, c.addPart) }

var (
	textKinds  = []string{"text", "input_text", "output_text"}
	mediaKinds = strings.Fields("image image_url image_embeds input_image image_pil audio audio_url audio_embeds input_audio video video_url input_video file input_file document")
)

func isMedia(n node) bool {
	if slices.Contains(mediaKinds, n.members["type"].text) {
		return true
	}
	return slices.ContainsFunc(mediaKinds, func(kind string) bool { return n.members[kind].kind != 0 })
}

func (c *canon) addPart(n node) {
	switch {
	case n.kind != '{':
		c.value(n)
	case n.members["text"].kind == '"' && slices.Contains(textKinds, n.members["type"].text):
		c.value(n.members["text"])
	case isMedia(n):
		c.tag(0xfc)
		c.out = binary.LittleEndian.AppendUint64(c.out, xxh3.HashString(n.raw))
	default:
		c.item(n)
	}
}

func (c *canon) item(n node) {
	c.tag(0xfe)
	for i := 0; i < len(n.pairs); i += 2 {
		name, val := n.pairs[i].text, n.pairs[i+1]
		if (name != "content" && name != "output") || val.kind != '[' || c.part {
			if name != "cache_control" {
				c.member(name, val)
			}
			continue
		}
		c.tag(0xfa)
		c.normal(name)
		c.part = true
		c.content(val)
		c.part = false
	}
	c.tag(0xff)
}

func (c *canon) turn(role string, n node) {
	if present(n) {
		c.tag(0xf8)
		c.normal(role)
		c.content(n)
	}
}

func (c *canon) input(n node) {
	if n.kind != '[' {
		c.turn("user", n)
		return
	}
	for _, item := range n.items {
		if item.members["role"].kind != 0 {
			c.message(item)
		} else {
			c.addPart(item)
		}
	}
}

func (c *canon) completion(n node) {
	switch {
	case n.kind != '[':
		c.value(n)
	case len(n.items) == 0:
	case n.items[0].kind == '"':
		c.value(n.items[0])
	case n.items[0].kind == '[':
		c.tokens(n.items[0].items)
	default:
		c.tokens(n.items)
	}
}

func (c *canon) tokens(ids []node) {
	c.tag(0xfd)
	for _, n := range ids {
		id, err := strconv.ParseUint(n.raw, 10, 28)
		if err != nil {
			c.value(n)
			continue
		}
		c.out = append(c.out, byte(id/128/128/128), byte(id/128/128%128), byte(id/128%128), byte(id%128))
	}
}

func referenceCanonical(root node, shape Shape) []byte {
	var c canon
	if shape != ShapeNone && shape != ShapeCompletion {
		for _, name := range []string{"tools", "functions", "documents"} {
			if n := root.members[name]; n.kind != '[' || len(n.items) > 0 {
				c.member(name, n)
			}
		}
	}
	switch shape {
	case ShapeChat:
		c.messages(root.members["messages"])
	case ShapeCompletion:
		c.completion(root.members["prompt"])
	case ShapeResponses:
		c.turn("system", root.members["instructions"])
		c.input(root.members["input"])
	case ShapeAnthropic:
		c.turn("system", root.members["system"])
		c.messages(root.members["messages"])
	}
	return c.out
}

func referenceSeed(root node, shape Shape, model string) uint64 {
	out := []byte{0}
	out = binary.LittleEndian.AppendUint64(out, uint64(len(model)))
	out = append(out, model...)
	for i, name := range []string{"cache_salt", "extra_key", "lora", "lora_path", "lora_request"} {
		n := root.members[name]
		if shape == ShapeNone || !present(n) {
			continue
		}
		text := n.raw
		if n.kind == '"' {
			text = n.text
		}
		out = append(out, byte(1+i))
		out = binary.LittleEndian.AppendUint64(out, uint64(len(text)))
		out = append(out, text...)
	}
	return xxh3.HashSeed(out, 0x5741524d50415448)
}

// referenceChain hashes a canonical prompt that is there as a whole.
func referenceChain(canonical []byte, seed uint64) Chain {
	chain := Chain{Bytes: len(canonical)}
	for hash := seed; len(canonical) >= 256 && len(chain.Blocks) < 16384; canonical = canonical[256:] {
		hash += xxh3.Hash(canonical[:256])
		for _, factor := range []uint64{0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53, 1} {
			hash = (hash ^ hash>>33) * factor
		}
		chain.Blocks = append(chain.Blocks, hash)
	}
	return chain
}

// compareChain holds Chain against the reference, and the bytes after the last full
// block too. What is not UTF-8 only must be read without harm.
func compareChain(t rapid.TB, body *Body, root node, shape Shape, model string) {
	t.Helper()
	got := body.Chain(nil, model)
	if !utf8.Valid(body.Raw) {
		return
	}
	canonical := referenceCanonical(root, shape)
	want := referenceChain(canonical, referenceSeed(root, shape, model))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%.300q: chain (-want +got):\n%s", body.Raw, diff)
	}
	c := newChainer(nil)
	defer c.release()
	c.prompt(body)
	if rest := canonical[len(canonical)/256*256:]; !bytes.Equal(c.partial, rest) {
		t.Errorf("%.300q: last block %q, want %q", body.Raw, c.partial, rest)
	}
}
