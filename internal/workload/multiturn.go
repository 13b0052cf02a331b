package workload

import (
	"fmt"
	"iter"
)

// MultiTurn holds many conversations side by side. Each opens with a long message and grows by an answer and a question a turn;
// every request carries the whole conversation so far. The conversations take turns in a fixed order, so that between two turns
// of one all others have theirs.
//
// The earlier answers in a prompt are text of the generator's own, of the length that was asked for: the requests are then the
// same whoever answers them, and no turn has to wait for the one before.
type MultiTurn struct {
	Shape
	Conversations  int // how many are held side by side
	Waves          int // how many follow each other in each place; 0 = 1
	OpeningTokens  int // length of the first message
	Turns          int // requests of each conversation
	QuestionTokens int // length of the later messages
}

// Len is the number of requests.
func (w MultiTurn) Len() int { return w.Conversations * max(1, w.Waves) * w.Turns }

// Tokens is the length of all distinct text that a cache would have to hold for one wave, the last answers aside.
func (w MultiTurn) Tokens() int {
	return w.Conversations * (w.OpeningTokens + (w.Turns-1)*(w.QuestionTokens+w.AnswerTokens))
}

// Requests gives the requests in order of time.
func (w MultiTurn) Requests() iter.Seq[Request] {
	return func(yield func(Request) bool) {
		next := arrivals(random(w.Seed, streamArrivalsMultiTurn, 0), w.Rate)
		for conversation, turn := range takeTurns(w.Conversations, w.Waves, w.Turns) {
			if !yield(w.request(next, conversation, turn)) {
				return
			}
		}
	}
}

// takeTurns gives, one after the other, which conversation has its turn and which turn that is. With several waves they are
// first met at different ages: else all would be short at one time and long at another, and the load would swing.
func takeTurns(places, waves, turns int) iter.Seq2[int, int] {
	waves = max(1, waves)
	return func(yield func(int, int) bool) {
		for round := range waves * turns {
			for place := range places {
				age := round
				if waves > 1 {
					age += place % turns
				}
				if !yield(age/turns*places+place, age%turns) {
					return
				}
			}
		}
	}
}

func (w MultiTurn) request(next clock, conversation, turn int) Request {
	messages := []message{{"user", prose(random(w.Seed, streamOpening, conversation), w.OpeningTokens)}}
	for t := 1; t <= turn; t++ {
		item := conversation*w.Turns + t
		messages = append(messages,
			message{"assistant", prose(random(w.Seed, streamAnswer, item), w.AnswerTokens)},
			message{"user", prose(random(w.Seed, streamTurn, item), w.QuestionTokens)})
	}
	return Request{
		At:    next(),
		Path:  chatPath,
		Group: fmt.Sprintf("conversation-%d", conversation),
		Body:  w.body(messages),

		PromptTokens: w.OpeningTokens + turn*(w.AnswerTokens+w.QuestionTokens),
		OutputTokens: w.AnswerTokens,
	}
}
