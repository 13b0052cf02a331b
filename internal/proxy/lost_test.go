package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/internal/endpoint"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/routing"
)

// hang is an engine that goes silent: a real vLLM that gets SIGTERM under load closes its port and leaves its open requests
// without another byte. With events, it has sent that many before.
func hang(events int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range events {
			say(w, anEvent)
		}
		<-r.Context().Done()
	}
}

// ended is how a request ended for its client.
type ended struct {
	status int
	body   string
	err    error
	after  time.Duration
}

// begin sends a chat request and tells how it ended.
func begin(client *http.Client) <-chan ended {
	out := make(chan ended, 1)
	go func() {
		began := time.Now()
		resp, err := client.Post("http://proxy/v1/chat/completions", "application/json", strings.NewReader(chatBody))
		if err != nil {
			out <- ended{err: err, after: time.Since(began)}
			return
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		out <- ended{resp.StatusCode, string(body), err, time.Since(began)}
	}()
	return out
}

// lossRig is a proxy before one engine that hangs, and a second one that is good and joins later.
func lossRig(t *testing.T, events int) (*rig, *http.Client, *fleet.Replica) {
	n := newMemoryNet()
	n.engine(t, "bad:80", hang(events))
	n.engine(t, "good:80", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, "{}") })
	g := assemble(t, routing.NameRandom, n.dial, "http://bad")
	return g, n.client(t, g), g.fleet.View().Replicas[0]
}

func TestLostReplicaBeforeTheFirstByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, client, bad := lossRig(t, 0)
		waiting := begin(client)
		synctest.Wait()
		g.apply(t, "http://bad", "http://good")
		time.Sleep(time.Minute)
		bad.MarkLost()
		if got := <-waiting; got.status != 200 || got.body != "{}" || got.after != time.Minute {
			t.Errorf("the request should have moved at once: %+v", got)
		}
		synctest.Wait()
		if l := g.access(t, 1)[0]; l.Attempts != 2 || l.Decision != "retry" || g.inFlight() != 0 {
			t.Errorf("logged %+v", l)
		}
	})
}

func TestSleepingReplicaBeforeTheFirstByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, client, bad := lossRig(t, 0)
		waiting := begin(client)
		synctest.Wait()
		g.apply(t, "http://bad", "http://good")
		time.Sleep(time.Minute)
		g.fleet.SetAsleep(bad, true)
		if got := <-waiting; got.status != 200 || got.body != "{}" || got.after != time.Minute {
			t.Errorf("the request should have moved at once: %+v", got)
		}
	})
}

// TestStreamsOfASleepingReplicaAreTheEnginesToEnd: it finishes them, or keeps them until it is woken, or is found dead.
func TestStreamsOfASleepingReplicaAreTheEnginesToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemoryNet()
		n.engine(t, "engine:80", ticks(3, 90*time.Second))
		g := assemble(t, routing.NameRandom, n.dial, "http://engine")
		streaming := begin(n.client(t, g))
		time.Sleep(100 * time.Second)
		engine := g.fleet.View().Replicas[0]
		for _, asleep := range []bool{true, false, true} {
			g.fleet.SetAsleep(engine, asleep)
			synctest.Wait()
		}
		if got := <-streaming; got.err != nil || got.after != 270*time.Second {
			t.Errorf("the stream: %+v", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		g, client, bad := lossRig(t, 2)
		streaming := begin(client)
		synctest.Wait()
		g.fleet.SetAsleep(bad, true)
		time.Sleep(time.Minute)
		bad.MarkLost()
		if got := <-streaming; got.status != 200 || got.err == nil || got.after.Round(time.Millisecond) != time.Minute {
			t.Errorf("the stream of one found dead: %+v", got)
		}
	})
}

func TestLostReplicaMovesManyWhateverTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, client, bad := lossRig(t, 0)
		all := make([]<-chan ended, 200)
		for i := range all {
			all[i] = begin(client)
		}
		synctest.Wait()
		g.apply(t, "http://bad", "http://good")
		time.Sleep(time.Minute) // none of them is recent
		bad.MarkLost()
		for _, one := range all {
			if got := <-one; got.status != 200 {
				t.Fatalf("got %+v", got)
			}
		}
	})
}

func TestLostReplicaWithNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client, bad := lossRig(t, 0)
		waiting := begin(client)
		synctest.Wait()
		bad.MarkLost()
		if got := <-waiting; got.status != 502 || !strings.Contains(got.body, "upstream_lost") || got.after != lostPatience {
			t.Errorf("got %+v", got)
		}
	})
}

