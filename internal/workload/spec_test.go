package workload

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// small are specifications of all generators that are quick to make.
var small = []struct{ spec, digest string }{
	{"rag:documents=4,document=50,requests=10", "4b0b7791552db2e0"},
	{"rag:documents=4,document=50,requests=10,zipf=1.1", "ee38b04a5c466141"},
	{"multi-turn:conversations=3,opening=50,turns=2,requests=13", "d7f706ab73bf3d3b"},
	{"hot:prefix=50,question=10,requests=10", "0a858e92fd22da68"},
	{"agents:kinds=2,tools=2,tool=10,system=30,sessions=3,turns=2,requests=13", "74abba48ce278b58"},
	{"prefix-repetition:groups=4,prefix=50,requests=10", "11e6b887cfebd558"},
	{"sagemaker:prefixes=4,prefix=50,requests=10", "390bd05a6ccb10c4"},
	{"unrelated:prompt=50,requests=10", "354da0aa93c8b987"},
}

func parsed(t testing.TB, spec string, seed uint64) Workload {
	t.Helper()
	w, err := Parse(spec, seed)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Results of one version compare with those of another only if the requests are the same.
func TestGeneratorsNeverChange(t *testing.T) {
	covered := map[string]bool{}
	for _, test := range small {
		name, _, _ := strings.Cut(test.spec, ":")
		covered[name] = true
		w := parsed(t, test.spec, 1)
		for range 2 {
			if got := digest(w.Requests()); got != test.digest {
				t.Errorf("%s: digest: got %s, want %s", test.spec, got, test.digest)
			}
		}
		if digest(parsed(t, test.spec, 2).Requests()) == test.digest {
			t.Errorf("%s: two seeds give the same requests", test.spec)
		}
	}
	if len(covered) != len(Generators()) {
		t.Errorf("digests cover %d generators of %d", len(covered), len(Generators()))
	}
}

func TestGeneratorsKeepTheContract(t *testing.T) {
	for _, test := range small {
		w := parsed(t, test.spec, 1)
		checkRequests(t, w.Requests())
		requests := slices.Collect(w.Requests())
		if n, known := Len(w); !known || n != len(requests) || w.Err() != nil || w.Name() != test.spec {
			t.Errorf("%s: %d requests, length %d, error %v, name %q", test.spec, len(requests), n, w.Err(), w.Name())
		}
		for _, r := range requests {
			if got := textTokens(r.Body, shapeOf(r.Path)); got > r.PromptTokens+1 || r.OutputTokens < 1 {
				t.Errorf("%s: %d tokens of text, PromptTokens %d, OutputTokens %d", test.spec, got, r.PromptTokens, r.OutputTokens)
			}
		}
	}
}

func TestDefaultsAreInRange(t *testing.T) {
	for _, g := range Generators() {
		for _, o := range g.Options {
			if _, err := o.parse(plain(o.Default)); err != nil {
				t.Errorf("%s: %s: %v", g.Name, o.Name, err)
			}
		}
		for range parsed(t, g.Name, 1).Requests() {
			break
		}
	}
}

func TestParseErrors(t *testing.T) {
	const options = "the options and their defaults are prompt=1000, requests=2048, rate=8, output=200"
	tests := []struct{ spec, want string }{
		{"", `workload: "" is not known; there are rag, multi-turn, hot, agents, prefix-repetition, sagemaker, unrelated`},
		{"sagemakr", `workload: "sagemakr" is not known; did you mean sagemaker?; there are`},
		{"unrelated:", `workload unrelated: "" is no option; write option=value, separated by commas; ` + options},
		{"unrelated:promt=4", `workload unrelated: "promt" is no option; did you mean prompt?; ` + options},
		{"unrelated:x=4", `workload unrelated: "x" is no option; ` + options},
		{"unrelated:prompt=x", `workload unrelated: prompt: "x" is not a number`},
		{"unrelated:prompt=NaN", `workload unrelated: prompt: "NaN" is not a number`},
		{"unrelated:prompt=0", `workload unrelated: prompt: 0 is out of range; use 1 to 1000000`},
		{"unrelated:prompt=Inf", `workload unrelated: prompt: Inf is out of range`},
		{"unrelated:prompt=1.5", `workload unrelated: prompt: 1.5 is not a whole number`},
		{"unrelated:rate=1,rate=2", `workload unrelated: rate: is given twice`},
		{"hot:share=1.5", `workload hot: share: 1.5 is out of range; use 0 to 1`},
	}
	for _, test := range tests {
		if _, err := Parse(test.spec, 1); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%q:\n got %v\nwant %s", test.spec, err, test.want)
		}
	}
}

func TestPopularDocuments(t *testing.T) {
	asked := map[string]int{}
	w := RAG{Shape: Shape{Seed: 1}, Documents: 100, DocumentTokens: 1, Questions: 200, QuestionTokens: 1, Zipf: 1}
	for r := range w.Requests() {
		asked[r.Group]++
	}
	harmonic := 0.0
	for i := range 100 {
		harmonic += 1 / float64(i+1)
	}
	for i, want := range map[int]float64{0: 1 / harmonic, 1: 0.5 / harmonic, 9: 0.1 / harmonic} {
		if got := float64(asked[fmt.Sprintf("document-%d", i)]) / 20000; math.Abs(got-want) > 0.01 {
			t.Errorf("document %d: asked about in %.3f of requests, want %.3f", i, got, want)
		}
	}
}

