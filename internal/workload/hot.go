package workload

import (
	"fmt"
	"iter"
)

// Hot asks for one prefix over and over, and in between for prompts with one of a few others, or that share nothing with any other.
// With a HotShare of 0 and no Others it is the control: traffic that no cache helps.
type Hot struct {
	Shape
	Count        int     // requests
	HotShare     float64 // of them with the hot prefix, 0 to 1
	Others       int     // prefixes of the other requests, each as likely as the next; 0 = they share nothing
	PrefixTokens int     // length of every prefix, and of what stands in its place where nothing is shared
	OwnTokens    int     // length of what follows, never the same
}

// Len is the number of requests.
func (w Hot) Len() int { return w.Count }

// Requests gives the requests in order of time.
func (w Hot) Requests() iter.Seq[Request] {
	return func(yield func(Request) bool) {
		next := arrivals(random(w.Seed, streamArrivalsHot, 0), w.Rate)
		hot, draw := prose(random(w.Seed, streamHot, 0), w.PrefixTokens), random(w.Seed, streamHotDraw, 0)
		others := newShelf(w.Seed, streamOthers, w.Others, w.PrefixTokens)
		for i := range w.Count {
			own := random(w.Seed, streamOwn, i)
			r := Request{At: next(), Path: chatPath, PromptTokens: w.PrefixTokens + w.OwnTokens, OutputTokens: w.AnswerTokens}
			text := ""
			switch {
			case draw.Float64() < w.HotShare:
				r.Group, text = "hot", hot+prose(own, w.OwnTokens)
			case w.Others > 0:
				other := draw.IntN(w.Others)
				r.Group, text = fmt.Sprintf("other-%d", other), others.text(other)+prose(own, w.OwnTokens)
			default:
				text = prose(own, w.PrefixTokens+w.OwnTokens)
			}
			r.Body = w.body([]message{{"user", text}})
			if !yield(r) {
				return
			}
		}
	}
}
