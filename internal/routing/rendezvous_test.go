package routing

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmpath/warmpath/internal/fleet"
)

// maxOverMean places keys over n replicas and gives the fullest one's share of the mean.
func maxOverMean(t *testing.T, n, keys int) float64 {
	v := newFleet(t, n).View()
	s := strategy(t, NamePrefixAware)
	count := map[*fleet.Replica]int{}
	out := make([]Candidate, 0, 1)
	most := 0
	for key := range keys {
		out = s.Rank(&Query{Key: uint64(key), HasKey: true, Limit: 1}, v, out[:0])
		count[out[0].Replica]++
		most = max(most, count[out[0].Replica])
	}
	return float64(most) * float64(n) / float64(keys)
}

func TestRendezvousBalance(t *testing.T) {
	for _, tt := range []struct {
		replicas int
		want     float64
	}{{8, 1.03}, {64, 1.10}} {
		got := maxOverMean(t, tt.replicas, 100_000)
		t.Logf("%d replicas: max/mean %.4f", tt.replicas, got)
		if got > tt.want {
			t.Errorf("%d replicas: max/mean %.4f, want at most %.2f", tt.replicas, got, tt.want)
		}
	}
}

// These pin the placement for good: a change here moves every key of every running fleet.
func TestRendezvousGolden(t *testing.T) {
	want := []string{"c:8000", "a:8000", "a:8000", "d:8000", "b:8000", "c:8000", "b:8000", "d:8000"}
	f := fleet.New(fleet.Options{})
	f.Apply([]fleet.Target{{URL: "http://a:8000"}, {URL: "http://b:8000"}, {URL: "http://c:8000"}, {URL: "http://d:8000"}})
	for _, r := range f.View().Replicas {
		f.SetHealth(r, true)
	}
	s := strategy(t, NamePrefixAware)
	for i, owner := range want {
		key := uint64(i) * 0x9e3779b97f4a7c15
		if got := s.Rank(&Query{Key: key, HasKey: true}, f.View(), nil)[0].Replica.ID(); got != owner {
			t.Errorf("key %#x: got %s, want %s", key, got, owner)
		}
	}
	for _, tt := range []struct{ key, replica, want uint64 }{
		{0, 0, 0},
		{1, 2, 0x3ec2d42f3a45cc6e},
		{0xdeadbeef, 0xcafe, 0xbc9b66bb247a85e4},
	} {
		if got := Score(tt.key, tt.replica); got != tt.want {
			t.Errorf("Score(%#x, %#x) = %#x, want %#x", tt.key, tt.replica, got, tt.want)
		}
	}
}

func TestRendezvousMovesOnlyWhatItMust(t *testing.T) { rapid.Check(t, movesOnlyWhatItMust) }

func FuzzRendezvous(f *testing.F) { f.Fuzz(rapid.MakeFuzz(movesOnlyWhatItMust)) }

// Whatever replicas come and go, a key leaves its owner only for a newcomer or because the owner went.
func movesOnlyWhatItMust(t *rapid.T) {
	s, err := New(NamePrefixAware, testOptions[NamePrefixAware])
	if err != nil {
		t.Fatal(err)
	}
	member := rapid.SliceOfNDistinct(rapid.IntRange(0, 30), 1, 20, rapid.ID[int])
	before, after := member.Draw(t, "before"), member.Draw(t, "after")
	key := rapid.Uint64().Draw(t, "key")
	was, is := owner(s, before, key), owner(s, after, key)
	if was != is && slices.Contains(after, was) && slices.Contains(before, is) {
		t.Fatalf("key %#x moved from %d to %d though both stayed", key, was, is)
	}
}

func owner(s Strategy, members []int, key uint64) int {
	f := fleet.New(fleet.Options{})
	targets := make([]fleet.Target, len(members))
	for i, m := range members {
		targets[i].URL = fmt.Sprintf("http://r%d:80", m)
	}
	f.Apply(targets)
	var n int
	_, _ = fmt.Sscanf(s.Rank(&Query{Key: key, HasKey: true, Limit: 1}, f.View(), nil)[0].Replica.ID(), "r%d:80", &n)
	return n
}

func BenchmarkRank(b *testing.B) {
	for _, name := range Names() {
		for _, n := range []int{4, 64, 1000} {
			for _, limit := range []int{1, 0} {
				b.Run(fmt.Sprintf("%s/replicas=%d/limit=%d", name, n, limit), func(b *testing.B) {
					v, s := newFleet(b, n).View(), strategy(b, name)
					out := make([]Candidate, 0, n)
					q := &Query{HasKey: true, Limit: limit}
					b.ReportAllocs()
					for b.Loop() {
						q.Key++
						out = s.Rank(q, v, out[:0])
					}
				})
			}
		}
	}
}
