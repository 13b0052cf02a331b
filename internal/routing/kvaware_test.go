package routing

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/prompt"
)

func TestKVAwareGoesWhereThePrefixIs(t *testing.T) {
	for _, o := range []Options{{}, {WholePrompts: true}} {
		r := newRig(t, 4, o)
		homes := map[uint64]*fleet.Replica{}
		for id := range uint64(20) {
			x := r.send(document(id, 100))
			if x.Reason != LeastLatency {
				t.Errorf("a document that nobody holds goes by %s, want %s", x.Reason, LeastLatency)
			}
			x.answer()
			homes[id] = x.Replica
		}
		for range 100 {
			id := r.rng.Uint64N(20)
			x := r.send(chain(text(id, 100), text(r.rng.Uint64(), 3)))
			if x.Replica != homes[id] || x.Reason != Affinity || x.Cost.HitTokens != 6400 {
				t.Fatalf("goes to %s by %s for %g tokens, want %s by %s for 6400", x.Replica.ID(), x.Reason, x.Cost.HitTokens, homes[id].ID(), Affinity)
			}
			x.answer()
		}
	}
}

func TestKVAwareOverflowsWhenWaitingTakesLonger(t *testing.T) {
	r := newRig(t, 3, Options{})
	doc := document(1, 50)
	first := r.send(doc)
	first.answer()
	for id := range uint64(20) {
		x := r.send(doc)
		if x.Replica != first.Replica {
			if x.Reason != Overflow || x.Cost.HitTokens != 0 || id == 0 {
				t.Errorf("after %d others: %s for %g tokens, want %s for 0", id, x.Reason, x.Cost.HitTokens, Overflow)
			}
			return
		}
		if got := r.sendTo(first.Replica, document(100+id, 20)).Cost.QueuedUnits; id > 0 && got == 0 {
			t.Error("nothing is queued behind work without a first token")
		}
	}
	t.Error("20 requests and as many others wait on one replica, and two are idle")
}

func TestKVAwareBelievesAPromptAtItsDispatch(t *testing.T) {
	r := newRig(t, 4, Options{})
	for _, busy := range r.replicas()[1:] {
		for id := range uint64(6) {
			r.sendTo(busy, document(uint64(busy.InFlight())<<8+id+busy.Hash()>>40, 100))
		}
	}
	doc := text(1, 60)
	home := r.send(chain(doc, text(2, 2)))
	for id := range uint64(5) {
		x := r.send(chain(doc, text(3+id, 2)))
		if x.Replica != home.Replica || x.Reason != Affinity || x.Cost.HitTokens != 60*64 {
			t.Errorf("sibling %d of a burst goes to %s by %s for %g tokens, want %s by %s for %d",
				id, x.Replica.ID(), x.Reason, x.Cost.HitTokens, home.Replica.ID(), Affinity, 60*64)
		}
	}
}

// TestKVAwareSpreadsDocumentsBehindACommonPreamble fails without the cost of eviction: every replica but the first would stay empty.
func TestKVAwareSpreadsDocumentsBehindACommonPreamble(t *testing.T) {
	for documents, o := range map[uint64]Options{28: {}, 22: {WholePrompts: true}} {
		r := newRig(t, 4, o)
		r.publish(52_000, 16) // eight documents, or six with a preamble each
		preamble := text(1, 32)
		count, hit := map[string]int{}, 0.0
		for range 2000 {
			x := r.send(chain(preamble, text(10+r.rng.Uint64N(documents), 96), text(r.rng.Uint64(), 1)))
			count[x.Replica.ID()]++
			hit += x.Cost.HitTokens / x.Cost.PromptTokens / 2000
			r.pass(time.Second)
			x.answer()
		}
		for _, each := range r.replicas() {
			if count[each.ID()] < 200 {
				t.Errorf("%+v: %s got %d requests of 2000, want 200 at least", o, each.ID(), count[each.ID()])
			}
		}
		if hit < 0.9 {
			t.Errorf("%+v: %.3f of the tokens are believed cached, want 0.9 at least: the caches hold all documents", o, hit)
		}
	}
}

