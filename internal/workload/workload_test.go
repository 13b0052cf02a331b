package workload

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"
)

var (
	rag = RAG{
		Shape:     Shape{Seed: 1, Rate: 10, Model: "m", AnswerTokens: 8},
		Documents: 5, DocumentTokens: 300, Questions: 3, QuestionTokens: 20,
	}
	multiTurn = MultiTurn{
		Shape:         Shape{Seed: 1, Rate: 10, Model: "m", AnswerTokens: 8},
		Conversations: 4, OpeningTokens: 300, Turns: 3, QuestionTokens: 20,
	}
)

// digest covers every field of every request.
func digest(requests iter.Seq[Request]) string {
	h := xxh3.New()
	for r := range requests {
		_ = binary.Write(h, binary.LittleEndian, r.At)
		for _, field := range []string{r.Path, r.Group, string(r.Body)} {
			_ = binary.Write(h, binary.LittleEndian, uint64(len(field)))
			_, _ = h.WriteString(field)
		}
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// Results of one version compare with those of another only if the requests are the same.
func TestRequestsNeverChange(t *testing.T) {
	tests := []struct {
		name     string
		requests iter.Seq[Request]
		want     string
	}{
		{"rag", rag.Requests(), "a4971ad24827e756"},
		{"multi-turn", multiTurn.Requests(), "3be18686a9bada50"},
		{"merged", Merge(rag.Requests(), multiTurn.Requests()), "66a9ee932355af38"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for range 2 {
				if got := digest(test.requests); got != test.want {
					t.Errorf("digest: got %s, want %s", got, test.want)
				}
			}
		})
	}
}

func TestSeedChangesEveryText(t *testing.T) {
	other := rag
	other.Seed = 2
	if digest(rag.Requests()) == digest(other.Requests()) {
		t.Error("two seeds give the same requests")
	}
}

func messages(t *testing.T, r Request) []message {
	t.Helper()
	var c chat
	if err := json.Unmarshal(r.Body, &c, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("body: %v", err)
	}
	if !c.Stream || !c.Options.IncludeUsage || c.MaxTokens != 8 || c.Model != "m" || r.Path != "/v1/chat/completions" {
		t.Errorf("request: %s model %q, max_tokens %d, stream %v", r.Path, c.Model, c.MaxTokens, c.Stream)
	}
	return c.Messages
}

func TestQuestionsShareTheirDocument(t *testing.T) {
	asked, prompts := map[string]int{}, map[string]string{}
	count := 0
	for r := range rag.Requests() {
		round := count / rag.Documents
		count++
		if asked[r.Group] != round {
			t.Errorf("%s: asked about %d times before round %d", r.Group, asked[r.Group], round)
		}
		asked[r.Group]++
		text := messages(t, r)[1].Content
		if want := (rag.DocumentTokens+rag.QuestionTokens)*tokenBytes + 2; len(text) != want {
			t.Errorf("%s: prompt of %d bytes, want %d", r.Group, len(text), want)
		}
		document, question := text[:rag.DocumentTokens*tokenBytes], text[rag.DocumentTokens*tokenBytes:]
		if before, known := prompts[r.Group]; known && before != document {
			t.Errorf("%s: two documents", r.Group)
		}
		prompts[r.Group] = document
		if _, known := prompts[question]; known {
			t.Errorf("question asked twice: %q", question)
		}
		prompts[question] = ""
	}
	if count != rag.Len() || len(asked) != rag.Documents {
		t.Errorf("got %d requests about %d documents, want %d about %d", count, len(asked), rag.Len(), rag.Documents)
	}
}

func TestConversationsGrow(t *testing.T) {
	before := map[string][]message{}
	count := 0
	for r := range multiTurn.Requests() {
		now := messages(t, r)
		if want := 1 + 2*(count/multiTurn.Conversations); len(now) != want {
			t.Errorf("%s: %d messages, want %d", r.Group, len(now), want)
		}
		if diff := cmp.Diff(before[r.Group], now[:len(before[r.Group])]); diff != "" && before[r.Group] != nil {
			t.Errorf("%s: history has changed (-before +now):\n%s", r.Group, diff)
		}
		before[r.Group] = now
		count++
	}
	if count != multiTurn.Len() || len(before) != multiTurn.Conversations {
		t.Errorf("got %d requests in %d conversations, want %d in %d", count, len(before), multiTurn.Len(), multiTurn.Conversations)
	}
}

func TestTokensCountDistinctText(t *testing.T) {
	if got, want := rag.Tokens(), 5*(300+3*20); got != want {
		t.Errorf("rag: got %d, want %d", got, want)
	}
	if got, want := multiTurn.Tokens(), 4*(300+2*(20+8)); got != want {
		t.Errorf("multi-turn: got %d, want %d", got, want)
	}
}

func TestArrivalsKeepTheRate(t *testing.T) {
	next := arrivals(random(1, streamArrivalsRAG, 0), 50)
	const n = 20000
	before, last := time.Duration(0), time.Duration(0)
	for range n {
		last = next()
		if last < before {
			t.Fatalf("arrival at %v after one at %v", last, before)
		}
		before = last
	}
	if rate := n / last.Seconds(); rate < 48 || rate > 52 {
		t.Errorf("rate: got %.1f requests a second, want 50", rate)
	}
}

func TestWithoutRateAllArriveAtOnce(t *testing.T) {
	w := rag
	w.Rate = 0
	for r := range w.Requests() {
		if r.At != 0 {
			t.Fatalf("%s: arrives at %v, want 0s", r.Group, r.At)
		}
	}
}

func TestGeneratorsStopWhenAsked(t *testing.T) {
	for _, requests := range []iter.Seq[Request]{rag.Requests(), multiTurn.Requests(), Merge(rag.Requests(), multiTurn.Requests())} {
		for range requests {
			break
		}
	}
}

// Merge keeps every request, in order of time, and the order within each workload.
func TestMergeIsStable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.SliceOfN(rapid.IntRange(0, 5), 0, 8), 0, 4).Draw(t, "times")
		var workloads []iter.Seq[Request]
		var want []Request
		for i, at := range times {
			slices.Sort(at)
			var requests []Request
			for n, a := range at {
				requests = append(requests, Request{At: time.Duration(a), Group: fmt.Sprintf("%d/%d", i, n)})
			}
			workloads = append(workloads, slices.Values(requests))
			want = append(want, requests...)
		}
		slices.SortStableFunc(want, func(a, b Request) int { return int(a.At - b.At) })
		if diff := cmp.Diff(want, slices.Collect(Merge(workloads...))); diff != "" {
			t.Fatalf("merged (-want +got):\n%s", diff)
		}
	})
}

func TestProseNeedsNoEscaping(t *testing.T) {
	text := prose(random(1, streamDocument, 0), 1000)
	quoted, err := json.Marshal(text)
	if err != nil || !bytes.Equal(quoted, []byte(`"`+text+`"`)) || len(text) != 4000 {
		t.Errorf("prose: %d bytes, %d in JSON, error %v", len(text), len(quoted), err)
	}
}

func BenchmarkRequests(b *testing.B) {
	w := RAG{Shape: Shape{Seed: 1, Rate: 10, AnswerTokens: 8}, Documents: 64, DocumentTokens: 4000, Questions: 1 << 30, QuestionTokens: 40}
	next, stop := iter.Pull(w.Requests())
	defer stop()
	for b.Loop() {
		next()
	}
}
