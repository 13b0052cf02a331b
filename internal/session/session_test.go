package session

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var start = time.Unix(1_700_000_000, 0)

// table is a Table with a clock that a test moves, and what it has told of ends.
type table struct {
	*Table
	now  time.Time
	ends map[End]int
}

func newTable(limit int) *table {
	t := &table{now: start, ends: map[End]int{}}
	t.Table = NewTable(Options{Now: func() time.Time { return t.now }, Limit: limit, Ended: func(_ string, how End) { t.ends[how]++ }})
	return t
}

func (t *table) open(endpoint, id string, ttl time.Duration) bool {
	return t.Open(endpoint, id, Pin{Variant: "v", Life: context.Background(), Expires: t.now.Add(ttl)})
}

func (t *table) has(endpoint, id string) bool {
	_, ok := t.Find(endpoint, id)
	return ok
}

func TestASessionLastsUntilItExpiresOrIsClosed(t *testing.T) {
	s := newTable(10)
	if !s.open("e", "a", time.Minute) || !s.open("e", "b", time.Hour) || !s.open("other", "a", time.Hour) {
		t.Error("a new session is not new")
	}
	if s.Count("e") != 2 || s.Count("other") != 1 || s.Count("none") != 0 {
		t.Errorf("got %d and %d sessions, want 2 and 1", s.Count("e"), s.Count("other"))
	}
	s.now = start.Add(time.Minute - 1)
	if !s.has("e", "a") {
		t.Error("it ended too soon")
	}
	s.now = start.Add(time.Minute)
	if s.has("e", "a") || !s.has("e", "b") || !s.has("other", "a") {
		t.Error("not the one that expired has ended")
	}
	s.Close("e", "b")
	s.Close("e", "b")
	if s.has("e", "b") || len(s.queue) != 1 || s.byID["e"] != nil {
		t.Error("a closed session left something behind")
	}
	if diff := cmp.Diff(map[End]int{Expired: 1, Closed: 1}, s.ends); diff != "" {
		t.Errorf("ends (-want +got):\n%s", diff)
	}
}

func TestAnotherAnswerRenewsAPin(t *testing.T) {
	s := newTable(10)
	s.open("e", "a", time.Minute)
	if s.open("e", "a", time.Hour) {
		t.Error("it counts as another session")
	}
	s.now = start.Add(time.Minute)
	if !s.has("e", "a") || s.Count("e") != 1 {
		t.Error("the first expiry still holds")
	}
}

func TestAFullTableGivesUpWhatExpiresFirst(t *testing.T) {
	s := newTable(2)
	s.open("e", "long", time.Hour)
	s.open("f", "short", time.Minute)
	s.open("e", "new", 30*time.Minute)
	if s.has("f", "short") || !s.has("e", "long") || !s.has("e", "new") || s.ends[Displaced] != 1 {
		t.Errorf("ends: %v", s.ends)
	}
}

func TestRetainForgetsEndpoints(t *testing.T) {
	s := newTable(10)
	for i := range 6 {
		s.open(fmt.Sprint("e", i%3), fmt.Sprint(i), time.Duration(i)*time.Minute)
	}
	s.Retain(func(endpoint string) bool { return endpoint == "e1" })
	if s.Count("e0")+s.Count("e2") != 0 || s.Count("e1") != 2 || len(s.queue) != 2 || s.ends[Forgotten] != 3 || s.ends[Expired] != 1 {
		t.Errorf("%d left of those to keep, ends: %v", s.Count("e1"), s.ends)
	}
}

func TestGone(t *testing.T) {
	life, lose := context.WithCancel(t.Context())
	p := Pin{Life: life}
	if p.Gone() {
		t.Error("gone while its engine lives")
	}
	lose()
	if !p.Gone() {
		t.Error("not gone with its engine")
	}
}

// naive is a Table as one would write it who need not care what it costs.
type naive struct {
	limit int
	pins  map[[2]string]naivePin
	order int
	ends  map[End]int
}

type naivePin struct {
	variant string
	expires time.Time
	order   int
}

func (n *naive) drop(how End, which func([2]string, naivePin) bool) {
	maps.DeleteFunc(n.pins, func(k [2]string, p naivePin) bool {
		if !which(k, p) {
			return false
		}
		n.ends[how]++
		return true
	})
}

func (n *naive) expire(now time.Time) {
	n.drop(Expired, func(_ [2]string, p naivePin) bool { return !p.expires.After(now) })
}