// TestKVAwareWeighsACopy compares what it costs to displace blocks for a copy of a prefix that is used often, and of one that is not.
func TestKVAwareWeighsACopy(t *testing.T) {
	r := newRig(t, 2, Options{})
	r.publish(6400, 16) // 100 blocks
	a, b := r.replicas()[0], r.replicas()[1]
	hot, lukewarm := document(1, 40), document(2, 40)
	r.sendTo(a, lukewarm).answer()
	for range 20 {
		r.sendTo(a, hot).answer()
	}
	for id := range uint64(4) {
		for range 2 {
			r.sendTo(b, document(10+id, 25)).answer()
		}
	}
	r.pass(time.Second)
	dear, half, cheap, fresh := r.costOn(lukewarm, b).Cost, r.costOn(chain(text(2, 40), text(9, 40)), b).Cost, r.costOn(hot, b).Cost, r.costOn(document(3, 40), b).Cost
	// The tail of b has been used twice, a copy costs in full up to four times that: 20 uses make it 8/20.
	near(t, "eviction by a copy of a hot prefix", cheap.Eviction, 1.5*cheap.Own*8/20, 1e-6)
	near(t, "eviction by a copy of a lukewarm prefix", dear.Eviction, 1.5*dear.Own, 1e-6)
	near(t, "eviction by half a copy of it", half.Eviction, 1.5*half.Own, 1e-6)
	near(t, "eviction by a new prompt", fresh.Eviction, 1.5*fresh.Own, 1e-6)
	for range 20 {
		r.sendTo(a, lukewarm).answer()
	}
	left := math.Exp(-1. / 30) // of uses a second ago
	half = r.costOn(chain(text(2, 40), text(9, 40)), b).Cost
	near(t, "eviction by half a copy of what is hot now", half.Eviction, 1.5*half.Own*(0.5+0.5*8*left/(20+left)), 1e-6)
	if free := r.costOn(hot, a).Cost; free.Eviction != 0 {
		t.Errorf("eviction where all is cached: %g ms", free.Eviction)
	}
}

func TestKVAwareRoutersThatKnowNothingAgree(t *testing.T) {
	a, b := newRig(t, 8, Options{}), newRig(t, 8, Options{})
	count := map[string]int{}
	for id := range uint64(4000) {
		c := document(id, 2+int(id%30))
		b.rng.Uint64() // their draws differ
		mine, theirs := ids(a.rank(c)), ids(b.rank(c))
		if !slices.Equal(mine, theirs) {
			t.Fatalf("one router ranks %v, another %v", mine, theirs)
		}
		count[mine[0]]++
	}
	for id, n := range count {
		if n < 400 || n > 600 {
			t.Errorf("%s comes first for %d of 4000 documents, want about 500", id, n)
		}
	}
}

func TestKVAwareSpreadsPromptsWithoutABlock(t *testing.T) {
	for _, bytes := range []int{0, 1, 255} {
		r := newRig(t, 8, Options{})
		count := map[string]int{}
		for range 2000 {
			x := r.send(prompt.Chain{Bytes: bytes})
			count[x.Replica.ID()]++
			x.answer()
		}
		for _, each := range r.replicas() {
			if n := count[each.ID()]; n < 190 || n > 310 {
				t.Errorf("%d bytes: %s got %d of 2000, want about 250", bytes, each.ID(), n)
			}
		}
	}
}

func TestKVAwarePlacesByLoadWhatHasNoPrompt(t *testing.T) {
	r := newRig(t, 4, Options{})
	for i := range 40 {
		x := r.send(prompt.Chain{})
		if want := int64(i/4 + 1); x.Replica.InFlight() != want {
			t.Fatalf("request %d goes to a replica with %d in flight, itself included; want %d", i, x.Replica.InFlight(), want)
		}
	}
}

func TestKVAwareFillsCachesOfUnknownSizeEvenly(t *testing.T) {
	r := newRig(t, 4, Options{WholePrompts: true})
	held := map[*fleet.Replica]int{}
	for id := range uint64(12) {
		x := r.send(document(id, 12))
		x.answer()
		held[x.Replica]++
	}
	for _, replica := range r.replicas() {
		if held[replica] != 3 {
			t.Errorf("%s has %d of 12 documents, want 3", replica.ID(), held[replica])
		}
	}
}

