package prompt

import (
	"encoding/json"
	"testing"
)

func TestAskUsage(t *testing.T) {
	const asked = `"stream_options":{"include_usage":true},`
	for _, tc := range []struct{ name, raw, want string }{
		{"no options", `{"stream":true,"model":"m"}`, `{` + asked + `"stream":true,"model":"m"}`},
		{"white space", " \n{ \"stream\" : true }\n", " \n{" + asked + " \"stream\" : true }\n"},
		{"null", `{"stream_options":null,"stream":true}`, `{"stream_options":{"include_usage":true},"stream":true}`},
		{"empty", `{"stream":true,"stream_options":{ }}`, `{"stream":true,"stream_options":{"include_usage":true }}`},
		{"other options", `{"stream":true,"stream_options":{"x":[1,{"include_usage":true}]}}`,
			`{"stream":true,"stream_options":{"include_usage":true,"x":[1,{"include_usage":true}]}}`},
		{"false", `{"stream":true,"stream_options":{"x":1,"include_usage" : false ,"y":2}}`,
			`{"stream":true,"stream_options":{"x":1,"include_usage" : true ,"y":2}}`},
		{"null within", `{"stream":true,"stream_options":{"include_usage":null}}`, `{"stream":true,"stream_options":{"include_usage":true}}`},
		{"an escaped name", `{"stream":true,"stream\u005foptions":{"include\u005fusage":false}}`,
			`{"stream":true,"stream\u005foptions":{"include\u005fusage":true}}`},
		{"of duplicates the last", `{"stream":true,"stream_options":{"include_usage":true},"stream_options":{"include_usage":true,"include_usage":false}}`,
			`{"stream":true,"stream_options":{"include_usage":true},"stream_options":{"include_usage":true,"include_usage":true}}`},
		{"per chunk, off", `{"stream":true,"stream_options":{"continuous_usage_stats":false}}`,
			`{"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":false}}`},

		{"asked by the client", `{"stream":true,"stream_options":{"include_usage":true}}`, ""},
		{"asked last", `{"stream":true,"stream_options":{"include_usage":false,"include_usage":true}}`, ""},
		{"per chunk", `{"stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":false}}`, ""},
		{"for the engine to judge", `{"stream":true,"stream_options":{"include_usage":1}}`, ""},
		{"options of another type", `{"stream":true,"stream_options":[]}`, ""},
		{"no stream", `{"stream":false,"stream_options":{}}`, ""},
		{"stream off in the end", `{"stream":true,"stream":1}`, ""},
		{"not an object", `[{"stream":true}]`, ""},
	} {
		body, err := Scan([]byte(tc.raw), ShapeChat)
		if err != nil {
			t.Fatal(err)
		}
		edit, ok := body.AskUsage()
		if ok != (tc.want != "") {
			t.Errorf("%s: there is something to ask: %t", tc.name, ok)
			continue
		}
		if got := string(body.Splice(nil, edit)); ok && got != tc.want {
			t.Errorf("%s: got  %s\nwant %s", tc.name, got, tc.want)
		}
	}
}

func TestAskUsageOnlyWhereStreamsReportIt(t *testing.T) {
	for shape := ShapeNone; shape <= ShapeAnthropic; shape++ {
		body, err := Scan([]byte(`{"stream":true}`), shape)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := body.AskUsage(); ok != (shape == ShapeChat || shape == ShapeCompletion) {
			t.Errorf("shape %d: asks %t", shape, ok)
		}
	}
}

func TestSpliceTwoPlaces(t *testing.T) {
	for raw, want := range map[string]string{
		`{"model":"a","stream":true}`:                     `{"stream_options":{"include_usage":true},"model":"b","stream":true}`,
		`{"model":"a","stream":true,"stream_options":{}}`: `{"model":"b","stream":true,"stream_options":{"include_usage":true}}`,
		`{"stream_options":{},"stream":true,"model":"a"}`: `{"stream_options":{"include_usage":true},"stream":true,"model":"b"}`,
	} {
		body, err := Scan([]byte(raw), ShapeCompletion)
		if err != nil {
			t.Fatal(err)
		}
		usage, _ := body.AskUsage()
		if got := string(body.Splice(nil, body.SetModel("b"), usage)); got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
}

func TestBatch(t *testing.T) {
	for raw, want := range map[string]bool{
		`{"prompt":["a","b"]}`: true, `{"prompt":[[1,2],[3]]}`: true, `{"prompt":["a"]}`: false, `{"prompt":[[1,2]]}`: false,
		`{"prompt":[1,2,3]}`: false, `{"prompt":"a"}`: false, `{"prompt":[]}`: false, `{"prompt":null}`: false, `{}`: false, `[]`: false,
	} {
		body, err := Scan([]byte(raw), ShapeCompletion)
		if err != nil {
			t.Fatal(err)
		}
		if got := body.Batch(); got != want {
			t.Errorf("%s: %t, want %t", raw, got, want)
		}
	}
	if body, _ := Scan([]byte(`{"messages":["a","b"]}`), ShapeChat); body.Batch() {
		t.Error("the messages of a chat are one prompt")
	}
}

// FuzzAskUsage: a body that is made to ask is JSON, asks in Python's and in Warmpath's reading, and says the same without it.
func FuzzAskUsage(f *testing.F) {
	for _, seed := range bodySeeds {
		f.Add([]byte(seed))
	}
	f.Add([]byte(`{"stream":true,"stream_options":{"include_usage":false}}`))
	f.Add([]byte(`{"stream":true,"stream_options":null, "messages":[]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		body, err := Scan(raw, ShapeChat)
		if err != nil {
			return
		}
		edit, ok := body.AskUsage()
		if !ok {
			return
		}
		asking := body.Splice(nil, edit)
		again, err := Scan(asking, ShapeChat)
		if err != nil {
			t.Fatalf("%q became %q: %v", raw, asking, err)
		}
		if _, ok := again.AskUsage(); ok || !again.Stream || again.Model != body.Model {
			t.Errorf("%q became %q, which does not ask", raw, asking)
		}
		var read struct {
			StreamOptions struct {
				IncludeUsage bool `json:"include_usage"`
			} `json:"stream_options"`
		}
		if json.Valid(raw) && (json.Unmarshal(asking, &read) != nil || !read.StreamOptions.IncludeUsage) {
			t.Errorf("%q became %q: %+v", raw, asking, read)
		}
	})
}