// TestLostReplicaBreaksOffSilentStreams: the silence is counted from the last byte, not from the moment at which the loss is noticed.
func TestLostReplicaBreaksOffSilentStreams(t *testing.T) {
	for noticedAfter, brokenAfter := range map[time.Duration]time.Duration{0: lostGrace, time.Second: lostGrace, time.Minute: time.Minute + 1} {
		synctest.Test(t, func(t *testing.T) {
			g, client, bad := lossRig(t, 2)
			streaming := begin(client)
			synctest.Wait()
			g.apply(t, "http://bad", "http://good")
			time.Sleep(noticedAfter)
			bad.MarkLost()
			if got := <-streaming; got.status != 200 || got.err == nil || got.body != anEvent+anEvent || got.after != brokenAfter {
				t.Errorf("noticed after %v: got %+v, want it broken after %v", noticedAfter, got, brokenAfter)
			}
			synctest.Wait()
			if l := g.access(t, 1)[0]; l.Outcome != "upstream_aborted" || g.inFlight() != 0 {
				t.Errorf("logged %+v", l)
			}
		})
	}
}

func TestLostReplicaMayFinishWhatMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemoryNet()
		n.engine(t, "engine:80", ticks(20, time.Second))
		g := assemble(t, routing.NameRandom, n.dial, "http://engine")
		streaming := begin(n.client(t, g))
		time.Sleep(5500 * time.Millisecond)
		g.fleet.View().Replicas[0].MarkLost()
		if got := <-streaming; got.err != nil || got.after != 20*time.Second {
			t.Errorf("got %+v", got)
		}
	})
}

func TestGivenUpRequests(t *testing.T) {
	const dead = `{"error":"dead"}`
	plain := func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 500, dead) }
	stream := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		say(w, "data: "+dead+"\n\ndata: [DONE]\n\n")
	}
	late := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		say(w, anEvent)
		say(w, "data: "+dead+"\n\n")
	}
	good := func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, "{}") }
	givesUp := func(beginning []byte) bool { return strings.Contains(string(beginning), dead) }
	for _, tt := range []struct {
		name          string
		givesUp       func([]byte) bool
		first, second http.HandlerFunc
		want          string
		attempts      int
	}{
		{"plain", givesUp, plain, good, "{}", 2},
		{"a stream that begins with it", givesUp, stream, good, "{}", 2},
		{"a stream that has begun", givesUp, late, good, anEvent + "data: " + dead + "\n\n", 1},
		{"two of them", givesUp, plain, plain, dead, 2},
		{"an engine that never does", nil, plain, good, dead, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Bool
				n := newMemoryNet()
				for _, address := range []string{"a:80", "b:80", "c:80"} {
					n.engine(t, address, func(w http.ResponseWriter, r *http.Request) {
						if asked.Swap(true) {
							tt.second(w, r)
							return
						}
						tt.first(w, r)
					})
				}
				g := assemble(t, routing.NameRandom, n.dial, "http://a", "http://b", "http://c")
				g.pool.GivesUp = tt.givesUp
				g.endpoint.Budget = endpoint.NewBudget(0, time.Now)
				got := <-begin(n.client(t, g))
				synctest.Wait()
				if l := g.access(t, 1)[0]; got.err != nil || got.body != tt.want || l.Attempts != tt.attempts {
					t.Errorf("%d attempts, %+v; want %d and %q", l.Attempts, got, tt.attempts, tt.want)
				}
			})
		})
	}
}

// TestC105_RemovedReplica: streams finish, requests that have not begun move, and those with nowhere to go wait on.
func TestC105_RemovedReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, client, _ := lossRig(t, 0)
		frozen := make([]<-chan ended, 10)
		for i := range frozen {
			frozen[i] = begin(client)
		}
		synctest.Wait()
		g.apply(t, "http://bad", "http://good")
		time.Sleep(time.Minute)
		g.apply(t, "http://good")
		for _, one := range frozen {
			if got := <-one; got.status != 200 || got.after != time.Minute {
				t.Errorf("got %+v", got)
			}
		}
		synctest.Wait()
		if n := g.inFlight(); n != 0 {
			t.Errorf("%d in flight", n)
		}
	})
}

func TestC105_StreamsOfARemovedReplicaFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemoryNet()
		n.engine(t, "engine:80", ticks(5, 30*time.Second))
		n.engine(t, "good:80", ticks(1, 0))
		g := assemble(t, routing.NameRandom, n.dial, "http://engine")
		client := n.client(t, g)
		streaming := begin(client)
		time.Sleep(40 * time.Second)
		g.apply(t, "http://good")
		if got := <-streaming; got.err != nil || got.after != 150*time.Second {
			t.Errorf("the stream: %+v", got)
		}
	})
}

func TestC105_NowhereToGoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemoryNet()
		n.engine(t, "engine:80", ticks(2, 90*time.Second))
		g := assemble(t, routing.NameRandom, n.dial, "http://engine")
		waiting := begin(n.client(t, g))
		synctest.Wait()
		g.apply(t)
		if got := <-waiting; got.status != 200 || got.err != nil || got.after != 180*time.Second {
			t.Errorf("got %+v", got)
		}
	})
}

func TestRefusedDialTellsThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemoryNet()
		port := n.engine(t, "bad:80", hang(0))
		n.engine(t, "good:80", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, "{}") })
		g := assemble(t, routing.NameRandom, n.dial, "http://bad")
		client := n.client(t, g)
		waiting := begin(client)
		synctest.Wait()
		port.Close()
		g.apply(t, "http://bad", "http://good")
		for range 64 { // until chance has sent one to the dead port
			if got := <-begin(client); got.status != 200 {
				t.Fatalf("got %+v", got)
			}
			synctest.Wait()
			if len(waiting) > 0 {
				break
			}
		}
		if got := <-waiting; got.status != 200 || got.after != 0 {
			t.Errorf("got %+v", got)
		}
	})
}

