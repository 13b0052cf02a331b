package fleet

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSignalsAreThoseLastSet(t *testing.T) {
	f := ready(t, "http://r1:1")
	r := find(t, f, "r1:1")
	if got := r.Signals(); got != (Signals{}) {
		t.Errorf("signals of a replica that nobody has read: got %+v, want none", got)
	}
	want := Signals{At: time.Unix(1, 0), Running: Read(3), CacheTokens: 4096}
	r.SetSignals(want)
	if diff := cmp.Diff(want, r.Signals()); diff != "" {
		t.Errorf("signals (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, f.Statuses()[0].Engine); diff != "" {
		t.Errorf("signals in the status (-want +got):\n%s", diff)
	}
}

func TestSignalsGoWithTheProcess(t *testing.T) {
	tests := []struct {
		name string
		lose func(*Fleet, *Replica)
	}{
		{"port refuses", func(_ *Fleet, r *Replica) { r.MarkLost() }},
		{"removed from the fleet", func(f *Fleet, _ *Replica) { f.Apply(nil) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := ready(t, "http://r1:1")
			r := find(t, f, "r1:1")
			r.SetSignals(Signals{CacheTokens: 4096})
			tt.lose(f, r)
			if got := r.Signals(); got != (Signals{}) {
				t.Errorf("got %+v, want none", got)
			}
		})
	}
}

func TestSignalsAsJSON(t *testing.T) {
	tests := []struct {
		name string
		in   Signals
		want string
	}{
		{"nothing known", Signals{}, `{}`},
		{"zero load is not unknown load", Signals{Running: Read(0), Waiting: Read(2)}, `{"running_requests":0,"waiting_requests":2}`},
		{"asleep", Signals{Asleep: true, CacheUsage: Read(0.25)}, `{"kv_cache_usage":0.25,"asleep":true}`},
	}
	for _, tt := range tests {
		got, err := json.Marshal(tt.in)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: got %s, %v; want %s", tt.name, got, err, tt.want)
		}
		var back Signals
		if err := json.Unmarshal(got, &back); err != nil || back != tt.in {
			t.Errorf("%s: read back as %+v, %v", tt.name, back, err)
		}
	}
	if got, err := json.Marshal(Reading{}); err != nil || string(got) != "null" {
		t.Errorf("an unknown reading: got %s, %v; want null", got, err)
	}
	known := Read(1)
	if err := json.Unmarshal([]byte("null"), &known); err != nil || known.Known {
		t.Errorf("null read as %+v, %v; want unknown", known, err)
	}
	if err := json.Unmarshal([]byte(`"many"`), &known); err == nil {
		t.Error("a text reads as a number")
	}
}

func TestSleepIsToldAndIsNoLoss(t *testing.T) {
	f := ready(t, "http://a:1")
	a := find(t, f, "a:1")
	lost, awake := a.Lost(), a.Awake()
	f.SetAsleep(a, true)
	if cause := context.Cause(awake); cause != ErrAsleep || lost.Err() != nil || a.Lost() != lost {
		t.Errorf("asleep: cause %v, lost %v; want %v and the same process", cause, lost.Err(), ErrAsleep)
	}
	dozing := a.Awake()
	f.SetAsleep(a, true)
	f.SetAsleep(a, false)
	if dozing.Err() != nil || a.Awake() != dozing {
		t.Error("what was sent to a sleeping replica is told of the same sleep again, or of its waking")
	}
	a.MarkLost()
	if cause := context.Cause(dozing); cause != context.Canceled || lost.Err() == nil || a.Awake().Err() != nil {
		t.Errorf("lost: cause %v, lost %v, the next one %v", cause, lost.Err(), a.Awake().Err())
	}
}

func TestAsleepReplicaIsOutOfRotation(t *testing.T) {
	f := ready(t, "http://r1:1", "http://r2:1")
	r1, r2 := find(t, f, "r1:1"), find(t, f, "r2:1")
	f.SetAsleep(r1, true)
	if diff := cmp.Diff([]string{"r2:1"}, ids(f.View().Eligible)); diff != "" {
		t.Errorf("eligible while r1 sleeps (-want +got):\n%s", diff)
	}
	if got := states(f)["r1:1"]; got != Asleep {
		t.Errorf("state: got %s, want asleep", got)
	}
	f.SetHealth(r2, false)
	if v := f.View(); !v.Degraded || !cmp.Equal(ids(v.Eligible), []string{"r2:1"}) {
		t.Errorf("one asleep, one unhealthy: eligible %v, degraded %v; want the unhealthy one, which may answer", ids(v.Eligible), v.Degraded)
	}
	f.SetAsleep(r2, true)
	f.SetHealth(r2, true)
	if v := f.View(); !v.Degraded || len(v.Eligible) != 2 {
		t.Errorf("all asleep: eligible %v, degraded %v; want both", ids(v.Eligible), v.Degraded)
	}
	f.SetAsleep(r1, false)
	if diff := cmp.Diff([]string{"r1:1"}, ids(f.View().Eligible)); diff != "" {
		t.Errorf("eligible once r1 is awake (-want +got):\n%s", diff)
	}
}
