package routing

import (
	"math"
	"testing"
)

// TestModelsOutliveExtremes gives the models very many answers of one odd kind, and then ordinary ones.
func TestModelsOutliveExtremes(t *testing.T) {
	tests := []struct {
		name           string
		x              features
		first, perStep float64 // ms
	}{
		{"at once", features{units: 4000, whole: 4000}, 0, 0},
		{"for months", features{units: 4000, whole: 4000, queued: 1e6, inFlight: 1000}, 1e10, 1e8},
		{"of nothing", features{}, 0, 0},
		{"of nothing, slowly", features{}, 1e6, 1e6},
		{"of the longest prompt", features{units: 1e13, whole: 1e13, queued: 1e16, inFlight: 1e4}, 100, 1e-9},
		{"before they were asked", features{units: 4000, whole: 4000}, 0, -1e9},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, d := newLatency(), newDecoding()
			for range 20_000 {
				l.observe(tt.x, tt.first)
				d.observe(100, 99*tt.perStep, tt.x.inFlight, 1000)
			}
			for name, v := range map[string]float64{
				"base": l.base(), "prefill": l.prefill(), "queue": l.queue(), "request": l.request(),
				"per request": d.perRequest(), "per context": d.perContext(),
			} {
				if !(v >= 0) || v > 1e15 {
					t.Fatalf("%s is %g", name, v)
				}
			}
			r := newRand(1)
			from, of := busy(0.5, 4), linear(25, 0.2, 0.15, 0.5, 0.1)
			for range 20_000 { // so long it takes after so many
				x := from(r)
				l.observe(x, of(x, r))
				d.observe(100, 99*2*(priorStep+priorStepRequest*x.inFlight), x.inFlight, 0)
			}
			near(t, "prefill", l.prefill(), 0.2, 0.2)
			near(t, "queue", l.queue(), 0.15, 0.3)
			near(t, "step", d.step(0, 0), 2*priorStep, 0.2)
			if got := l.base() + l.prefill()*4000; math.Abs(got-825) > 100 {
				t.Errorf("a prompt of 4000 units is expected to take %.4g ms, want about 825", got)
			}
		})
	}
}
