package workload

import (
	"fmt"
	"iter"
)

// RAG asks several questions about each of many documents, as retrieval-augmented generation does: a prompt is a document, the
// same for all its questions, and a question of its own. In each round every document is asked about once, in a new order.
type RAG struct {
	Shape
	Documents      int // how many there are
	DocumentTokens int // length of each
	Questions      int // about each document, which is the number of rounds
	QuestionTokens int // length of each
}

// Len is the number of requests.
func (w RAG) Len() int { return w.Documents * w.Questions }

// Tokens is the length of all distinct text that a cache would have to hold, answers aside.
func (w RAG) Tokens() int { return w.Documents * (w.DocumentTokens + w.Questions*w.QuestionTokens) }

// Requests gives the requests in order of time.
func (w RAG) Requests() iter.Seq[Request] {
	return func(yield func(Request) bool) {
		next := arrivals(random(w.Seed, streamArrivalsRAG, 0), w.Rate)
		for round := range w.Questions {
			for _, document := range random(w.Seed, streamOrder, round).Perm(w.Documents) {
				if !yield(w.request(next, document, round)) {
					return
				}
			}
		}
	}
}

func (w RAG) request(next clock, document, round int) Request {
	text := prose(random(w.Seed, streamDocument, document), w.DocumentTokens)
	question := prose(random(w.Seed, streamQuestion, document*w.Questions+round), w.QuestionTokens)
	return Request{
		At:    next(),
		Path:  chatPath,
		Group: fmt.Sprintf("document-%d", document),
		Body: w.body([]message{
			{"system", "Answer from the document."},
			{"user", text + "\n\n" + question},
		}),
	}
}