// TestKVAwareLeavesNoCacheOfUnknownSizeEmpty has a common preamble, which draws new prompts to where it is already.
func TestKVAwareLeavesNoCacheOfUnknownSizeEmpty(t *testing.T) {
	behindPreamble := func(id uint64) prompt.Chain { return chain(text(0, 5), text(id, 15)) }
	for _, known := range []bool{false, true} {
		r := newRig(t, 4, Options{WholePrompts: true})
		if known {
			r.publish(1<<20, 16)
		}
		served := map[*fleet.Replica]int{}
		for id := range uint64(12) {
			x := r.send(behindPreamble(id + 1))
			r.pass(100 * time.Millisecond)
			x.answer()
			served[x.Replica]++
		}
		want := 4
		if known {
			want = 1
		}
		if len(served) != want {
			t.Errorf("size known %t: %d replicas hold 12 documents, want %d", known, len(served), want)
		}
		for _, n := range served {
			if n > 12/want+1 {
				t.Errorf("size known %t: a replica holds %d of 12 documents", known, n)
			}
		}
		first := r.send(behindPreamble(1))
		first.answer()
		longer := r.rank(chain(text(0, 5), text(1, 15), text(1, 25)))[0]
		if longer.Replica != first.Replica || longer.Reason != Affinity {
			t.Errorf("size known %t: a prompt that takes another's place goes to %s by %s", known, longer.Replica.ID(), longer.Reason)
		}
	}
}

func TestKVAwareSlowStartWithholdsColdWorkOnly(t *testing.T) {
	r := newRig(t, 0, Options{})
	r.f = fleet.New(fleet.Options{SlowStart: 10 * time.Second, Now: func() time.Time { return r.now }})
	r.f.Apply([]fleet.Target{{URL: "http://a:1"}, {URL: "http://b:1"}})
	a, b := r.replicas()[0], r.replicas()[1]
	r.f.SetHealth(a, true)
	r.f.SetHealth(b, true)
	r.pass(time.Minute)
	known := document(1, 50)
	r.sendTo(b, known).answer()
	r.f.SetHealth(b, false)
	r.pass(time.Second)
	r.f.SetHealth(b, true)
	cold := 0
	for id := range uint64(1000) {
		if x := r.rank(known)[0]; x.Replica != b || x.Reason != Affinity {
			t.Fatalf("the returned replica's own prefix goes to %s by %s", x.Replica.ID(), x.Reason)
		}
		if r.rank(document(100+id, 50))[0].Replica == b {
			cold++
		}
	}
	if cold < 20 || cold > 90 {
		t.Errorf("%d of 1000 cold prompts go to a replica that has just come back, want about 50", cold)
	}
}

func TestKVAwareRanksWhatIsLeftWhenTheHomeHasFailed(t *testing.T) {
	r := newRig(t, 4, Options{})
	doc := document(1, 50)
	home := r.send(doc)
	home.fail()
	again := r.place(Query{Chain: doc, Streamed: true, Tried: []*fleet.Replica{home.Replica}})
	if again.Replica == home.Replica || again.Reason != LeastLatency {
		t.Errorf("the second attempt goes to %s by %s, want another replica by %s", again.Replica.ID(), again.Reason, LeastLatency)
	}
	again.answer()
	if x := r.send(doc); x.Replica != again.Replica {
		t.Errorf("the next goes to %s, want %s, which has answered", x.Replica.ID(), again.Replica.ID())
	}
}

