package workload

import "iter"

// Hot asks for one prefix over and over, and in between for prompts that share nothing with any other. With a HotShare of 0 it is
// the control: traffic that no cache helps.
type Hot struct {
	Shape
	Count        int     // requests
	HotShare     float64 // of them with the hot prefix, 0 to 1
	PrefixTokens int     // length of the hot prefix, and of what stands in its place in the others
	OwnTokens    int     // length of what follows, never the same
}

// Len is the number of requests.
func (w Hot) Len() int { return w.Count }

// Requests gives the requests in order of time.
func (w Hot) Requests() iter.Seq[Request] {
	return func(yield func(Request) bool) {
		next := arrivals(random(w.Seed, streamArrivalsHot, 0), w.Rate)
		hot, draw := prose(random(w.Seed, streamHot, 0), w.PrefixTokens), random(w.Seed, streamHotDraw, 0)
		for i := range w.Count {
			own := random(w.Seed, streamOwn, i)
			r := Request{At: next(), Path: chatPath, PromptTokens: w.PrefixTokens + w.OwnTokens, OutputTokens: w.AnswerTokens}
			text := ""
			if draw.Float64() < w.HotShare {
				r.Group, text = "hot", hot+prose(own, w.OwnTokens)
			} else {
				text = prose(own, w.PrefixTokens+w.OwnTokens)
			}
			r.Body = w.body([]message{{"user", text}})
			if !yield(r) {
				return
			}
		}
	}
}
