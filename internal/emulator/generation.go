package emulator

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// defaultOutput is the natural length of an answer, in tokens, when the client sets no limit.
const defaultOutput = 16

// job is what a request asks for, whatever API it came by.
type job struct {
	model    string
	salt     string   // requests with different salts share no blocks
	prompts  []prompt // each answered on its own
	choices  int      // answers for each prompt
	output   int      // tokens an answer has
	limited  bool     // the client set output, so that answers end for length
	stream   bool
	usage    bool // the stream ends with a usage chunk
	idPrefix string
	answerer func(*generation) answerer
}

// limit applies the first limit that the client has set.
func (j *job) limit(limits ...*int) error {
	j.output, j.choices = defaultOutput, 1
	for _, l := range limits {
		if l == nil {
			continue
		}
		if *l < 1 {
			return badRequest("max_tokens", fmt.Sprintf("max_tokens must be at least 1, got %d. (parameter=max_tokens, value=%d)", *l, *l))
		}
		j.output, j.limited = *l, true
		return nil
	}
	return nil
}

// sequence is one answer in the making.
type sequence struct {
	Request
	index      int
	seed       uint64 // of its text
	generation *generation
	sent       int // tokens already written to the client
	// written by the engine, read by the handler
	made     atomic.Int64
	finished atomic.Bool
}

// generation is all the sequences of one request.
type generation struct {
	id           string
	model        string
	created      time.Time
	finishReason string
	choices      int // sequences of each prompt
	blockSize    int // tokens
	sequences    []*sequence
	progress     chan struct{} // holds a token when sequences have advanced
	metrics      *metrics
}

// advance is called by the engine, with the server's lock held.
func (q *sequence) advance(e Event) {
	q.generation.metrics.observe(q, e, time.Now())
	q.made.Store(int64(e.Generated))
	q.finished.Store(e.Finished)
	select {
	case q.generation.progress <- struct{}{}:
	default: // the handler has not caught up and will see this, too
	}
}

// text returns token i of the answer.
func (q *sequence) text(i int) string {
	token := answerToken(q.seed, i, q.OutputTokens)
	return string(token[:])
}

// start submits a job to the engine: all of its sequences or none.
func (s *Server) start(j job, requestID string) (*generation, error) {
	if j.model == "" {
		j.model = s.options.Models[0]
	}
	if !slices.Contains(s.options.Models, j.model) {
		return nil, newWireError(http.StatusNotFound, "NotFoundError", "model",
			fmt.Sprintf("The model `%s` does not exist. Valid aliases: %s.", j.model, strings.Join(s.options.Models, ", ")))
	}
	if requestID == "" {
		requestID = fmt.Sprintf("%016x", mix(uint64(s.started.UnixNano())+s.ids.Add(1)))
	}
	g := &generation{
		id: j.idPrefix + requestID, model: j.model, created: time.Now(), finishReason: "stop",
		choices: max(1, j.choices), blockSize: s.config.BlockSize,
		progress: make(chan struct{}, 1), metrics: s.metrics,
	}
	if j.limited {
		g.finishReason = "length"
	}
	for _, p := range j.prompts {
		if err := s.fits(p, j); err != nil {
			return nil, err
		}
		for range g.choices {
			g.sequences = append(g.sequences, s.newSequence(g, p, j))
		}
	}
	return g, s.submit(g)
}

// fits refuses what the engine could never run, in vLLM's words.
func (s *Server) fits(p prompt, j job) error {
	limit := s.maxTokens()
	switch {
	case p.tokens() == 0:
		return errEmptyPrompt()
	case p.tokens() > limit:
		return badRequest("input_tokens", fmt.Sprintf("This model's maximum context length is %d tokens. However, your prompt contains at "+
			"least %d input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. "+
			"(parameter=input_tokens, value=%d)", limit, p.tokens(), p.tokens()))
	case j.output > limit:
		return badRequest("max_tokens", fmt.Sprintf("max_tokens=%d cannot be greater than max_model_len=%d. Please request fewer output "+
			"tokens. (parameter=max_tokens, value=%d)", j.output, limit, j.output))
	case p.tokens()+j.output > limit:
		return badRequest("input_tokens", fmt.Sprintf("This model's maximum context length is %d tokens. However, you requested %d output "+
			"tokens and your prompt contains %d input tokens, for a total of %d tokens. Please reduce the length of the input prompt or the "+
			"number of requested output tokens. (parameter=input_tokens, value=%d)", limit, j.output, p.tokens(), p.tokens()+j.output, p.tokens()))
	}
	return nil
}

func (s *Server) newSequence(g *generation, p prompt, j job) *sequence {
	index := len(g.sequences)
	q := &sequence{index: index, seed: j.textSeed(p, index%g.choices), generation: g}
	q.Request = j.request(p, q.seed, s.config.BlockSize)
	q.Data = q
	return q
}

func (s *Server) submit(g *generation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, q := range g.sequences {
		if err := s.core.Submit(&q.Request); err != nil {
			for _, earlier := range g.sequences[:i] {
				s.core.Cancel(&earlier.Request)
			}
			return badRequest("", err.Error())
		}
	}
	s.wakeUp()
	return nil
}

// abort cancels what has not finished.
func (s *Server) abort(g *generation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range g.sequences {
		if !q.finished.Load() {
			s.core.Cancel(&q.Request)
			s.metrics.ended.WithLabelValues("abort").Inc()
		}
	}
	s.wakeUp() // for those who wait for a slot
}

func (g *generation) finished() bool {
	for _, q := range g.sequences {
		if !q.finished.Load() {
			return false
		}
	}
	return true
}

// made returns the tokens generated so far.
func (g *generation) made() int {
	n := 0
	for _, q := range g.sequences {
		n += int(q.made.Load())
	}
	return n
}

// usage is what a request took, in tokens. Each prompt counts once, however many answers it has.
type usage struct {
	prompt, output int
	cached         int // prompt tokens found in the cache
	created        int // prompt tokens added to it, in whole blocks
}

// usage is called when all sequences have finished.
func (g *generation) usage() usage {
	u := usage{output: g.made()}
	for _, q := range g.sequences {
		if q.index%g.choices != 0 {
			continue
		}
		u.prompt += q.PromptTokens
		u.cached += q.Cached()
		u.created += max(0, q.PromptTokens/g.blockSize*g.blockSize-q.Cached())
	}
	return u
}
