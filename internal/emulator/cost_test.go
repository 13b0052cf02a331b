package emulator

import (
	"strings"
	"testing"
	"time"
)

func TestPreset(t *testing.T) {
	mine := Cost8B
	mine.T0, mine.M = 0.5, 40
	for _, tt := range []struct {
		spec  string
		want  Cost
		fault string
	}{
		{"70b", Cost70B, ""},
		{"slots", CostSlots, ""},
		{"8b:t0=0.5,m=40", mine, ""},
		{"slots:t0=3,p=1,d=1,k=1,a=1,m=0", Cost{T0: 3, P: 1, D: 1, K: 1, A: 1, Slots: true}, ""},
		{"7b", Cost{}, "use 70b, 8b or slots"},
		{"8b:", Cost{}, `"" is no constant`},
		{"8b:x=1", Cost{}, "write t0, p, d, k, a or m"},
		{"8b:p", Cost{}, `p is ""`},
		{"8b:p=fast", Cost{}, "give a number"},
		{"8b:p=NaN", Cost{}, "give a number"},
		{"8b:p=-1", Cost{}, "from 0 to"},
		{"8b:p=1e9", Cost{}, "from 0 to"},
	} {
		got, err := Preset(tt.spec)
		if got != tt.want || (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
			t.Errorf("%s: got %+v, %v; want %+v, %q", tt.spec, got, err, tt.want, tt.fault)
		}
	}
}

func FuzzPreset(f *testing.F) {
	for _, spec := range []string{"70b", "8b:t0=0.4,p=0.18,d=0.07,k=0.001,a=0.0013,m=40", "slots:", "8b:p=1e6,p=0"} {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		cost, err := Preset(spec)
		if err != nil {
			return
		}
		for _, constant := range []float64{cost.T0, cost.P, cost.D, cost.K, cost.A, cost.M} {
			if !(constant >= 0 && constant <= mostCost) {
				t.Errorf("%q gives %+v", spec, cost)
			}
		}
	})
}

func TestChunksTakeATileAtLeast(t *testing.T) {
	for tokens, want := range map[int]time.Duration{1: 51 * time.Millisecond, 50: 51 * time.Millisecond, 60: 61 * time.Millisecond} {
		core := newTestCore(t, Config{Cost: Cost{T0: 1, P: 1, M: 50}})
		r := &Request{PromptTokens: tokens, OutputTokens: 1}
		submit(t, core, r)
		near(t, "first token", drain(core, 0)[r].First, want)
	}
}
