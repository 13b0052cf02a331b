//go:build e2evllm

package vllm

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// sizes compares what Warmpath knows of each cache with what its engine publishes.
func (r *rig) sizes(t *testing.T) {
	for _, e := range r.engines() {
		tokens, block := e.label(t, "kv_cache_size_tokens"), e.label(t, "block_size")
		until(t, settleLimit, "the sizes are known", func() bool { return r.status(t, e).Engine.CacheTokens > 0 })
		known := r.status(t, e).Engine
		if known.CacheTokens != tokens || known.BlockTokens != block {
			t.Errorf("%s: %d tokens in blocks of %d, want %d in %d", e.address(), known.CacheTokens, known.BlockTokens, tokens, block)
		}
		if got := r.sum(t, "warmpath_engine_cache_tokens{", e.address()); got != float64(tokens) {
			t.Errorf("%s: %g tokens in the metrics, want %d", e.address(), got, tokens)
		}
		if got := r.capacity(t, e); math.Abs(got-float64(tokens)) > 0.1*float64(tokens) { // it counts in blocks of bytes, and learns how many a token has
			t.Errorf("%s: KV_AWARE believes in %g tokens, want %d", e.address(), got, tokens)
		}
		t.Logf("%s: %d tokens in blocks of %d", e.address(), tokens, block)
	}
}

// label is a number among the labels by which an engine describes its cache.
func (e *engine) label(t *testing.T, name string) int64 {
	t.Helper()
	page := get(t, e.url()+"/metrics").body
	found := regexp.MustCompile(`(?m)^vllm:cache_config_info\{.*\b` + name + `="([0-9]+)"`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("%s: no %s in the description of its cache", e.address(), name)
	}
	n, err := strconv.ParseInt(found[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// capacity is how many tokens KV_AWARE believes an engine's cache to hold, as explain says.
func (r *rig) capacity(t *testing.T, e *engine) float64 {
	t.Helper()
	var explained struct {
		Learned struct {
			Caches []struct {
				Replica  string
				Capacity float64 `json:"capacity_tokens"`
			}
		}
	}
	a := post(t, r.admin+"/api/v1/explain?path=/v1/completions", completion(passage, 8))
	if err := json.Unmarshal([]byte(a.body), &explained); err != nil {
		t.Fatalf("explain: %v: %s", err, a.body)
	}
	for _, c := range explained.Learned.Caches {
		if c.Replica == e.address() {
			return c.Capacity
		}
	}
	t.Fatalf("explain: no cache of %s: %s", e.address(), a.body)
	return 0
}

// books are counters that both sides keep.
type books struct{ prompt, cached, predicted, actual, off float64 }

func (r *rig) books(t *testing.T) books {
	t.Helper()
	return books{
		r.sum(t, "warmpath_prompt_tokens_total{"), r.sum(t, "warmpath_cached_prompt_tokens_total{"),
		r.sum(t, "warmpath_predicted_hit_tokens_total{"), r.sum(t, "warmpath_actual_hit_tokens_total{"), r.sum(t, "warmpath_hit_error_tokens_total{"),
	}
}

func (b books) since(a books) books {
	return books{b.prompt - a.prompt, b.cached - a.cached, b.predicted - a.predicted, b.actual - a.actual, b.off - a.off}
}

// engineBooks are the engines' own: tokens looked up in their caches, and found there.
func (r *rig) engineBooks(t *testing.T) (b books) {
	t.Helper()
	for _, e := range r.engines() {
		b.prompt += e.figure(t, "vllm:prefix_cache_queries_total{")
		b.cached += e.figure(t, "vllm:prefix_cache_hits_total{")
	}
	return b
}

// cachedTokens asks about documents again and again: by plain requests and by streams that do not ask for usage.
func (r *rig) cachedTokens(t *testing.T) {
	const learning, documents, rounds, length, own = 8, 6, 4, 1200, 50
	random := rand.New(rand.NewPCG(1, 0))
	ask := func(prompt string, changes ...fields) {
		t.Helper()
		if a := post(t, r.url+"/v1/completions", completion(prompt, 4, changes...)); a.status != 200 || a.err != nil {
			t.Fatalf("%d %v: %s", a.status, a.err, a.body)
		}
	}
	first := r.books(t)
	for range learning { // how many bytes a token has
		ask(prose(random, length))
	}
	counted := func(since books, tokens float64) {
		t.Helper()
		until(t, settleLimit, "all answers are counted", func() bool { return r.books(t).since(since).prompt >= tokens })
	}
	counted(first, learning*length)
	var texts [documents]string
	for i := range texts {
		texts[i] = prose(random, length)
	}
	before, engineBefore := r.books(t), r.engineBooks(t)
	for round := range rounds {
		for i, text := range texts {
			if (round+i)%2 == 0 {
				ask(text + prose(random, own))
			} else {
				ask(text+prose(random, own), stream)
			}
		}
	}
	want := r.engineBooks(t).since(engineBefore)
	counted(before, want.prompt)
	got := r.books(t).since(before)
	t.Logf("%d requests: %+v; the engines: %g of %g tokens cached", documents*rounds, got, want.cached, want.prompt)
	if got.prompt != want.prompt || got.cached != want.cached {
		t.Errorf("%g of %g tokens cached, the engines say %g of %g", got.cached, got.prompt, want.cached, want.prompt)
	}
	if rate := got.cached / got.prompt; rate < 0.6 { // whole blocks of what is asked for again: 69 % of all
		t.Errorf("%.0f %% cached, want at least 60 %%", 100*rate)
	}
	if got.off > 0.1*got.prompt {
		t.Errorf("predictions were off by %g of %g tokens, want at most a tenth", got.off, got.prompt)
	}
	for _, e := range r.engines() {
		for ours, theirs := range map[string]string{
			"warmpath_engine_prefix_cache_query_tokens_total{": "vllm:prefix_cache_queries_total{",
			"warmpath_engine_prefix_cache_hit_tokens_total{":   "vllm:prefix_cache_hits_total{",
		} {
			until(t, settleLimit, e.address()+": "+ours+" is what the engine counts", func() bool {
				return r.sum(t, ours, e.address()) == e.figure(t, theirs)
			})
		}
	}
}

// prose is random lower-case words, length bytes of them.
func prose(random *rand.Rand, length int) string {
	var text strings.Builder
	for range length {
		text.WriteByte("abcdefghijklmnopqrstuvwxyz    "[random.IntN(30)])
	}
	return text.String()
}