// TestKilledReplicaMovesManyWhateverTheBudget: the system breaks all connections of a process that is gone, and refuses new ones.
func TestKilledReplicaMovesManyWhateverTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemoryNet()
		killed := make(chan struct{})
		port := n.engine(t, "bad:80", func(http.ResponseWriter, *http.Request) {
			<-killed
			panic(http.ErrAbortHandler)
		})
		n.engine(t, "good:80", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, "{}") })
		g := assemble(t, routing.NameRandom, n.dial, "http://bad")
		client := n.client(t, g)
		all := make([]<-chan ended, 200)
		for i := range all {
			all[i] = begin(client)
		}
		synctest.Wait()
		bad := g.fleet.View().Replicas[0]
		lost := bad.Lost()
		g.apply(t, "http://bad", "http://good")
		time.Sleep(time.Minute) // none of them is recent
		port.Close()
		close(killed)
		for _, one := range all {
			if got := <-one; got.status != 200 || got.after != time.Minute {
				t.Fatalf("got %+v", got)
			}
		}
		if lost.Err() == nil {
			t.Error("the replica should count as lost")
		}
	})
}

// TestReplicaBeingKilled: the system breaks the connections of a killed process before it closes the port, and takes others until then.
func TestReplicaBeingKilled(t *testing.T) {
	const portOpenFor = knockHold / 2
	synctest.Test(t, func(t *testing.T) {
		n := newMemoryNet()
		killed, portClosed := make(chan struct{}), make(chan struct{})
		port := n.engine(t, "bad:80", func(http.ResponseWriter, *http.Request) {
			<-killed
			panic(http.ErrAbortHandler)
		})
		n.engine(t, "good:80", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, "{}") })
		var nobodyThere atomic.Bool
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != "bad:80" || !nobodyThere.Load() {
				return n.dial(ctx, network, address)
			}
			here, there := net.Pipe()
			go func() {
				<-portClosed
				_ = there.Close()
			}()
			return here, nil
		}
		g := assemble(t, routing.NameRandom, dial, "http://bad")
		g.endpoint.Budget = endpoint.NewBudget(0, time.Now)
		client := n.client(t, g)
		all := make([]<-chan ended, 200)
		for i := range all {
			all[i] = begin(client)
		}
		synctest.Wait()
		g.apply(t, "http://bad", "http://good")
		nobodyThere.Store(true)
		close(killed)
		time.Sleep(portOpenFor)
		_ = port.Close()
		nobodyThere.Store(false)
		close(portClosed)
		for _, one := range all {
			if got := <-one; got.status != 200 || got.after != portOpenFor {
				t.Fatalf("got %+v", got)
			}
		}
	})
}

// TestResetOfALiveReplicaIsCharged: a replica that only breaks connections is not lost, and what it breaks is within the budget.
func TestResetOfALiveReplicaIsCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemoryNet()
		n.engine(t, "bad:80", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		g := assemble(t, routing.NameRandom, n.dial, "http://bad")
		g.endpoint.Budget = endpoint.NewBudget(0, time.Now)
		lost := g.fleet.View().Replicas[0].Lost()
		n.engine(t, "good:80", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, "{}") })
		waiting := begin(n.client(t, g))
		synctest.Wait()
		if got := <-waiting; got.status != 502 || !strings.Contains(got.body, "upstream_reset") {
			t.Errorf("got %+v", got)
		}
		if lost.Err() != nil {
			t.Error("the replica should not count as lost")
		}
	})
}

// TestBrokenStreamTellsThoseWhoWait: llama.cpp, at SIGTERM, closes its port, breaks some streams, and leaves the rest hanging.
func TestBrokenStreamTellsThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemoryNet()
		terminated := make(chan struct{})
		requests := make(chan int, 2)
		requests <- 0
		requests <- 1
		port := n.engine(t, "bad:80", func(w http.ResponseWriter, r *http.Request) {
			if <-requests == 1 {
				<-r.Context().Done()
				return
			}
			say(w, anEvent)
			<-terminated
			panic(http.ErrAbortHandler)
		})
		n.engine(t, "good:80", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, "{}") })
		g := assemble(t, routing.NameRandom, n.dial, "http://bad")
		client := n.client(t, g)
		streaming := begin(client)
		synctest.Wait()
		waiting := begin(client)
		synctest.Wait()
		g.apply(t, "http://bad", "http://good")
		port.Close()
		close(terminated)
		if got := <-streaming; got.status != 200 || got.err == nil {
			t.Errorf("the stream: got %+v, want it broken", got)
		}
		if got := <-waiting; got.status != 200 || got.body != "{}" || got.after != 0 {
			t.Errorf("the request that waited: got %+v, want it moved at once", got)
		}
	})
}
