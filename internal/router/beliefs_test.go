package router_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/emulator"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/telemetry"
)

const kvAware = "KV_AWARE"

// emulated starts engines that cache as vLLM does, far faster than real ones.
func emulated(t *testing.T, n int) []*emulator.Instance {
	t.Helper()
	engines := make([]*emulator.Instance, n)
	for i := range engines {
		e, err := emulator.Listen("127.0.0.1:0", emulator.Options{
			Models: []string{"m"}, TimeScale: 1000, Config: emulator.Config{Cost: emulator.Cost70B, BlockSize: 16, Blocks: 1 << 13},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Kill)
		engines[i] = e
	}
	return engines
}

// believing is a configuration of one pool of emulated engines whose variant goes by KV_AWARE. more is put into its endpoint.
func believing(engines []*emulator.Instance, more string) string {
	urls := make([]string, len(engines))
	for i, e := range engines {
		urls[i] = e.URL()
	}
	source := "engine: vllm, static: [" + strings.Join(urls, ", ") + "]"
	return strings.Replace(onePool(source, kvAware), "e: {", "e: {"+more, 1)
}

// journal keeps the records of ended requests.
type journal chan telemetry.Request

func (j journal) into(o *options) { o.Access = func(r *telemetry.Request) { j <- *r } }

// newJournal has room for more than any test sends.
func newJournal() journal { return make(journal, 1<<10) }

// call sends a request and returns its record, at whose time the strategy knows all of it.
func (s *site) call(t *testing.T, j journal, path, body string) telemetry.Request {
	t.Helper()
	resp, err := s.client.Post(s.data.URL+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: got %s, %v: %s", path, resp.Status, err, answer)
	}
	return <-j
}

// explanation is what explain tells of a strategy's beliefs.
type explanation struct {
	Learned routing.Learned `json:"learned"`
	Order   []struct {
		Replica string         `json:"replica"`
		Reason  routing.Reason `json:"reason"`
		Cost    routing.Cost   `json:"cost"`
	} `json:"order"`
}

func (s *site) explain(t *testing.T, body string) (e explanation) {
	t.Helper()
	status, text := s.ask(t, http.MethodPost, "/api/v1/explain", body)
	if err := json.Unmarshal([]byte(text), &e); err != nil || status != http.StatusOK {
		t.Fatalf("explain: got %d, %v: %s", status, err, text)
	}
	return e
}

// hits are the prompt tokens that each replica is believed to hold.
func (e *explanation) hits() map[string]float64 {
	found := map[string]float64{}
	for _, place := range e.Order {
		found[place.Replica] = place.Cost.HitTokens
	}
	return found
}

// longText is n bytes of text that begins like no other with another name.
func longText(name string, n int) string {
	return strings.Repeat(name+" and what follows is a document that is asked about again. ", n/50)[:n]
}

func chat(text string) string {
	return fmt.Sprintf(`{"model":"m","max_tokens":4,"messages":[{"role":"user","content":%q}]}`, text)
}

// TestPredictionsComeTrue holds, for every API, that what is believed of a prompt that was sent before is what the engine finds, but
// for a block of the index and one of the engine.
func TestPredictionsComeTrue(t *testing.T) {
	t.Parallel()
	engines := emulated(t, 3)
	j := newJournal()
	s := start(t, believing(engines, ""), j.into)
	for _, e := range engines {
		s.becomes(t, e.Addr(), fleet.Ready)
	}
	const usage = `,"stream_options":{"include_usage":true}`
	tests := []struct{ path, body string }{
		{"/v1/chat/completions", `{"model":"m","max_tokens":4,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":%q}]%s}`},
		{"/v1/completions", `{"model":"m","max_tokens":4,"prompt":%q%s}`},
		{"/v1/responses", `{"model":"m","max_output_tokens":4,"input":%q%s}`},
		{"/v1/messages", `{"model":"m","max_tokens":4,"messages":[{"role":"user","content":%q}]%s}`},
	}
	var predicted, found float64
	for _, test := range tests {
		for _, stream := range []string{"", `,"stream":true`} {
			if stream != "" && strings.HasSuffix(test.path, "completions") {
				stream += usage
			}
			body := fmt.Sprintf(test.body, longText(test.path+stream, 8000), stream)
			first, second := s.call(t, j, test.path, body), s.call(t, j, test.path, body)
			for i, r := range []telemetry.Request{first, second} {
				if !r.Predicted || !r.CachedKnown {
					t.Fatalf("%s%s: request %d: prediction %t, cached tokens known %t; want both", test.path, stream, i, r.Predicted, r.CachedKnown)
				}
				predicted += r.PredictedHit * float64(r.PromptTokens)
				found += float64(r.CachedTokens)
			}
			if first.PredictedHit != 0 || first.CachedTokens != 0 {
				t.Errorf("%s%s: the first was predicted %.2f cached and was %d tokens, want none", test.path, stream, first.PredictedHit, first.CachedTokens)
			}
			off := second.PredictedHit*float64(second.PromptTokens) - float64(second.CachedTokens)
			if second.Replica != first.Replica || second.Decision != string(routing.Affinity) || second.CachedTokens < 1800 || math.Abs(off) > 64+16 {
				t.Errorf("%s%s: the second went to %s (%s), the first to %s; of %d tokens %d were cached, %.0f off the prediction",
					test.path, stream, second.Replica, second.Decision, first.Replica, second.PromptTokens, second.CachedTokens, off)
			}
		}
	}
	if got := s.sum(t, "warmpath_predicted_hit_tokens_total{"); math.Abs(got-predicted) > 1 {
		t.Errorf("metrics: %.0f tokens predicted, want %.0f", got, predicted)
	}
	if got := s.sum(t, "warmpath_actual_hit_tokens_total{"); got != found {
		t.Errorf("metrics: %.0f tokens found, want %.0f", got, found)
	}
	if got := s.scrape(t, "warmpath_believed_cache_held_tokens{"); len(got) != len(engines) {
		t.Errorf("believed caches: %v, want one of each engine", got)
	}
}

// TestAReloadKeepsWhatWasLearned holds that only what a strategy is made of makes a new one.
func TestAReloadKeepsWhatWasLearned(t *testing.T) {
	t.Parallel()
	engines := emulated(t, 2)
	j := newJournal()
	s := start(t, believing(engines, ""), j.into)
	var fresh routing.Learned
	eventually(t, "the engines have published the size of their caches", func() bool {
		fresh = s.explain(t, chat("hello")).Learned
		return len(fresh.Caches) == len(engines) && !slices.ContainsFunc(fresh.Caches, func(c routing.Cache) bool { return c.Capacity > 1<<18 })
	})
	for i := range 4 {
		s.call(t, j, "/v1/chat/completions", chat(longText(fmt.Sprint(i), 4000)))
	}
	learned := s.explain(t, chat("hello")).Learned
	if cmp.Equal(fresh, learned) || learned.IndexBlocks == 0 {
		t.Fatalf("nothing was learned: %+v", learned)
	}

	s.reload(t, believing(engines, "models: [m], timeouts: {idle: 5m}, ")+"data: {max_body: 1MiB}\n")
	if diff := cmp.Diff(learned, s.explain(t, chat("hello")).Learned); diff != "" {
		t.Errorf("after a reload of other things (-before +after):\n%s", diff)
	}
	s.reload(t, believing(engines[:1], ""))
	var fewer routing.Learned
	eventually(t, "the replica has left", func() bool {
		fewer = s.explain(t, chat("hello")).Learned
		return len(fewer.Caches) == 1
	})
	if fewer.Latency != learned.Latency || fewer.BytesPerToken != learned.BytesPerToken {
		t.Errorf("with one replica less: %+v, want what the pool's engines taught", fewer)
	}

	for _, change := range []struct{ name, from, to string }{
		{"engines that keep whole prompts", "engine: vllm", "engine: llamacpp"},
		{"another pool", "pool: p,", "pool: q,"},
		{"another variant", "[{pool: p,", "[{name: other, pool: p,"},
	} {
		s.reload(t, believing(engines, ""))
		s.call(t, j, "/v1/chat/completions", chat(longText(change.name, 4000)))
		text := strings.Replace(believing(engines, ""), change.from, change.to, 1)
		if strings.Contains(change.to, "q") {
			text = strings.Replace(text, "  p: {", "  q: {", 1)
		}
		s.reload(t, text)
		if got := s.explain(t, chat("hello")).Learned; got.IndexBlocks != 0 || got.Latency != fresh.Latency {
			t.Errorf("%s: %+v, want nothing learned yet", change.name, got)
		}
	}
}

// TestALostEngineIsForgotten sends a prompt to an engine, kills it, and has it come back.
func TestALostEngineIsForgotten(t *testing.T) {
	t.Parallel()
	engines := emulated(t, 2)
	j := newJournal()
	s := start(t, believing(engines, ""), j.into)
	for _, e := range engines {
		s.becomes(t, e.Addr(), fleet.Ready)
	}
	body := chat(longText("document", 8000))
	first := s.call(t, j, "/v1/chat/completions", body)
	home, other := engines[0], engines[1]
	if first.Replica == other.Addr() {
		home, other = other, home
	}
	explained := s.explain(t, body)
	if hits := explained.hits(); hits[home.Addr()] < 1800 || hits[other.Addr()] != 0 {
		t.Fatalf("after a request: believed hits %v, want all at %s", hits, home.Addr())
	}

	home.Kill()
	if r := s.call(t, j, "/v1/chat/completions", body); r.Replica != other.Addr() || r.CachedTokens != 0 {
		t.Errorf("after its death: answered by %s with %d cached tokens, want %s and none", r.Replica, r.CachedTokens, other.Addr())
	}
	if err := home.Restart(); err != nil {
		t.Fatal(err)
	}
	s.becomes(t, home.Addr(), fleet.Ready)
	explained = s.explain(t, body)
	if hits := explained.hits(); hits[home.Addr()] != 0 || hits[other.Addr()] < 1800 {
		t.Errorf("after its return: believed hits %v, want all at %s", hits, other.Addr())
	}
	if r := s.call(t, j, "/v1/chat/completions", body); r.Replica != other.Addr() || r.CachedTokens < 1800 {
		t.Errorf("after its return: answered by %s with %d cached tokens, want %s and all of them", r.Replica, r.CachedTokens, other.Addr())
	}
}

// TestAClientThatLeavesLeavesNoBelief holds that a prompt is believed cached from its dispatch on, and not any more when its client
// has left before the engine gave a token.
func TestAClientThatLeavesLeavesNoBelief(t *testing.T) {
	t.Parallel()
	engines := []*engine{newEngine(t), newEngine(t)}
	for _, e := range engines {
		e.silent.Store(true)
	}
	j := newJournal()
	s := start(t, onePool(static(engines...), kvAware), j.into)
	s.ready(t, engines...)
	body := chat(longText("document", 4000))
	held := func() (sum float64) {
		e := s.explain(t, body)
		for _, tokens := range e.hits() {
			sum += tokens
		}
		return sum
	}
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.data.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if resp, err := s.client.Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	eventually(t, "an engine has the request", func() bool { return engines[0].requests.Load()+engines[1].requests.Load() == 1 })
	if got := held(); got < 900 {
		t.Errorf("on its way: %.0f tokens are believed cached, want nearly all of the prompt", got)
	}
	leave()
	<-gone
	if r := <-j; r.Outcome != telemetry.OutcomeClientCancelled {
		t.Errorf("outcome %s, want %s", r.Outcome, telemetry.OutcomeClientCancelled)
	}
	if got := held(); got != 0 {
		t.Errorf("after the client has left: %.0f tokens are believed cached, want none", got)
	}
}
