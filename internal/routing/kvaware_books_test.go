package routing

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/internal/fleet"
)

// TestKVAwareKeepsItsBooks plays any legal history, with whatever figures engines may report: nothing that is counted is ever less
// than zero or not a number, and all is zero once nothing is in flight.
func TestKVAwareKeepsItsBooks(t *testing.T) { rapid.Check(t, booksBalance) }

func FuzzKVAwareKeepsItsBooks(f *testing.F) {
	for seed := range uint64(4) {
		r, history := newRand(seed), make([]byte, 0, 1<<15) // enough for the longest
		for range cap(history) / 8 {
			history = binary.LittleEndian.AppendUint64(history, r.Uint64()>>r.IntN(64))
		}
		f.Add(history)
	}
	f.Fuzz(rapid.MakeFuzz(booksBalance))
}

func booksBalance(t *rapid.T) {
	p := newPlay(t)
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		p.step()
		p.check()
	}
	for len(p.open) > 0 {
		p.end(0)
		p.check()
	}
	p.apply(nil)
	p.rank(document(1, 10))
	if n := len(p.s.known); n > 0 {
		t.Fatalf("%d replicas are known of an empty fleet", n)
	}
}

// play is a history with a fleet that changes.
type play struct {
	*rig
	t    *rapid.T
	open []*exchange
}

func newPlay(t *rapid.T) *play {
	s, err := New(NameKVAware, Options{WholePrompts: rapid.Bool().Draw(t, "whole")})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{f: fleet.New(fleet.Options{SlowStart: time.Second}), s: s.(*kvAware), now: time.Unix(1000, 0), rng: newRand(1)}
	p := &play{rig: r, t: t}
	p.apply([]int{0, 1, 2})
	return p
}

// apply makes the fleet these.
func (p *play) apply(numbers []int) {
	targets := make([]fleet.Target, len(numbers))
	for i, n := range numbers {
		targets[i].URL = fmt.Sprintf("http://10.0.0.%d:8000", n)
	}
	p.f.Apply(targets)
	for _, r := range p.replicas() {
		p.f.SetHealth(r, true)
	}
}

// figures are what programs report when all is well, and when it is not.
var figures = []int{0, 1, 5, 64, 2000, 2560, 100_000, math.MaxInt32, math.MaxInt, -1, math.MinInt}

func (p *play) figure(name string) int { return rapid.SampledFrom(figures).Draw(p.t, name) }

var durations = []time.Duration{0, 1, time.Millisecond, time.Second, time.Hour, 40 * 24 * time.Hour, -time.Second}

func (p *play) step() {
	switch action := rapid.IntRange(0, 11).Draw(p.t, "action"); {
	case action < 4:
		p.send()
	case action == 4:
		p.pass(rapid.SampledFrom(durations).Draw(p.t, "time"))
	case action == 5:
		p.apply(rapid.SliceOfN(rapid.IntRange(0, 4), 0, 4).Draw(p.t, "fleet"))
	case action == 6:
		p.disturb()
	case len(p.open) == 0:
	case action < 9:
		if x := p.open[p.any()]; x.query.Streamed && !x.flight.(*flight).first {
			x.firstToken()
		}
	default:
		p.end(p.any())
	}
}

func (p *play) any() int { return rapid.IntRange(0, len(p.open)-1).Draw(p.t, "flight") }

func (p *play) send() {
	c := chain(
		text(1, rapid.IntRange(0, 8).Draw(p.t, "preamble")),
		text(rapid.Uint64Range(2, 5).Draw(p.t, "document"), rapid.IntRange(0, 30).Draw(p.t, "blocks")),
	)
	c.Bytes += rapid.SampledFrom([]int{0, 100, 1 << 22, 1 << 40}).Draw(p.t, "more bytes")
	if x := p.place(Query{Chain: c, Streamed: rapid.Bool().Draw(p.t, "streamed")}); x.lease != nil {
		p.open = append(p.open, x)
	}
}

// disturb changes what is known of a replica.
func (p *play) disturb() {
	if len(p.replicas()) == 0 {
		return
	}
	r := rapid.SampledFrom(p.replicas()).Draw(p.t, "replica")
	switch rapid.IntRange(0, 3).Draw(p.t, "disturbance") {
	case 0:
		r.MarkLost()
	case 1:
		p.f.SetHealth(r, false)
	case 2:
		p.f.SetHealth(r, true)
	case 3:
		r.SetSignals(fleet.Signals{CacheTokens: int64(p.figure("cache")), BlockTokens: int64(p.figure("block"))})
	}
}

func (p *play) end(i int) {
	x := p.open[i]
	p.open = slices.Delete(p.open, i, i+1)
	x.end(Outcome{
		Answered: rapid.Bool().Draw(p.t, "answered"), PromptTokens: p.figure("prompt tokens"), OutputTokens: p.figure("output tokens"),
		CachedTokens: p.figure("cached tokens"), CachedKnown: rapid.Bool().Draw(p.t, "cached known"),
	})
}

func (p *play) check() {
	for _, c := range p.rank(document(2, 20)) {
		p.finite(c.Cost)
	}
	learned := p.s.Learned()
	p.finite(learned)
	p.finite(learned.Latency)
	for _, c := range learned.Caches {
		p.finite(c)
	}
	if learned.IndexBytes > indexBudget {
		p.t.Fatalf("the index takes %d bytes", learned.IndexBytes)
	}
	for r, b := range p.s.known {
		own := slices.DeleteFunc(slices.Clone(p.open), func(x *exchange) bool { return x.Replica != r })
		if b.open != len(own) || b.waiting > b.open || b.waiting < 0 {
			p.t.Fatalf("%s has %d flights, %d of them waiting, want %d", r.ID(), b.open, b.waiting, len(own))
		}
		if !(b.queued >= 0) || !(b.context >= 0) || b.waiting == 0 && b.queued != 0 || b.open == 0 && b.context != 0 {
			p.t.Fatalf("%s has %g units queued by %d and a context of %g of %d", r.ID(), b.queued, b.waiting, b.context, b.open)
		}
	}
}

// finite fails if a number of a struct is less than zero, infinite or none.
func (p *play) finite(s any) {
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Float64 && !(f.Float() >= 0 && f.Float() <= math.MaxFloat64) {
			p.t.Fatalf("%s of %T is %g: %+v", v.Type().Field(i).Name, s, f.Float(), s)
		}
	}
}
