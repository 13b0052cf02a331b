package prompt

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

var bodySeeds = []string{
	``, ` `, `null`, `[]`, `1`, `-0`, `01`, `1.`, `1e+5`, `-`, `NaN`, `tru`, `"`, `"a"`, `{`, `{}`, `{} {}`, "{}\x00", `{"a":1,}`, `[1,]`, `{"a" 1}`, `[1 2]`,
	"\xef\xbb\xbf{}", "\xff\xfe{\x00}\x00", "\"\n\"", `"\x"`, `"\u12"`, `"\u12g4"`, `"\ud83d\ude00"`, `"\ud83d"`, "\"\xff\xed\xa0\x80\"",
	`{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`,
	`{"mod\u0065l":"a","model":"b\ud83d","model":3}`,
	`{"model":"a","Model":"b","STREAM":true,"stream":false,"prompt_cache_key":"k"}`,
	`{"messages":[{"content":[{"type":"text","text":"h\u00e9\ud83d\ude00"},{"type":"image_url","image_url":{"url":"data:"}}]},{"content":null},7,{"content":5}]}`,
	`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]}, {"tool_calls":null}]}`,
	`{"messages":{"content":"x"},"prompt":[1,2,[3,4],[],"s",1.5,-9223372036854775808,9223372036854775808,null]}`,
	`{"prompt":["ab","c",""]}`, `{"prompt":[[1,2],[3,4]]}`, `{"prompt":"`, `{"":1,"prompt":null}`,
	`{"instructions":"be brief","input":[{"role":"user","content":[{"type":"input_text","text":"x"}]},{"type":"input_text","text":"y"},"z",{"type":"reasoning"}]}`,
	`{"system":[{"type":"text","text":"s"}],"messages":[{"content":"q\"\\\/\b\f\n\r\t"}]}`,
	`{"cache_salt":"s\u0061lt","extra_key":null,"lora":[{"id":0,"scale":1.0}],"lora_path":"a","tools":[],"functions":[{"name":"f"}],"documents":[{"text":"d"}],"messages":[]}`,
	`{"tools":[{"type":"function"}],"messages":[{"content":"c","role":"tool","tool_call_id":"1","name":"n","reasoning":"r","reasoning_content":[],"function_call":{}}]}`,
	`{"system":"s","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"x"},{"type":"q","content":[1]}],"cache_control":{}},{"input_audio":{}}]}]}`,
	`{"input":[{"type":"function_call","arguments":"{\"a\":1}","call_id":null},{"type":"function_call_output","output":"x"}],"tools":[1]}`,
	`{"prompt":[0,268435455,268435456,1.0,-1,01]}`, `{"prompt":[ 0 , 268435455 , 268435456 , 1.0, -1, 1234567890, 12e3 ]}`,
	`{"prompt":"` + strings.Repeat(`0123\u00e9\/\\u\\\/\n`, 13) + `\\"}`, "{\"prompt\":\"" + strings.Repeat("\xf8\xff\xc0a", 12) + "\"}",
	"{ \"messages\" :\t[ { \"content\" : \"a\" , \"content\" : [ \"b\" ] } ,\r\n{ } ] }",
}

func FuzzScan(f *testing.F) {
	for i, seed := range bodySeeds {
		f.Add([]byte(seed), uint8(i), uint16(3*i), "hint")
	}
	f.Fuzz(func(t *testing.T, raw []byte, shape uint8, prefixLength uint16, hint string) {
		kept := bytes.Clone(raw)
		compareWithReference(t, raw, Shape(shape%5), int(prefixLength), hint)
		if !bytes.Equal(raw, kept) {
			t.Error("the body was changed")
		}
	})
}

// Every seed under every shape, with windows that end in all places.
func TestScanAgreesWithReference(t *testing.T) {
	for _, seed := range bodySeeds {
		for shape := ShapeNone; shape <= ShapeAnthropic; shape++ {
			for prefixLength := range 24 {
				compareWithReference(t, []byte(seed), shape, prefixLength, "")
			}
			compareWithReference(t, []byte(seed), shape, 4096, "hint")
		}
	}
}

// A string is scanned in strides of 32 and 8 bytes: each special byte must be
// found at each place of a stride, beside bytes that resemble it.
func TestScanFindsSpecialBytesAtEveryOffset(t *testing.T) {
	neighbours := []string{"a", "!", "#", "[", "]", " ", "\x7f", "\x80", "é", "\xff", "\xa2", "\xdc"}
	specials := []string{`"`, `\`, "\x00", "\x1f", "\n", `\"`, `\n`, `\u0041`, `\u00zz`, "\x7f", "é"}
	for _, neighbour := range neighbours {
		for _, special := range specials {
			for n := range 70 {
				text := strings.Repeat(neighbour, n) + special + strings.Repeat(neighbour, 70-n)
				raw := []byte(`{"prompt":"` + text + `"}`)
				compareWithReference(t, raw, ShapeCompletion, 65, "")
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	plain := []byte(`{"model":"m","messages":[{"role":"user","content":"hello hello hello"}]}`)
	for coding, encode := range encoders {
		f.Add(encode(f, plain), coding, uint16(1000))
		f.Add(encode(f, encode(f, plain)), coding+", "+coding, uint16(1000))
		f.Add(encode(f, plain)[:12], coding, uint16(10))
	}
	f.Add(plain, "identity", uint16(3))
	f.Add(plain, "br", uint16(3))
	f.Fuzz(func(t *testing.T, body []byte, coding string, limit uint16) {
		got, err := Decode([]byte("kept"), body, coding, int64(limit))
		var unsupported *UnsupportedEncodingError
		switch {
		case err == nil:
			if !bytes.HasPrefix(got, []byte("kept")) || len(got)-len("kept") > int(limit) {
				t.Errorf("%d bytes %.10q, want at most %d after the prefix", len(got), got, limit)
			}
		case !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrCorrupt) && !errors.As(err, &unsupported):
			t.Errorf("error of an undeclared kind: %v", err)
		}
	})
}
