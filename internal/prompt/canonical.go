package prompt

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// The canonical prompt is what an engine's chat template makes of a body, as far
// as that can be told without the template: the same parts in about the same
// order, so that where two of them first differ is where the engine's token
// sequences do. First come the tools, then message by message the role, the other
// members and the content.
//
// It is a stream of fields. A tag begins each, and none has a length or an end: a
// text that grows, or a conversation, keeps all that stands before. Tags are bytes
// that UTF-8 never uses and that text is kept free of. Tags are part of the hashes,
// which a fleet's routers must agree on: never renumber them.
//
// Text stands there in the normal form of normal.go.
const (
	fieldMessage = 0xf8 // a message begins; its role, decoded
	fieldText    = 0xf9 // decoded text
	fieldMember  = 0xfa // the decoded name of a member, whose value follows
	fieldJSON    = 0xfb // a value as it stands in the body: tools, tool calls, unknown forms
	fieldMedia   = 0xfc // 8 bytes: the digest of an image, a sound or a file
	fieldTokens  = 0xfd // token ids
	fieldPart    = 0xfe // a part that is neither text nor media; its members
	fieldPartEnd = 0xff // its end: the members that follow are the message's
)

// prompt writes the prompt of a body.
func (c *chainer) prompt(b *Body) {
	if b.shape == ShapeCompletion {
		c.completion(b.field(0))
		return
	}
	for i, at := range b.front {
		c.front(frontFields[i], b.at(at))
	}
	switch b.shape {
	case ShapeChat:
		c.messages(b.field(0))
	case ShapeResponses:
		c.turn("system", b.field(0))
		c.input(b.field(1))
	case ShapeAnthropic:
		c.turn("system", b.field(0))
		c.messages(b.field(1))
	}
}

// front writes what stands before the messages. An empty list is none.
func (c *chainer) front(name string, v value) {
	if v.isNull() || v.isArray() && v.isEmpty() {
		return
	}
	c.begin(fieldMember)
	c.word(name)
	c.value(v)
}

// turn writes what engines make a message of: the system prompt of the APIs that
// have a member for it, and an input that is only a string.
func (c *chainer) turn(role string, content value) {
	if !content.isNull() {
		c.begin(fieldMessage)
		c.word(role)
		c.content(content)
	}
}

// messages writes the elements of a list of messages. It finds each one's members
// and its end in the same pass: long contents are not skipped twice.
func (c *chainer) messages(list value) {
	if !list.isArray() {
		c.value(list)
		return
	}
	for i := next(list, 1); list[i] != ']'; {
		end := 0
		if list[i] == '{' {
			end = c.message(list, i)
		} else {
			end = skip(list, i)
			c.value(list[i:end])
		}
		i = nextItem(list, end)
	}
}

// messageMembers are the members of a message that templates render, in the order
// in which they do.
var messageMembers = [...]string{"role", "name", "tool_call_id", "reasoning_content", "reasoning", "content", "tool_calls", "function_call"}

// Places in messageMembers.
const (
	memberRole    = 0
	memberContent = 5
)

// place is the place of a name in messageMembers, negative if it is not there.
func place(name []byte) int {
	switch string(name) { // the two that every message has
	case "role":
		return memberRole
	case "content":
		return memberContent
	}
	for i := range messageMembers {
		if string(name) == messageMembers[i] {
			return i
		}
	}
	return -1
}

// message writes the message that starts at i and returns the index after it.
// Whatever order its members have in the body, they have one here.
func (c *chainer) message(list value, i int) (end int) {
	var found [len(messageMembers)]value
	end = list.object(i, func(key, val value) bool {
		var scratch nameBuffer
		if i := place(memberName(key, &scratch)); i >= 0 {
			found[i] = val
		}
		return true
	})
	c.begin(fieldMessage)
	if role := found[memberRole]; role.isString() {
		c.text(role)
	} else {
		c.value(role)
	}
	for i := memberRole + 1; i < len(found); i++ {
		switch {
		case found[i].isNull():
		case i == memberContent:
			c.content(found[i])
		default:
			c.begin(fieldMember)
			c.word(messageMembers[i])
			c.value(found[i])
		}
	}
	return end
}

// input writes the input of a Responses body: a string, or items of which those
// with a role are messages and the others are parts of their own.
func (c *chainer) input(input value) {
	if !input.isArray() {
		c.turn("user", input)
		return
	}
	for item := range input.elements() {
		if item.isObject() && item.member("role") != nil {
			c.message(item, 0)
		} else {
			c.part(item)
		}
	}
}

// content writes a message's content: a string or a list of parts.
func (c *chainer) content(content value) {
	if !content.isArray() {
		c.value(content)
		return
	}
	for part := range content.elements() {
		c.part(part)
	}
}

