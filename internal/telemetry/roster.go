package telemetry

import (
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// grace is how long the series of a removed replica or endpoint stay: long enough for two scrapes a minute apart to read the last values.
const grace = 2 * time.Minute

// member names a pool (replica empty) or one of its replicas, or an endpoint (variant empty) or one of its variants. Requests know no
// pool: theirs is empty and stands for all.
type member struct{ pool, replica, endpoint, variant string }

// roster knows which series belong to which member, so that they go when it goes (a dead replica's last values would stand
// on dashboards for ever, and every new one would make the scrape longer). It is guarded by the lock of its Metrics.
type roster struct {
	now    func() time.Time
	owned  map[member]map[any]func()
	absent map[member]time.Time // since when a member with series is no longer there
	swept  time.Time
}

func newRoster(now func() time.Time) roster {
	return roster{now: now, owned: map[member]map[any]func(){}, absent: map[member]time.Time{}, swept: now()}
}

// own has drop called once who has been gone for the grace period. key tells who's series apart: a second call for one key
// replaces the first. The empty member never goes.
func (r *roster) own(who member, key any, drop func()) {
	if who == (member{}) {
		return
	}
	if r.owned[who] == nil {
		r.owned[who] = map[any]func(){}
	}
	r.owned[who][key] = drop
}

// sweep drops what belongs to members that are not in present and have not been for the grace period.
func (r *roster) sweep(present map[member]struct{}) {
	r.swept = r.now()
	for who, drops := range r.owned {
		if _, ok := present[who]; ok {
			delete(r.absent, who)
			continue
		}
		since, known := r.absent[who]
		if !known {
			r.absent[who] = r.swept
			continue
		}
		if r.swept.Sub(since) < grace {
			continue
		}
		for _, drop := range drops {
			drop()
		}
		delete(r.owned, who)
		delete(r.absent, who)
	}
}

// sweep compares the series with the replicas and endpoints there are. Without Watch it does nothing.
func (m *Metrics) sweep() {
	pools, watched := m.replicas.pools()
	if !watched {
		return
	}
	present := map[member]struct{}{}
	for pool, statuses := range pools {
		pool = valid(pool)
		present[member{pool: pool}] = struct{}{}
		for _, s := range statuses {
			replica := valid(s.Replica)
			present[member{pool: pool, replica: replica}] = struct{}{}
			present[member{replica: replica}] = struct{}{}
		}
	}
	if endpoints := m.endpoints.Load(); endpoints != nil {
		for name, variants := range (*endpoints)() {
			present[member{endpoint: valid(name)}] = struct{}{}
			for _, v := range variants {
				present[member{endpoint: valid(name), variant: valid(v)}] = struct{}{}
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.roster.sweep(present)
}

// WatchEndpoints makes Metrics forget what it counted of endpoints, and of their variants, that names has not named for two minutes:
// those that the control plane makes and deletes are without bound. names gives the variants' labels by endpoint. It must be called
// before the first request and has no effect without Watch; names has to be as the function given there.
func (m *Metrics) WatchEndpoints(names func() map[string][]string) { m.endpoints.Store(&names) }

// ownEndpoint has everything that was counted of an endpoint go with it, and what was counted of one of its variants with that one.
func (m *Metrics) ownEndpoint(endpoint, variant string) {
	if m.endpoints.Load() == nil {
		return
	}
	m.roster.own(member{endpoint: endpoint}, "requests", func() {
		maps.DeleteFunc(m.series, func(key seriesKey, _ *series) bool { return valid(key.endpoint) == endpoint })
		maps.DeleteFunc(m.prefixKeys, func(p place, _ *sketch) bool { return p.endpoint == endpoint })
		m.deleteByEndpoint(prometheus.Labels{"endpoint": endpoint})
	})
	if variant == "" {
		return
	}
	m.roster.own(member{endpoint: endpoint, variant: variant}, "requests", func() {
		maps.DeleteFunc(m.series, func(key seriesKey, _ *series) bool {
			return valid(key.endpoint) == endpoint && valid(key.variant) == variant
		})
		maps.DeleteFunc(m.prefixKeys, func(p place, _ *sketch) bool { return p.endpoint == endpoint && p.variant == variant })
		m.deleteByEndpoint(prometheus.Labels{"endpoint": endpoint, "variant": variant})
	})
}

// deleteByEndpoint deletes the series that have these labels.
func (m *Metrics) deleteByEndpoint(labels prometheus.Labels) {
	for _, v := range m.byEndpoint {
		v.DeletePartialMatch(labels)
	}
}

func (m *Metrics) sweepIfDue() {
	m.mu.RLock()
	due := m.roster.now().Sub(m.roster.swept) >= grace
	m.mu.RUnlock()
	if due {
		m.sweep()
	}
}
