//go:build e2e

package fleet

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// replicas lists the addresses of a router's replicas, sorted, without those that only finish what they have.
func (r *router) replicas(t testing.TB) []string {
	t.Helper()
	resp, err := http.Get(r.admin + "/api/v1/replicas")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Pools map[string][]struct {
			Replica string
			Removed bool
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, replica := range answer.Pools["engines"] {
		if !replica.Removed {
			found = append(found, replica.Replica)
		}
	}
	slices.Sort(found)
	return found
}

func TestC067_ReloadFiftyTimes(t *testing.T) {
	t.Parallel()
	engines := startEngines(t, 4, "--time-scale", "2")
	sets := [][]*engine{engines, engines[:2], engines[2:], {engines[3], engines[0], engines[1]}, engines[1:2]}
	strategies := []string{"KV_AWARE", "PREFIX_AWARE", "LEAST_OUTSTANDING_REQUESTS", "KV_AWARE"}
	r := startRouter(t, configuration(strategies[0], engines...))
	triggers := []func(){
		func() {}, // the file's change is noticed
		func() { r.signal(t, syscall.SIGHUP) },
		func() {
			resp, err := http.Post(r.admin+"/api/v1/reload", "", nil)
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("reload: %v, %v", resp, err)
				return
			}
			resp.Body.Close()
		},
	}
	long := startLoad(t, newClient(r), 5, func(n int) string { return chat(n%16, 200) }) // streams that outlast several reloads
	short := startLoad(t, newClient(r), 100, func(n int) string { return chat(n%64, 8) })
	pause(time.Second)
	for i := range 50 {
		set := sets[i%len(sets)]
		var want []string
		for _, e := range set {
			want = append(want, e.address)
		}
		slices.Sort(want)
		// The comment makes every version of the file another one.
		r.configure(t, configuration(strategies[i%len(strategies)], set...)+fmt.Sprintf("# version %d\n", i))
		triggers[i%len(triggers)]()
		eventually(t, startLimit, "the new replicas are in use", func() bool { return slices.Equal(r.replicas(t), want) })
		pause(100 * time.Millisecond)
	}
	all := append(short.stop(), long.stop()...)
	notWhole := func(o outcome) bool { return !o.whole }
	reloads, refused := r.metric(t, `warmpath_config_reloads_total{result="success"}`), r.metric(t, `warmpath_config_reloads_total{result="failure"}`)
	t.Logf("%d requests under %g reloads (50 versions of the file): %d failed", len(all), reloads, count(all, notWhole))
	if n := count(all, notWhole); n > 0 {
		t.Errorf("%d requests failed or were cut, want none", n)
		report(t, all, notWhole)
	}
	if reloads < 50 || refused > 0 {
		t.Errorf("got %g reloads and %g failed ones, want at least 50 and none", reloads, refused)
	}
	r.becomesIdle(t)
}

func TestC065_ABadFileIsRefusedAndTheNextGoodOneApplied(t *testing.T) {
	t.Parallel()
	engines := startEngines(t, 2, "--time-scale", "10")
	r := startRouter(t, configuration("RANDOM", engines[0]))
	l := startLoad(t, newClient(r), 50, func(n int) string { return chat(n, 4) })
	for i, bad := range []string{"", "pools: {", "pools: {engines: {static: [nowhere]}}\n"} {
		r.configure(t, bad)
		eventually(t, startLimit, "the failure is counted", func() bool {
			return r.metric(t, `warmpath_config_reloads_total{result="failure"}`) == float64(i+1)
		})
	}
	if !strings.Contains(r.stderr.String(), "configuration not reloaded") {
		t.Error("the log does not say that the configuration was not reloaded")
	}
	r.configure(t, configuration("RANDOM", engines...))
	eventually(t, startLimit, "the good file is in use", func() bool { return len(r.replicas(t)) == 2 })
	all := l.stop()
	if n := count(all, func(o outcome) bool { return !o.whole }); n > 0 {
		t.Errorf("%d of %d requests failed, want none", n, len(all))
	}
}
