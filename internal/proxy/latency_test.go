package proxy

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/telemetry"
)

// times are those of a record that divide a request between the engine and all else, in seconds.
type times struct{ Dispatched, FirstByte, EngineDone, Total float64 }

// timed serves one chat request in virtual time over two replicas that answer in turn, and returns its record.
func timed(t *testing.T, path string, body io.Reader, leave time.Duration, answers ...http.HandlerFunc) telemetry.Request {
	n := newMemoryNet()
	var asked atomic.Int64
	for _, address := range []string{"a:80", "b:80"} {
		n.engine(t, address, func(w http.ResponseWriter, r *http.Request) {
			answers[min(int(asked.Add(1)), len(answers))-1](w, r)
		})
	}
	g := assemble(t, routing.NameLeastOutstanding, n.dial, "http://a", "http://b")
	records := make(chan telemetry.Request, 1)
	g.proxy.Access = func(r *telemetry.Request) { records <- *r }
	ctx, cancel := context.WithTimeout(t.Context(), leave)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://proxy"+path, body)
	r.Header.Set("Content-Type", "application/json")
	if resp, err := n.client(t, g).Do(r); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	return <-records
}

// after answers like then, a while later.
func after(pause time.Duration, then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(pause)
		then(w, r)
	}
}

// slowBody takes a second to be sent.
type slowBody struct{ io.Reader }

func (b slowBody) Read(p []byte) (int, error) {
	time.Sleep(time.Second)
	return b.Reader.Read(p)
}

func TestTimesOfEngineAndRouter(t *testing.T) {
	busy := func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 503, "{}") }
	breaks := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	fails := func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 500, `{"error":{"message":"no"}}`) }
	stream := ticks(2, 2*time.Second, 3*time.Second)
	const chat = "/v1/chat/completions"
	for name, c := range map[string]struct {
		path    string
		body    io.Reader
		leave   time.Duration
		answers []http.HandlerFunc
		want    times
	}{
		"a stream":                     {path: chat, answers: []http.HandlerFunc{stream}, want: times{0, 2, 5, 5}},
		"a framed stream":              {path: streamPath, answers: []http.HandlerFunc{stream}, want: times{0, 2, 5, 5}},
		"a slow upload":                {path: chat, body: slowBody{strings.NewReader(chatBody)}, answers: []http.HandlerFunc{stream}, want: times{2, 4, 7, 7}},
		"after a failed attempt":       {path: chat, answers: []http.HandlerFunc{after(time.Second, busy), stream}, want: times{1, 3, 6, 6}},
		"an error that is quoted":      {path: streamPath, answers: []http.HandlerFunc{after(time.Second, fails)}, want: times{0, 1, 1, 1}},
		"no answer after a failed one": {path: chat, answers: []http.HandlerFunc{after(time.Second, busy), after(time.Second, breaks)}, want: times{1, 0, 0, 2}},
		"a client that leaves":         {path: chat, leave: 4 * time.Second, answers: []http.HandlerFunc{stream}, want: times{0, 2, 4, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if c.body == nil {
					c.body = strings.NewReader(chatBody)
				}
				if c.leave == 0 {
					c.leave = time.Hour
				}
				rec := timed(t, c.path, c.body, c.leave, c.answers...)
				got := times{rec.Dispatched.Seconds(), rec.FirstByte.Seconds(), rec.EngineDone.Seconds(), rec.Total.Seconds()}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("times (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestPrefixKeysAreCounted(t *testing.T) {
	for strategy, want := range map[string]bool{routing.NamePrefixAware: true, routing.NameLeastOutstanding: false} {
		g := newRig(t, strategy, newReplica(t, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, chatAnswer) }))
		for _, content := range []string{"one", "two", "one"} {
			g.post(t, "/v1/chat/completions", `{"messages":[{"role":"user","content":"`+content+`"}]}`)
		}
		g.access(t, 3)
		got := scrape(g)
		for _, series := range []string{`warmpath_prefix_keys{endpoint="default",variant="main"} 2`, `warmpath_replica_prefix_keys{`} {
			if strings.Contains(got, series) != want {
				t.Errorf("%s: %s is there: %v", strategy, series, !want)
			}
		}
	}
}
