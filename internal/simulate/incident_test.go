package simulate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/workload"
)

func TestDeathMovesWhatHasNotBegun(t *testing.T) {
	// At 30 ms the first step, of 12 + 0.08*256 ms, has not ended: nothing has begun.
	w := rows{list: []workload.Request{row(0, 50, 1), row(0, 50, 2)}}
	run := simulate(t, w, Options{Replicas: 2, Incidents: []Incident{{Kind: Fail, Replica: 1, At: 30 * time.Millisecond}}})
	if run.Failed+run.Refused != 0 || run.PerReplica[1].Requests != 2 {
		t.Errorf("failed %d, r2 answered %d; want 0 and 2", run.Failed+run.Refused, run.PerReplica[1].Requests)
	}
}

func TestDeathBreaksWhatHasBegun(t *testing.T) {
	w := rows{list: []workload.Request{row(0, 50, 1), row(0, 50, 2)}}
	run := simulate(t, w, Options{Replicas: 2, Incidents: []Incident{{Kind: Fail, Replica: 1, At: 100 * time.Millisecond}}})
	if diff := cmp.Diff(map[string]int{failedBroken: 1}, run.Errors); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestEverybodyIsDead(t *testing.T) {
	w := rows{list: []workload.Request{row(time.Second, 5, 1)}}
	run := simulate(t, w, Options{Replicas: 2, Incidents: []Incident{{Kind: Fail, Replica: 1}, {Kind: Fail, Replica: 2}}})
	if diff := cmp.Diff(map[string]int{failedEverywhere: 1}, run.Errors); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if n := run.PerReplica[0].Requests + run.PerReplica[1].Requests; n != 0 {
		t.Errorf("dead replicas answered %d requests", n)
	}
}

func TestReplicaReturnsCold(t *testing.T) {
	w := rows{list: []workload.Request{row(0, 5, 1, 2, 3), row(10*time.Second, 5, 1, 2, 3)}}
	o := Options{Replicas: 1}
	if got := *simulate(t, w, o).HitRate; got == 0 {
		t.Error("without an incident there is no hit")
	}
	o.Incidents = []Incident{{Kind: Fail, Replica: 1, At: 5 * time.Second, For: time.Second}}
	run := simulate(t, w, o)
	if run.Failed != 0 || *run.HitRate != 0 {
		t.Errorf("failed %d, hit rate %v; want 0 and 0", run.Failed, *run.HitRate)
	}
}

func TestJoin(t *testing.T) {
	w := documents(8, 10, 30*time.Millisecond)
	run := simulate(t, w, Options{Replicas: 2, Incidents: []Incident{{Kind: Join, At: time.Second}, {Kind: Join, At: 2 * time.Second}}})
	var names []string
	for _, r := range run.PerReplica {
		names = append(names, r.Name)
		if r.Requests == 0 {
			t.Errorf("%s got nothing", r.Name)
		}
	}
	if diff := cmp.Diff([]string{"r1", "r2", "r3", "r4"}, names); diff != "" {
		t.Errorf("replicas (-want +got):\n%s", diff)
	}
}

func TestJoinStartsSlowly(t *testing.T) {
	w := documents(8, 20, 20*time.Millisecond)
	join := []Incident{{Kind: Join, At: 1600 * time.Millisecond}}
	at := simulate(t, w, Options{Replicas: 2, Strategy: random, SlowStart: time.Second, Incidents: join})
	once := simulate(t, w, Options{Replicas: 2, Strategy: random, Incidents: join})
	if at.PerReplica[2].Requests >= once.PerReplica[2].Requests {
		t.Errorf("r3 got %d requests with slow start and %d without", at.PerReplica[2].Requests, once.PerReplica[2].Requests)
	}
}

func TestSlow(t *testing.T) {
	w := rows{list: []workload.Request{row(0, 5, 1), row(10*time.Second, 5, 2), row(20*time.Second, 5, 3)}}
	slow := []Incident{{Kind: Slow, Replica: 1, Factor: 3, At: 5 * time.Second, For: 10 * time.Second}}
	once, twice := simulate(t, w, Options{Replicas: 1}), simulate(t, w, Options{Replicas: 1, Incidents: slow})
	if !near(twice.TTFT.P99, 3*once.TTFT.P99) || !near(twice.TTFT.P50, once.TTFT.P50) {
		t.Errorf("TTFT %+v became %+v; want one of three to be three times as long", once.TTFT, twice.TTFT)
	}
}

func TestParseIncident(t *testing.T) {
	tests := []struct {
		name string
		kind IncidentKind
		spec string
		want Incident
		err  string
	}{
		{"fail", Fail, "replica=2,at=60s,for=120s", Incident{Kind: Fail, Replica: 2, At: time.Minute, For: 2 * time.Minute}, ""},
		{"spaces", Slow, " replica=1, factor = 2 ,at=1m", Incident{Kind: Slow, Replica: 1, Factor: 2, At: time.Minute}, ""},
		{"join", Join, "at=5s", Incident{Kind: Join, At: 5 * time.Second}, ""},
		{"unknown", Fail, "replicas=2", Incident{}, `fail: option "replicas" is unknown; did you mean replica?`},
		{"nothing", Fail, "", Incident{}, `fail: option "" is unknown; use at, factor, for, replica`},
		{"no time", Fail, "at=60", Incident{}, `fail: at is "60"; give a time such as 90s or 5m`},
		{"no number", Fail, "replica=two", Incident{}, `fail: replica is "two"; give a whole number`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := ParseIncident(test.kind, test.spec)
			if message(err) != test.err {
				t.Fatalf("error %q, want %q", message(err), test.err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("incident (-want +got):\n%s", diff)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestIncidentsOutOfRange(t *testing.T) {
	tests := []struct {
		name      string
		incidents []Incident
		ok        bool
	}{
		{"replica 0", []Incident{{Kind: Fail}}, false},
		{"before it joins", []Incident{{Kind: Join, At: 2}, {Kind: Fail, Replica: 3, At: 1}}, false},
		{"after it joins", []Incident{{Kind: Fail, Replica: 3, At: 3}, {Kind: Join, At: 2}}, true},
		{"join that ends", []Incident{{Kind: Join, For: 1}}, false},
		{"in the past", []Incident{{Kind: Join, At: -1}}, false},
		{"no factor", []Incident{{Kind: Slow, Replica: 1}}, false},
		{"factor of a fail", []Incident{{Kind: Fail, Replica: 1, Factor: 2}}, false},
		{"no kind", []Incident{{Replica: 1}}, false},
	}
	for _, test := range tests {
		if _, err := schedule(test.incidents, 2); (err == nil) != test.ok {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func FuzzParseIncident(f *testing.F) {
	f.Add("replica=2,at=60s,for=120s")
	f.Add("factor=NaN,at=-1h")
	f.Fuzz(func(t *testing.T, spec string) {
		i, err := ParseIncident(Slow, spec)
		if err != nil {
			return
		}
		if changes, err := schedule([]Incident{i}, 1); err == nil && !(changes[0].factor > 0) {
			t.Errorf("%q passes as %+v", spec, i)
		}
	})
}