func TestKVAwareGivesAReasonForEveryPlace(t *testing.T) {
	r := newRig(t, 3, Options{})
	a, b, c := r.replicas()[0], r.replicas()[1], r.replicas()[2]
	r.sendTo(a, document(1, 50)).answer()
	r.sendTo(b, document(1, 20)).answer()
	tests := []struct {
		name  string
		chain prompt.Chain
		tried []*fleet.Replica
		want  map[*fleet.Replica]Reason
	}{
		{"known", document(1, 50), nil, map[*fleet.Replica]Reason{a: Affinity, b: Overflow, c: Overflow}},
		{"as far as both", document(1, 20), nil, map[*fleet.Replica]Reason{a: Affinity, b: Affinity, c: Overflow}},
		{"without the best", document(1, 50), []*fleet.Replica{a}, map[*fleet.Replica]Reason{b: Affinity, c: Overflow}},
		{"without both", document(1, 50), []*fleet.Replica{a, b}, map[*fleet.Replica]Reason{c: LeastLatency}},
		{"unknown", document(2, 50), nil, map[*fleet.Replica]Reason{a: LeastLatency, b: LeastLatency, c: LeastLatency}},
		{"none", prompt.Chain{}, nil, map[*fleet.Replica]Reason{a: LeastLatency, b: LeastLatency, c: LeastLatency}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := r.rank(tt.chain, tt.tried...)
			for _, c := range got {
				if c.Reason != tt.want[c.Replica] {
					t.Errorf("%s: %s, want %s", c.Replica.ID(), c.Reason, tt.want[c.Replica])
				}
			}
			if len(got) != len(tt.want) {
				t.Errorf("%d places, want %d", len(got), len(tt.want))
			}
		})
	}
}

func TestKVAwareForgetsALostProcess(t *testing.T) {
	r := newRig(t, 3, Options{})
	doc := document(1, 50)
	x, open := r.send(doc), r.send(document(2, 50))
	x.answer()
	x.Replica.MarkLost()
	open.Replica.MarkLost()
	if got := r.costOn(doc, x.Replica); got.Cost.HitTokens != 0 || got.Reason != LeastLatency {
		t.Errorf("%g tokens are believed to have outlived their process, by %s", got.Cost.HitTokens, got.Reason)
	}
	open.fail()
	again := r.send(doc)
	again.answer()
	if got := r.costOn(doc, again.Replica).Cost.HitTokens; got != 50*64-1 {
		t.Errorf("%g tokens are believed after the process has answered again, want all but one of 3200", got)
	}
}

func TestKVAwareForgetsWhatASleeperHeld(t *testing.T) {
	r := newRig(t, 3, Options{})
	doc := document(1, 50)
	x := r.send(doc)
	x.answer()
	r.f.SetAsleep(x.Replica, true)
	r.f.SetAsleep(x.Replica, false)
	if got := r.costOn(doc, x.Replica); got.Cost.HitTokens != 0 {
		t.Errorf("%g tokens are believed to have outlived the sleep", got.Cost.HitTokens)
	}
}

func TestKVAwareForgetsARemovedReplica(t *testing.T) {
	r := newRig(t, 3, Options{})
	doc := document(1, 50)
	x := r.send(doc)
	x.answer()
	open := r.send(doc)
	var left []fleet.Target
	for _, each := range r.replicas() {
		if each != x.Replica {
			left = append(left, fleet.Target{URL: each.URL().String()})
		}
	}
	r.f.Apply(left)
	if got := r.rank(doc); len(got) != 2 || got[0].Reason != LeastLatency || r.s.matches.Longest() != 0 {
		t.Errorf("%d places, %s, %d blocks are believed held; want 2, %s, 0", len(got), got[0].Reason, r.s.matches.Longest(), LeastLatency)
	}
	open.firstToken()
	open.end(Outcome{Answered: true, PromptTokens: 3200, OutputTokens: 10, CachedTokens: 0, CachedKnown: true})
	r.f.Apply(append(left, fleet.Target{URL: x.Replica.URL().String()}))
	for _, each := range r.replicas() {
		r.f.SetHealth(each, true)
	}
	if got := r.rank(doc); len(got) != 3 || got[0].Reason != LeastLatency {
		t.Errorf("%d places, %s, after it is back; want 3, %s", len(got), got[0].Reason, LeastLatency)
	}
	if _, ok := r.s.known[x.Replica]; ok || len(r.s.Learned().Caches) != 3 {
		t.Errorf("the old object is known: %t; %d caches, want 3", ok, len(r.s.Learned().Caches))
	}
}

