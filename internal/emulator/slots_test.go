package emulator

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// apart makes every prompt token cost a millisecond, every answer token ten, and no sequence wait for another.
var apart = Cost{T0: 100, P: 1, D: 10, Slots: true}

func TestSlotsDoNotSlowEachOtherDown(t *testing.T) {
	core := newTestCore(t, Config{Cost: apart, MaxRunning: 2})
	long := &Request{PromptTokens: 1000, OutputTokens: 1}
	short := &Request{PromptTokens: 50, OutputTokens: 3}
	third := &Request{PromptTokens: 10, OutputTokens: 0}
	submit(t, core, long, short, third)
	ends := drain(core, 0)
	near(t, "long", ends[long].End, 1100*time.Millisecond)
	near(t, "first token of short", ends[short].First, 150*time.Millisecond)
	near(t, "short", ends[short].End, 170*time.Millisecond)
	near(t, "third, which waits for a slot", ends[third].End, 280*time.Millisecond)
}

func TestSlotsTakeThoseWhoComeAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name string
		cost Cost
		want time.Duration
	}{
		{"slots", apart, 150 * time.Millisecond},
		{"steps", Cost{T0: 100, P: 1}, 600 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			core := newTestCore(t, Config{Cost: tt.cost})
			submit(t, core, &Request{PromptTokens: 500, OutputTokens: 1})
			core.Begin(0)
			submit(t, core, &Request{PromptTokens: 10, OutputTokens: 1})
			end, ok := core.Begin(40 * time.Millisecond)
			if !ok {
				t.Fatal("there is nothing to compute")
			}
			near(t, "end of the first step", end, tt.want)
		})
	}
}

func TestSlotsHitWhatHasStarted(t *testing.T) {
	core := newTestCore(t, Config{Cost: apart, MaxRunning: 2})
	var requests []*Request
	for range 3 {
		requests = append(requests, &Request{Chain: blocks(1, 10), PromptTokens: 165, OutputTokens: 1})
	}
	submit(t, core, requests...)
	ends := drain(core, 0)
	for i, want := range []ending{
		{Cached: 0, First: 265 * time.Millisecond},
		{Cached: 160, First: 105 * time.Millisecond},
		{Cached: 160, First: 210 * time.Millisecond}, // once the second's slot is free
	} {
		got := ends[requests[i]]
		near(t, fmt.Sprintf("request %d", i+1), got.First, want.First)
		if got.Cached != want.Cached {
			t.Errorf("request %d: got %d cached tokens, want %d", i+1, got.Cached, want.Cached)
		}
	}
}

func TestServerStartsSlotsAtOnce(t *testing.T) {
	for _, scale := range []float64{1, 4} {
		virtual(t, Options{TimeScale: scale, Config: Config{Cost: apart}}, func(t *testing.T, s *Server) {
			start := time.Now()
			scaled := func(d time.Duration) time.Duration { return time.Duration(float64(d) / scale) }
			ask := func(token string, tokens int) time.Duration {
				do(s, "POST", "/v1/completions", fmt.Sprintf(`{"prompt":%q,"max_tokens":1}`, strings.Repeat(token, tokens)))
				return time.Since(start)
			}
			long := make(chan time.Duration, 1)
			go func() { long <- ask("long", 900) }()
			synctest.Wait()
			<-time.After(scaled(300 * time.Millisecond))
			near(t, "short", ask("shor", 100), scaled(500*time.Millisecond))
			near(t, "long", <-long, scaled(1000*time.Millisecond))
		})
	}
}

func TestServerGivesTheSlotOfAClientThatLeft(t *testing.T) {
	virtual(t, Options{Config: Config{Cost: apart, MaxRunning: 1}}, func(t *testing.T, s *Server) {
		start := time.Now()
		g, err := s.start(job{prompts: []prompt{make(prompt, 4*5000)}, output: 1}, "1")
		if err != nil {
			t.Fatal(err)
		}
		waiting := make(chan time.Duration, 1)
		go func() {
			do(s, "POST", "/v1/completions", `{"prompt":"wxyz","max_tokens":1}`)
			waiting <- time.Since(start)
		}()
		<-time.After(time.Second)
		s.abort(g)
		near(t, "the one behind", <-waiting, 1101*time.Millisecond)
	})
}