// part writes one part of a content. Media are written as a digest: what they are
// in tokens has nothing to do with their size in the body. Any other part that is
// not text, such as the result of a tool, is written member by member.
func (c *chainer) part(part value) {
	if !part.isObject() {
		c.value(part)
		return
	}
	var kind, text value
	media := false
	for key, val := range part.members() {
		switch {
		case key.is("type"):
			kind = val
		case key.is("text"):
			text = val
		default:
			media = media || key.isMedia()
		}
	}
	switch {
	case text.isString() && (kind.is("text") || kind.is("input_text") || kind.is("output_text")):
		c.value(text)
	case media || kind.isMedia():
		c.media(part)
	default:
		c.members(part)
	}
}

// isMedia reports whether v is a string that names a kind of media, be it as the
// type of a part or as its member (vLLM takes parts without a type).
func (v value) isMedia() bool {
	if !v.isString() {
		return false
	}
	var scratch nameBuffer
	switch string(memberName(v, &scratch)) {
	case "image", "image_url", "image_embeds", "input_image", "image_pil",
		"audio", "audio_url", "audio_embeds", "input_audio",
		"video", "video_url", "input_video",
		"file", "input_file", "document":
		return true
	}
	return false
}

// media writes 8 bytes for a part of any size.
func (c *chainer) media(part value) {
	c.begin(fieldMedia)
	c.scratch = binary.LittleEndian.AppendUint64(c.scratch[:0], xxh3.Hash(part))
	c.write(c.scratch)
}

// members writes a part's members in their order. Cache markers are left out: they
// are no part of the prompt, and clients move them on with every turn.
func (c *chainer) members(part value) {
	c.begin(fieldPart)
	for key, val := range part.members() {
		if key.is("cache_control") || val.isNull() {
			continue
		}
		c.begin(fieldMember)
		c.text(key)
		if !c.inPart && val.isArray() && (key.is("content") || key.is("output")) {
			c.inPart = true // parts in parts in parts are no API's, and would take time quadratic in their depth
			c.content(val)
			c.inPart = false
		} else {
			c.value(val)
		}
	}
	c.begin(fieldPartEnd)
}

// completion writes the prompt of a completion, of a batch the first one.
func (c *chainer) completion(prompt value) {
	if !prompt.isArray() {
		c.value(prompt)
		return
	}
	for first := range prompt.elements() {
		switch {
		case first.isString():
			c.value(first)
		case first.isArray():
			c.tokens(first)
		default:
			c.tokens(prompt)
		}
		return
	}
}

// tokens writes token ids as four bytes of seven bits each: as many bytes as a
// token of text usually has. What is no such id is written as it stands.
func (c *chainer) tokens(list value) {
	c.begin(fieldTokens)
	ids := c.scratch[:0]
	for i := next(list, 1); list[i] != ']'; {
		id, end := tokenID(list, i)
		if end > i {
			ids = append(ids, byte(id>>21), byte(id>>14&0x7f), byte(id>>7&0x7f), byte(id&0x7f))
		}
		if end == i || len(ids) == BlockBytes {
			c.write(ids)
			ids = ids[:0]
		}
		if end == i {
			end = skip(list, i)
			c.value(list[i:end])
		}
		i = nextItem(list, end)
	}
	c.write(ids)
}

// tokenID reads the number that starts at i. end is the index after it, or i if it
// is no whole number below 1<<28.
func tokenID(list value, i int) (id uint32, end int) {
	const digits = 9 // of a number below 1<<28; nine of them cannot overflow id
	for end = i; end < i+digits && isDigit(list[end]); end++ {
		id = id*10 + uint32(list[end]-'0')
	}
	if c := list[end]; id >= 1<<28 || c != ',' && c != ']' && !isSpace(c) {
		return 0, i
	}
	return id, end
}

// value writes a string as text, any other value as it stands, and null not at all.
func (c *chainer) value(v value) {
	switch {
	case v.isString():
		c.begin(fieldText)
		c.text(v)
	case !v.isNull():
		c.begin(fieldJSON)
		c.write(v)
	}
}

// begin writes the tag of a field.
func (c *chainer) begin(field byte) {
	c.bytes++
	if c.partial = append(c.partial, field); len(c.partial) == BlockBytes {
		c.block(c.partial)
		c.partial = c.partial[:0]
	}
}

// word writes text of ours, which is in normal form.
func (c *chainer) word(s string) {
	c.scratch = append(c.scratch[:0], s...)
	c.write(c.scratch)
}

// text writes the normal form of a string, given with its quotes. Where the string
// is its own, and most are all the way, it is hashed where it stands in the body.
func (c *chainer) text(quoted value) {
	for s := quoted[1 : len(quoted)-1]; len(s) > 0; {
		n := normalRun(s)
		c.write(s[:n])
		c.scratch, s = appendNormal(c.scratch[:0], s[n:])
		c.write(c.scratch)
	}
}
