package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/endpoint"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// captured reads an engine's answer from testdata/answers.
func captured(t *testing.T, name string) (http.Header, []byte) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "answers", name+".http"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header, body
}

// reported is what a record says of an answer's tokens, as testdata/answers/usage.txt words it.
func reported(rec *telemetry.Request) string {
	switch {
	case !rec.HasUsage:
		return "- - -"
	case !rec.CachedKnown:
		return fmt.Sprint(rec.PromptTokens, " - ", rec.OutputTokens)
	}
	return fmt.Sprint(rec.PromptTokens, rec.CachedTokens, rec.OutputTokens)
}

// observe shows an answer to an observer in reads of one size.
func observe(header http.Header, body []byte, p *plan, api string, size int) *telemetry.Request {
	x := &exchange{Proxy: &Proxy{Options: Options{Now: time.Now}}, plan: p}
	x.rec.API = api
	o := newObserver(&call{x: x, resp: &http.Response{Header: header}})
	for rest := body; len(rest) > 0; rest = rest[min(size, len(rest)):] {
		o.see(rest[:min(size, len(rest))])
	}
	o.finish()
	o.record(&x.rec)
	return &x.rec
}

// TestEveryCapturedAnswer: of each answer that real engines gave, the tokens are those that stand in it.
func TestEveryCapturedAnswer(t *testing.T) {
	table, err := os.ReadFile(filepath.Join("testdata", "answers", "usage.txt"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if fields[0] == "#" {
			continue
		}
		seen++
		name, want := fields[0], strings.Join(fields[1:], " ")
		header, body := captured(t, name)
		pool := &endpoint.Pool{CachedApart: strings.HasPrefix(name, "llamacpp/")}
		p := &plan{variant: &endpoint.Variant{Pool: pool}, batch: strings.Contains(name, "batch") || strings.Contains(name, "array")}
		api := "openai"
		if strings.Contains(name, "messages") {
			api = "anthropic"
		}
		for _, size := range []int{1, 100, 1 << 20} {
			if got := reported(observe(header, body, p, api, size)); got != want {
				t.Errorf("%s, %d bytes at a time: got %s, want %s", name, size, got, want)
			}
		}
	}
	if files, _ := filepath.Glob("testdata/answers/*/*.http"); len(files) != seen {
		t.Errorf("%d answers, and usage.txt tells of %d", len(files), seen)
	}
}

func TestCachedTokensReportedOrNot(t *testing.T) {
	for name, c := range map[string]struct{ usage, want string }{
		"none of them":       {`"usage":{"prompt_tokens":7,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0}}`, "7 0 1"},
		"not told to report": {`"usage":{"prompt_tokens":7,"completion_tokens":1,"prompt_tokens_details":null}`, "7 - 1"},
		"no such field":      {`"usage":{"prompt_tokens":7,"completion_tokens":1}`, "7 - 1"},
		"details without it": {`"usage":{"prompt_tokens":7,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":null}}`, "7 - 1"},
		"timings alone":      {`"timings":{"cache_n":36,"prompt_n":1,"prompt_ms":1.8,"predicted_n":4,"predicted_ms":7.5}`, "37 36 4"},
		"timings beside it":  {`"timings":{"cache_n":3,"prompt_n":1,"predicted_n":4},"usage":{"prompt_tokens":7,"completion_tokens":1}`, "7 - 1"},
		"timings of nothing": {`"timings":null`, "- - -"},
		"a word in a string": {`"text":"\"timings\":{\"cache_n\":1}"`, "- - -"},
	} {
		plain := observe(http.Header{"Content-Type": {"application/json"}}, []byte(`{"id":"x",`+c.usage+`}`), onePool(), "openai", 1<<20)
		stream := "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[]," + c.usage + "}\n\ndata: [DONE]\n\n"
		streamed := observe(http.Header{"Content-Type": {"text/event-stream"}}, []byte(stream), onePool(), "openai", 1<<20)
		if got := [2]string{reported(plain), reported(streamed)}; got != [2]string{c.want, c.want} {
			t.Errorf("%s: got %q, want %s", name, got, c.want)
		}
	}
}

func onePool() *plan { return &plan{variant: &endpoint.Variant{Pool: &endpoint.Pool{}}} }

// TestSeveralPrompts: cached tokens of a request with several prompts are of one of them, or of all.
func TestSeveralPrompts(t *testing.T) {
	g := newRig(t, routing.NameRandom, newReplica(t, nil))
	var last telemetry.Request
	g.proxy.Access = func(r *telemetry.Request) { last = *r }
	for body, known := range map[string]bool{
		`{"model":"m","prompt":"a"}`: true, `{"model":"m","prompt":["a"]}`: true, `{"model":"m","prompt":[1,2]}`: true,
		`{"model":"m","prompt":["a","b"]}`: false, `{"model":"m","prompt":[[1],[2]]}`: false,
	} {
		w := serve(g, "/v1/completions", body)
		if w.Code != 200 || !last.HasUsage || last.CachedKnown != known {
			t.Errorf("%s: got %d, cached tokens known %t, want %t", body, w.Code, last.CachedKnown, known)
		}
	}
}
