package emulator

import (
	"encoding/binary"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/zeebo/xxh3"
)

// tokenBytes is the length of a token: four bytes of the canonical prompt, about what a tokenizer makes of English.
// An id of a prompt given as token ids is one token, too.
const tokenBytes = 4

// prompt is the canonical text that an engine's chat template would render, padded so that every message header and
// every content begin on a token boundary, as special tokens make them do in a real one. An answer that is quoted in
// the next turn therefore falls on the very tokens it was generated as.
type prompt []byte

// add appends text and pads it to whole tokens.
func (p prompt) add(text ...string) prompt {
	for _, t := range text {
		p = append(p, t...)
	}
	for len(p)%tokenBytes != 0 {
		p = append(p, 0)
	}
	return p
}

func (p prompt) addMessage(role, content string) prompt {
	return p.add("<|", role, "|>\n").add(content, "\n")
}

// addID appends one token given by its id.
func (p prompt) addID(id uint32) prompt {
	return binary.LittleEndian.AppendUint32(p, id)
}

// ids are the prompt's tokens as addID takes them.
func (p prompt) ids() []uint32 {
	ids := make([]uint32, p.tokens())
	for i := range ids {
		ids[i] = binary.LittleEndian.Uint32(p[i*tokenBytes:])
	}
	return ids
}

func (p prompt) tokens() int { return len(p) / tokenBytes }

// chain returns the chained hashes of the full blocks of text. The seed separates prompts that may not share blocks.
func chain(seed uint64, text []byte, blockTokens int) []uint64 {
	size := blockTokens * tokenBytes
	hashes := make([]uint64, 0, len(text)/size)
	for ; len(text) >= size; text = text[size:] {
		seed = xxh3.HashSeed(text[:size], seed)
		hashes = append(hashes, seed)
	}
	return hashes
}

// answerToken returns token i of the n that make up the answer of a seed: three letters and a space, a full stop at
// the very end. Clients may trim the answer without moving its tokens.
func answerToken(seed uint64, i, n int) [tokenBytes]byte {
	x := mix(seed + uint64(i))
	token := [tokenBytes]byte{'a' + byte(x%26), 'a' + byte(x>>8%26), 'a' + byte(x>>16%26), ' '}
	if i == n-1 {
		token[tokenBytes-1] = '.'
	}
	return token
}

// appendAnswer appends the whole answer of a seed, n tokens.
func appendAnswer(text []byte, seed uint64, n int) []byte {
	for i := range n {
		token := answerToken(seed, i, n)
		text = append(text, token[:]...)
	}
	return text
}

// mix is the output function of SplitMix64 (Steele, Lea and Flood, 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// content is message content as the chat APIs allow it: a string, a list of parts, or null.
type content jsontext.Value

// UnmarshalJSON keeps the raw value; text reads it.
func (c *content) UnmarshalJSON(raw []byte) error {
	*c = append((*c)[:0], raw...)
	return nil
}

// text flattens content: strings and text parts by their text, everything else by its JSON.
func (c content) text() (string, error) {
	switch jsontext.Value(c).Kind() {
	case 0, 'n':
		return "", nil
	case '"':
		if s, err := jsontext.AppendUnquote(make([]byte, 0, len(c)), c); err == nil {
			return string(s), nil
		}
		var s string // of what is no UTF-8
		err := unmarshal(c, &s)
		return s, err
	case '[':
		return partsText(c)
	}
	return "", errors.New("content: neither a string nor a list of parts")
}

func partsText(raw []byte) (string, error) {
	var parts []jsontext.Value
	if err := unmarshal(raw, &parts); err != nil {
		return "", err
	}
	var text []byte
	for _, raw := range parts {
		var part struct {
			Text *string `json:"text"`
		}
		if raw.Kind() == '{' {
			if err := unmarshal(raw, &part); err != nil {
				return "", err
			}
		}
		if part.Text != nil {
			text = append(text, *part.Text...)
		} else {
			text = append(text, raw...)
		}
	}
	return string(text), nil
}

// prompts reads a completion prompt or an embedding input: a string, strings, token ids, or lists of token ids.
func prompts(raw jsontext.Value) ([]prompt, error) {
	if raw.Kind() != '[' {
		p, err := onePrompt(raw)
		return []prompt{p}, err
	}
	var items []jsontext.Value
	if err := unmarshal(raw, &items); err != nil {
		return nil, err
	}
	if len(items) > 0 && items[0].Kind() == '0' {
		p, err := onePrompt(raw)
		return []prompt{p}, err
	}
	list := make([]prompt, 0, len(items))
	for _, item := range items {
		p, err := onePrompt(item)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

func onePrompt(raw jsontext.Value) (prompt, error) {
	if raw.Kind() == '"' {
		var text string
		err := unmarshal(raw, &text)
		return prompt(nil).add(text), err
	}
	var ids []uint32
	if err := unmarshal(raw, &ids); err != nil {
		return nil, errors.New("prompt: neither text nor token ids")
	}
	var p prompt
	for _, id := range ids {
		p = p.addID(id)
	}
	return p, nil
}

// unmarshal reads JSON as leniently as the engines do: the last of duplicate names counts, lone surrogates pass.
func unmarshal(raw []byte, v any) error {
	return json.Unmarshal(raw, v, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}
