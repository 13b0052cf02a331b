package fleet

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/address"
)

// Replica is one engine server. The object is stable for as long as its source keeps reporting its address: counters live
// here, snapshots only point to it. A replica that is removed and added again is a new object, so that requests begun on the
// old one can never be subtracted from the new one's load.
type Replica struct {
	id   string
	hash uint64
	base *url.URL

	inFlight  atomic.Int64
	requests  atomic.Int64
	warmSince atomic.Int64 // Unix nanoseconds at which slow start began; 0 = warm
	life      atomic.Pointer[life]
	signals   atomic.Pointer[Signals]
	removed   atomic.Bool
	trial     atomic.Pointer[Lease] // the request that decides whether the half-open replica returns

	cond condition // guarded by the fleet's lock
}

// newReplica gives two spellings of one address the same identity. The scheme is not part of it: an engine that moves to TLS
// keeps its place in the rendezvous order.
func newReplica(rawURL string) (*Replica, error) {
	canonical, err := address.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("replica: its address %w", err)
	}
	base, err := url.Parse(canonical)
	if err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	_, id, _ := strings.Cut(canonical, "://")
	r := &Replica{id: id, hash: hashID(id), base: base}
	r.life.Store(newLife())
	return r, nil
}

// life is a replica from one loss of its engine process to the next.
type life struct {
	gone context.Context
	end  context.CancelFunc

	awake context.Context // ends with gone, too
	doze  context.CancelCauseFunc
}

// ErrAsleep is the cause with which Awake's context ends if the engine's process lives on.
var ErrAsleep = errors.New("replica: its engine sleeps or is paused")

func newLife() *life {
	gone, end := context.WithCancel(context.Background())
	return (&life{gone: gone, end: end}).next()
}

// next is the same life after the engine has fallen asleep.
func (l *life) next() *life {
	awake, doze := context.WithCancelCause(l.gone)
	return &life{gone: l.gone, end: l.end, awake: awake, doze: doze}
}

// hashID places an identity on the rendezvous order: FNV-1a, so that every process on every platform agrees.
func hashID(id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return h.Sum64()
}

// ID is the replica's identity, host:port and the base path if there is one. It survives restarts of the engine and of
// Warmpath, and is what metrics, headers and the rendezvous order use.
func (r *Replica) ID() string { return r.id }

// Hash is a 64-bit hash of the identity, the same in every process.
func (r *Replica) Hash() uint64 { return r.hash }

// URL is the engine's base URL. The caller must not change it.
func (r *Replica) URL() *url.URL { return r.base }

// InFlight is the number of requests sent to the replica whose responses have not ended. It is never negative.
func (r *Replica) InFlight() int64 { return r.inFlight.Load() }

// Requests is the number of requests ever sent to this object.
func (r *Replica) Requests() int64 { return r.requests.Load() }

// Lost returns a context that ends when the replica, as it is now, is found dead (its port refuses connections) or is
// removed from its fleet. A replica that comes back has a new one.
func (r *Replica) Lost() context.Context { return r.life.Load().gone }

// Awake returns a context that ends as Lost does, and also, with ErrAsleep, when the engine falls asleep: what it has not begun to
// answer waits, what it had cached is gone in most cases. A replica that wakes has a new one.
func (r *Replica) Awake() context.Context { return r.life.Load().awake }

// MarkLost tells every request that waits on the replica that its engine process is gone, and forgets what it said of itself.
func (r *Replica) MarkLost() {
	r.life.Swap(newLife()).end()
	r.signals.Store(nil)
}

// markAsleep tells every request that waits on the replica that its engine has fallen asleep.
func (r *Replica) markAsleep() {
	if l := r.life.Load(); r.life.CompareAndSwap(l, l.next()) { // else the process is gone, which all have been told
		l.doze(ErrAsleep)
	}
}

// Removed says that the replica's source no longer reports it; its open requests may still finish.
func (r *Replica) Removed() bool { return r.removed.Load() }

// Warmth is the share of its ordinary cold work that the replica should get at time now, in (0, 1]. It grows linearly over
// the slow-start window, from a tenth, after the replica has joined or come back.
func (r *Replica) Warmth(now time.Time, window time.Duration) float64 {
	since := r.warmSince.Load()
	if since == 0 || window <= 0 {
		return 1
	}
	age := now.Sub(time.Unix(0, since))
	if age >= window {
		return 1
	}
	return max(0.1, float64(age)/float64(window))
}
