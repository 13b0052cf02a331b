package proxy

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestAlarmRings(t *testing.T) {
	tests := []struct {
		name     string
		set      func(a *alarm)
		earliest time.Duration // 0 = it must not ring
		latest   time.Duration
	}{
		{"short, on time", func(a *alarm) { a.reset(time.Second) }, time.Second, time.Second},
		{"long, within a tick", func(a *alarm) { a.reset(time.Minute) }, time.Minute, time.Minute + alarmTick},
		{"the last reset counts", func(a *alarm) { a.reset(time.Minute); a.reset(2 * time.Minute) }, 2 * time.Minute, 2*time.Minute + alarmTick},
		{"long, then short", func(a *alarm) { a.reset(time.Minute); a.reset(time.Second) }, time.Second, time.Second},
		{"short, then long", func(a *alarm) { a.reset(time.Second); a.reset(time.Minute) }, time.Minute, time.Minute + alarmTick},
		{"never", func(a *alarm) { a.reset(0) }, 0, 0},
		{"long, then never", func(a *alarm) { a.reset(time.Minute); a.reset(0) }, 0, 0},
		{"short, then never", func(a *alarm) { a.reset(time.Second); a.reset(0) }, 0, 0},
		{"long and stopped", func(a *alarm) { a.reset(time.Minute); a.stop() }, 0, 0},
		{"short and stopped", func(a *alarm) { a.reset(time.Second); a.stop() }, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var rang atomic.Int64
				var rings atomic.Int32
				a := &alarm{owner: newAlarms()}
				a.ring = func() {
					rang.Store(int64(time.Since(began)))
					rings.Add(1)
				}
				tt.set(a)
				time.Sleep(time.Hour)
				synctest.Wait()
				if got := time.Duration(rang.Load()); got < tt.earliest || got > tt.latest {
					t.Errorf("rang after %s, want %s to %s", got, tt.earliest, tt.latest)
				}
				if n := rings.Load(); n > 1 {
					t.Errorf("rang %d times", n)
				}
				a.stop()
			})
		})
	}
}

// An idle proxy has no timer, and a busy one has one.
func TestAlarmsRestWhenThereAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAlarms()
		for range 100 {
			a := &alarm{owner: s, ring: func() { t.Error("rang") }}
			a.reset(time.Minute)
			a.stop()
		}
		time.Sleep(3 * alarmTick)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.armed || len(s.set) != 0 {
			t.Errorf("armed %v with %d alarms, want rest", s.armed, len(s.set))
		}
	})
}