func TestShareOfTheHotPrefix(t *testing.T) {
	texts, hot := map[string]int{}, 0
	for r := range parsed(t, "hot:requests=2000,share=0.3,prefix=20,question=5", 1).Requests() {
		var c chat
		if err := json.Unmarshal(r.Body, &c); err != nil {
			t.Fatal(err)
		}
		beginning := c.Messages[0].Content[:80]
		texts[beginning]++
		if r.Group == "hot" {
			hot++
			if texts[beginning] != hot {
				t.Fatal("the hot prefix has changed")
			}
		} else if texts[beginning] > 1 {
			t.Fatalf("two requests share %q", beginning)
		}
	}
	if hot < 540 || hot > 660 {
		t.Errorf("hot: %d of 2000 requests, want about 600", hot)
	}
}

func TestAgentsShareToolsAndInstructions(t *testing.T) {
	type request struct {
		Tools    jsontext.Value `json:"tools"`
		Messages []message      `json:"messages"`
	}
	openings, before := map[string]bool{}, map[string]int{}
	for r := range parsed(t, "agents:kinds=2,tools=3,tool=5,system=5,sessions=4,turns=3,requests=24", 1).Requests() {
		var in request
		if err := json.Unmarshal(r.Body, &in); err != nil {
			t.Fatal(err)
		}
		openings[string(in.Tools)+in.Messages[0].Content] = true
		if had := before[r.Group]; had != 0 && len(in.Messages) != had+2 {
			t.Errorf("%s: %d messages after %d", r.Group, len(in.Messages), had)
		}
		before[r.Group] = len(in.Messages)
	}
	if len(openings) != 2 || len(before) != 10 {
		t.Errorf("%d openings in %d sessions, want 2 in 10", len(openings), len(before))
	}
}

// At any time conversations of all ages are held, each from its beginning or from where it is met to its end.
func TestEndedConversationsAreReplaced(t *testing.T) {
	want := [][2]int{{0, 0}, {1, 1}, {2, 2}, {0, 1}, {1, 2}, {5, 0}, {0, 2}, {4, 0}, {5, 1}, {3, 0}, {4, 1}, {5, 2}, {3, 1}, {4, 2}, {8, 0}, {3, 2}, {7, 0}, {8, 1}}
	var got [][2]int
	for conversation, turn := range takeTurns(3, 2, 3) {
		got = append(got, [2]int{conversation, turn})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conversation and turn (-want +got):\n%s", diff)
	}
}

func TestLimit(t *testing.T) {
	w := parsed(t, "unrelated:requests=5,prompt=5", 1)
	for limit, want := range map[int]int{-1: 0, 0: 0, 1: 1, 5: 5, 9: 5} {
		if got := len(slices.Collect(Limit(w, limit).Requests())); got != want {
			t.Errorf("limit %d: got %d requests, want %d", limit, got, want)
		}
	}
	// A row beyond the limit may be bad.
	bad, err := OpenTrace(file(t, "{\"prompt\":\"x\"}\n{"), TraceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := Limit(bad, 1); len(slices.Collect(got.Requests())) != 1 || got.Err() != nil {
		t.Errorf("limit 1: %v", got.Err())
	}
	if n, known := Len(Limit(bad, 1)); known {
		t.Errorf("length of a trace: %d", n)
	}
}

func TestShelfWithoutRoom(t *testing.T) {
	wide := newShelf(1, streamDocument, maxShelf, 1)
	narrow := newShelf(1, streamDocument, 3, 1)
	if wide.kept != nil || narrow.kept == nil {
		t.Error("a shelf keeps texts that there is no room for, or none")
	}
	want := wide.text(2)
	for range 2 {
		if got := narrow.text(2); got != want {
			t.Errorf("a shelf that keeps its texts gives %q, want %q", got, want)
		}
	}
}

// The tables of the manual are those of the generators.
func TestManualNamesEveryOption(t *testing.T) {
	page, err := os.ReadFile("../../docs/workloads.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range Generators() {
		var want strings.Builder
		fmt.Fprintf(&want, "### %s\n\n%s.\n\n| option | default | range | |\n|---|---|---|---|\n", g.Name, strings.ToUpper(g.Meaning[:1])+g.Meaning[1:])
		for _, o := range g.Options {
			fmt.Fprintf(&want, "| `%s` | %s | %s–%s | %s |\n", o.Name, plain(o.Default), plain(o.Min), plain(o.Max), o.Meaning)
		}
		if !strings.Contains(string(page), want.String()) {
			t.Errorf("docs/workloads.md lacks this:\n%s", want.String())
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, test := range small {
		f.Add(test.spec)
	}
	f.Add("rag:rate=0,zipf=5,documents=1000000")
	f.Add("hot:share=1e-9,output=1e6")
	f.Fuzz(func(t *testing.T, spec string) {
		w, err := Parse(spec, 1)
		if err != nil {
			return
		}
		if n, known := Len(w); !known || n < 1 || w.Name() != spec {
			t.Fatalf("%q: length %d, name %q", spec, n, w.Name())
		}
	})
}

// The arrival process of a specification keeps its rate.
func TestRateOfASpecification(t *testing.T) {
	last := time.Duration(0)
	for r := range parsed(t, "unrelated:requests=2000,rate=20,prompt=1", 1).Requests() {
		last = r.At
	}
	if last < 92*time.Second || last > 108*time.Second {
		t.Errorf("2,000 requests at 20 a second end after %v, want about 100 s", last)
	}
}