func TestKVAwareTakesBackWhatWasNotComputed(t *testing.T) {
	tests := []struct {
		name     string
		streamed bool
		token    bool
		want     bool // believed afterwards
	}{
		{"streamed, before its first token", true, false, false},
		{"streamed, after its first token", true, true, true},
		{"not streamed", false, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 3, Options{})
			doc := document(1, 50)
			x := r.place(Query{Chain: doc, Streamed: tt.streamed})
			if tt.token {
				x.firstToken()
			}
			x.fail()
			if got := r.costOn(doc, x.Replica).Cost.HitTokens > 0; got != tt.want {
				t.Errorf("believed: %t, want %t", got, tt.want)
			}
		})
	}
}

func TestKVAwareLandsWhatIsNotStreamedWhenItIsDue(t *testing.T) {
	r := newRig(t, 1, Options{})
	first := r.place(Query{Chain: document(1, 50)})
	second := r.place(Query{Chain: document(2, 50)})
	own := time.Duration(first.Cost.Own * float64(time.Millisecond))
	queued := func() float64 { return r.rank(prompt.Chain{})[0].Cost.QueuedUnits }
	near(t, "queued units, of two", queued(), 2*units(3200, 0), 1e-9)
	r.pass(own - time.Millisecond)
	near(t, "queued units, before the first is due", queued(), 2*units(3200, 0), 1e-9)
	r.pass(14 * time.Millisecond) // the base is 12
	near(t, "queued units, when it is due", queued(), units(3200, 0), 1e-9)
	r.pass(own + time.Millisecond)
	near(t, "queued units, when both are due", queued(), 0, 0)
	near(t, "context, as both are in flight", r.rank(prompt.Chain{})[0].Cost.OpenContext, 6400, 0)
	second.answer()
	first.answer()
	near(t, "context in the end", r.rank(prompt.Chain{})[0].Cost.OpenContext, 0, 0)
	if b := r.s.known[r.replicas()[0]]; len(b.blind) != 0 {
		t.Errorf("%d flights are still waited for", len(b.blind))
	}
}

// TestKVAwareTimeNeverRunsBack decides with times that are not in order, as they come from requests that wait for a lock.
func TestKVAwareTimeNeverRunsBack(t *testing.T) {
	r := newRig(t, 2, Options{})
	r.publish(6400, 16)
	doc := document(1, 95)
	for i := range 50 {
		r.pass(time.Duration(i%2*4-1) * time.Millisecond) // 3 ms on, 1 ms back
		r.send(doc).answer()
	}
	rate := r.s.index.Rate(doc.Blocks, 95, r.s.clock(r.now), r.s.fade)
	if math.Abs(rate-50) > 1 {
		t.Errorf("50 uses within 50 ms count %.3g", rate)
	}
	if r.s.fade > 40_000 {
		t.Errorf("use counts fade in %.3g ms, want 30 s at most", r.s.fade)
	}
}

// TestKVAwareCopiesWhatIsMissedAgainAndAgain: one replica has a prefix and is busy, the other is idle and has it not. A copy costs more
// than one request would save; once several would have saved as much, it is made. Prefixes that are asked for in turn are left.
func TestKVAwareCopiesWhatIsMissedAgainAndAgain(t *testing.T) {
	for _, tt := range []struct {
		name      string
		documents uint64
		copied    bool
	}{{"one prefix", 1, true}, {"many in turn", 10, false}} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, 2, Options{})
			home, other := r.replicas()[0], r.replicas()[1]
			for id := range tt.documents {
				x := r.sendTo(home, document(id, 32))
				r.pass(180 * time.Millisecond)
				x.answer()
			}
			for range 3 {
				r.sendTo(home, document(0, 32)) // and stays in flight
			}
			copied := 0
			for i := range uint64(20) {
				x := r.send(document(i%tt.documents, 32))
				if i == 0 && x.Replica != home {
					t.Fatalf("the first request is placed on %s, want its home", x.Replica.ID())
				}
				if x.Replica == other && copied == 0 {
					copied = int(i) + 1
				}
				r.pass(time.Duration(12+x.Cost.Own) * time.Millisecond)
				x.answer()
			}
			if (copied > 0) != tt.copied {
				t.Errorf("the first copy is made with request %d of 20 (0: none)", copied)
			}
			if forgone := r.s.known[other].forgone; tt.copied && forgone > 500 {
				t.Errorf("after the copy, %g ms are still missed", forgone)
			}
		})
	}
}
