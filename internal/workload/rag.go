package workload

import (
	"fmt"
	"iter"
)

// RAG asks several questions about each of many documents, as retrieval-augmented generation does: a prompt is a document, the
// same for all its questions, and a question of its own.
type RAG struct {
	Shape
	PreambleTokens int     // of instructions before all documents, the same for all; 0 = one sentence
	Documents      int     // how many there are
	DocumentTokens int     // length of each
	Questions      int     // about each document, on average
	QuestionTokens int     // length of each
	Zipf           float64 // s: document i is asked about in proportion to 1/i^s; 0 = each once in every round, in a new order
}

// Len is the number of requests.
func (w RAG) Len() int { return w.Documents * w.Questions }

// Tokens is the length of all distinct text that a cache would have to hold, answers aside.
func (w RAG) Tokens() int {
	return w.PreambleTokens + w.Documents*(w.DocumentTokens+w.Questions*w.QuestionTokens)
}

// Requests gives the requests in order of time.
func (w RAG) Requests() iter.Seq[Request] {
	return func(yield func(Request) bool) {
		next := arrivals(random(w.Seed, streamArrivalsRAG, 0), w.Rate)
		instructions := w.instructions()
		documents := newShelf(w.Seed, streamDocument, w.Documents, w.DocumentTokens)
		for document, question := range w.order() {
			r := w.request(instructions, documents.text(document), question)
			r.At, r.Group = next(), fmt.Sprintf("document-%d", document)
			if !yield(r) {
				return
			}
		}
	}
}

func (w RAG) instructions() string {
	if w.PreambleTokens == 0 {
		return "Answer from the document."
	}
	return prose(random(w.Seed, streamPreamble, 0), w.PreambleTokens)
}

// order gives, one after the other, which document is asked about and which question that is.
func (w RAG) order() iter.Seq2[int, int] {
	if w.Zipf > 0 {
		return w.popular()
	}
	return func(yield func(int, int) bool) {
		for round := range w.Questions {
			for _, document := range random(w.Seed, streamOrder, round).Perm(w.Documents) {
				if !yield(document, document*w.Questions+round) {
					return
				}
			}
		}
	}
}

func (w RAG) popular() iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		draw := zipf(random(w.Seed, streamPopularity, 0), w.Documents, w.Zipf)
		for question := range w.Len() {
			if !yield(draw(), question) {
				return
			}
		}
	}
}

func (w RAG) request(instructions, document string, question int) Request {
	text := document + "\n\n" + prose(random(w.Seed, streamQuestion, question), w.QuestionTokens)
	return Request{
		Path:         chatPath,
		Body:         w.body([]message{{"system", instructions}, {"user", text}}),
		PromptTokens: (len(instructions) + len(text) + tokenBytes - 1) / tokenBytes,
		OutputTokens: w.AnswerTokens,
	}
}