func (n *naive) open(key [2]string, variant string, expires time.Time) (opened bool) {
	n.order++
	if _, known := n.pins[key]; !known {
		opened = true
		if len(n.pins) == n.limit {
			first := slices.SortedFunc(maps.Keys(n.pins), func(a, b [2]string) int {
				if c := n.pins[a].expires.Compare(n.pins[b].expires); c != 0 {
					return c
				}
				return n.pins[a].order - n.pins[b].order
			})[0]
			n.drop(Displaced, func(k [2]string, _ naivePin) bool { return k == first })
		}
	}
	n.pins[key] = naivePin{variant, expires, n.order}
	return opened
}

// TestTableIsItsModel plays any sequence of calls on a Table and on the naive one.
func TestTableIsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 6).Draw(t, "limit")
		s, model := newTable(limit), &naive{limit: limit, pins: map[[2]string]naivePin{}, ends: map[End]int{}}
		endpoint, id := rapid.SampledFrom([]string{"e", "f"}), rapid.StringMatching("[a-e]")
		key := func(t *rapid.T) [2]string { return [2]string{endpoint.Draw(t, "endpoint"), id.Draw(t, "id")} }
		t.Repeat(map[string]func(*rapid.T){
			"open": func(t *rapid.T) {
				k, ttl := key(t), time.Duration(rapid.IntRange(-1, 5).Draw(t, "ttl"))*time.Second
				variant := fmt.Sprint(s.opened)
				got := s.Open(k[0], k[1], Pin{Variant: variant, Life: context.Background(), Expires: s.now.Add(ttl)})
				if want := model.open(k, variant, s.now.Add(ttl)); got != want {
					t.Fatalf("open: got %t, want %t", got, want)
				}
			},
			"close": func(t *rapid.T) {
				k := key(t)
				s.Close(k[0], k[1])
				model.drop(Closed, func(other [2]string, _ naivePin) bool { return other == k })
			},
			"wait":   func(t *rapid.T) { s.now = s.now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "s")) * time.Second) },
			"retain": func(t *rapid.T) { s.retain(model, endpoint.Draw(t, "endpoint")) },
			"": func(t *rapid.T) {
				model.expire(s.now)
				s.compare(t, model)
			},
		})
	})
}

func (t *table) retain(model *naive, endpoint string) {
	t.Retain(func(name string) bool { return name == endpoint })
	model.drop(Forgotten, func(k [2]string, _ naivePin) bool { return k[0] != endpoint })
}

func (t *table) compare(r *rapid.T, model *naive) {
	for _, endpoint := range []string{"e", "f"} {
		count := 0
		for _, id := range []string{"a", "b", "c", "d", "e"} {
			want, known := model.pins[[2]string{endpoint, id}]
			if known {
				count++
			}
			got, ok := t.Find(endpoint, id)
			if ok != known || got.Variant != want.variant || !got.Expires.Equal(want.expires) {
				r.Fatalf("%s %s: got %+v, %t, want %+v, %t", endpoint, id, got, ok, want, known)
			}
		}
		if got := t.Count(endpoint); got != count {
			r.Fatalf("%s: got %d sessions, want %d", endpoint, got, count)
		}
	}
	if diff := cmp.Diff(model.ends, t.ends); diff != "" {
		r.Fatalf("ends (-want +got):\n%s", diff)
	}
	for i, e := range t.queue {
		if e.place != i || t.byID[e.endpoint][e.id] != e {
			r.Fatalf("the queue's place %d holds %+v", i, e)
		}
	}
}

// TestManyAtOnce: what was opened has ended or is there.
func TestManyAtOnce(t *testing.T) {
	var clock, opened, ended atomic.Int64
	s := NewTable(Options{
		Now: func() time.Time { return start.Add(time.Duration(clock.Load())) }, Limit: 50,
		Ended: func(string, End) { ended.Add(1) },
	})
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			endpoint := fmt.Sprint("e", worker%3)
			for i := range 500 {
				id := fmt.Sprint(i % 40)
				now := start.Add(time.Duration(clock.Add(1)))
				if s.Open(endpoint, id, Pin{Life: context.Background(), Expires: now.Add(time.Duration(i % 90))}) {
					opened.Add(1)
				}
				s.Find(endpoint, fmt.Sprint((i+7)%40))
				if i%5 == 0 {
					s.Close(endpoint, id)
				}
				if i%100 == 0 {
					s.Retain(func(name string) bool { return name != "e1" })
				}
			}
		})
	}
	all.Wait()
	left := int64(s.Count("e0") + s.Count("e1") + s.Count("e2"))
	if opened.Load() != ended.Load()+left || left > 50 {
		t.Errorf("%d opened, %d ended, %d left", opened.Load(), ended.Load(), left)
	}
}
