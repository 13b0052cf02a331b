//go:build e2ereal

package realengine

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/warmpath/warmpath/test/e2e/lab"
)

const (
	// bookLength is in tokens, and as many blocks of Warmpath's index as have 256 bytes: what is predicted goes by these.
	bookLength = 9 * 256
	// mostOf a book is what a hit or a prediction of it must be: questions and blocks do not end where books do.
	mostOf = bookLength * 9 / 10
)

// restarted ends an engine, lets that be seen, and starts it anew on its port: nothing may be believed to be in its cache then.
func restarted(t *testing.T, l lab.Lab) {
	of := lab.Settings{Slots: lab.Slots, Context: roomyContext}
	s := setUp(t, l, "KV_AWARE", "", of, of)
	r := reader{stand: s, books: books(5)}
	r.readAll(t)
	r.mustKnow(t)
	victim := r.places(t)[0]
	dying := slices.IndexFunc(s.engines, func(e *lab.Engine) bool { return name(e) == victim })
	if dying < 0 {
		t.Fatalf("explain: %q is none of the replicas", victim)
	}

	s.engines[dying].Signal(t, syscall.SIGKILL)
	<-s.engines[dying].Gone()
	eventually(t, "ready replicas", 1, s.ready(t))
	s.startAnew(t, l, dying, of)
	eventually(t, "ready replicas", 2, s.ready(t))
	held := func() float64 {
		return lab.Sum(t, []string{s.admin}, "warmpath_believed_cache_held_tokens{", fmt.Sprintf("replica=%q", victim))
	}
	for i := range r.books {
		if hit := r.explain(t, i)[victim]; hit != 0 {
			t.Errorf("book %d: %v tokens are believed to be in an empty cache", i, hit)
		}
	}
	eventually(t, "tokens believed to be in an empty cache", 0, held)
	r.readAll(t)
	r.mustKnow(t)
}

// restartedUnseen replaces an engine faster than anybody looks: only the reports of cached tokens can tell.
func restartedUnseen(t *testing.T, l lab.Lab) {
	of := lab.Settings{Slots: lab.Slots, Context: roomyContext}
	s := setUp(t, l, "KV_AWARE", "health: {enabled: false}", of)
	r := reader{stand: s, books: books(5)}
	r.readAll(t)
	r.mustKnow(t)

	s.engines[0].Signal(t, syscall.SIGKILL)
	<-s.engines[0].Gone()
	s.startAnew(t, l, 0, of)
	if hit := r.explain(t, 0)[name(s.engines[0])]; hit < mostOf {
		t.Errorf("book 0: %v tokens are believed to be cached, want at least %v: the restart has been seen", hit, mostOf)
	}
	for _, i := range []int{4, 3, 2} { // those used last: the cache has proved to be larger than what they take
		r.read(t, i)
	}
	for _, i := range []int{0, 1} {
		if hit := r.explain(t, i)[name(s.engines[0])]; hit != 0 {
			t.Errorf("book %d: %v tokens are believed to be cached after three answers that missed theirs", i, hit)
		}
	}
	r.readAll(t)
	r.mustKnow(t)
}

func (s *stand) ready(t *testing.T) func() float64 {
	return func() float64 { return lab.Sum(t, []string{s.admin}, "warmpath_ready_replicas{") }
}

// startAnew starts an engine that has ended, on the port that it had.
func (s *stand) startAnew(t *testing.T, l lab.Lab, engine int, of lab.Settings) {
	t.Helper()
	of.Port = port(t, s.engines[engine].URL)
	s.engines[engine] = l.StartEngine(t, of)
}

// reader asks questions about books.
type reader struct {
	*stand
	books     []string
	questions int
}

// books begin differently, and have nothing in common.
func books(count int) (all []string) {
	for i := range count {
		text := strings.Builder{}
		for n := 0; text.Len() < bookLength; n++ {
			fmt.Fprintf(&text, "%c%d ", 'a'+i, n*n)
		}
		all = append(all, text.String()[:bookLength])
	}
	return all
}

// read asks a question about a book, waits until Warmpath has counted and learned, which it does just after the client has the answer,
// and returns how many of its tokens the engine had.
func (r *reader) read(t *testing.T, book int) (cached int) {
	t.Helper()
	r.questions++
	body := chat(fmt.Sprintf("%s Question %d?", r.books[book], r.questions), 4, false)
	text, err := complete(postJSON(http.DefaultClient, r.url+"/v1/chat/completions", body))
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Usage struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatalf("answer: %v in %q", err, text)
	}
	eventually(t, "answers counted", float64(r.questions), func() float64 { return lab.Sum(t, []string{r.admin}, "warmpath_request_outcomes_total{") })
	return answer.Usage.Details.Cached
}

func (r *reader) readAll(t *testing.T) {
	t.Helper()
	for i := range r.books {
		r.read(t, i)
	}
}

// mustKnow asks about each book once more: all must be cached where they are sent, and the predictions right.
func (r *reader) mustKnow(t *testing.T) {
	t.Helper()
	tokens := func(what string) float64 { return lab.Sum(t, []string{r.admin}, "warmpath_"+what+"_tokens_total{") }
	predicted, actual, off := tokens("predicted_hit"), tokens("actual_hit"), tokens("hit_error")
	for i := range r.books {
		if cached := r.read(t, i); cached < mostOf {
			t.Errorf("book %d: %d tokens cached, want at least %d", i, cached, mostOf)
		}
	}
	predicted, actual, off = tokens("predicted_hit")-predicted, tokens("actual_hit")-actual, tokens("hit_error")-off
	t.Logf("%d books: %.0f tokens predicted to be cached, %.0f were, predictions off by %.0f in sum", len(r.books), predicted, actual, off)
	if predicted < float64(len(r.books)*mostOf) || off > actual/10 {
		t.Errorf("%.0f tokens predicted, %.0f found, off by %.0f; want at least %d, and off by at most a tenth", predicted, actual, off, len(r.books)*mostOf)
	}
}

// explain asks what each replica is believed to hold of a book, in tokens.
func (r *reader) explain(t *testing.T, book int) (hits map[string]float64) {
	t.Helper()
	text, err := complete(postJSON(plainly, r.admin+"/api/v1/explain", chat(r.books[book]+" Question?", 4, false)))
	if err != nil {
		t.Fatal(err)
	}
	var explanation struct {
		Order []struct {
			Replica string
			Cost    struct {
				Hit float64 `json:"hit_tokens"`
			}
		}
	}
	if err := json.Unmarshal(text, &explanation); err != nil {
		t.Fatalf("explain: %v in %q", err, text)
	}
	hits = map[string]float64{}
	for _, place := range explanation.Order {
		hits[place.Replica] = place.Cost.Hit
	}
	return hits
}

// places is the replica that holds each book.
func (r *reader) places(t *testing.T) (all []string) {
	t.Helper()
	for i := range r.books {
		for replica, hit := range r.explain(t, i) {
			if hit >= mostOf {
				all = append(all, replica)
			}
		}
	}
	if len(all) < len(r.books) {
		t.Fatalf("explain: %d of %d books are believed to be cached", len(all), len(r.books))
	}
	return all
}
