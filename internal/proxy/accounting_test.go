package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/internal/endpoint"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/routing"
)

// panics is a strategy with a bug.
type panics struct{}

func (panics) Name() string { return "PANICS" }

func (panics) Rank(*routing.Query, *fleet.View, []routing.Candidate) []routing.Candidate {
	panic("a strategy's fault")
}

func TestC008_ReturningReplicaStartsAtZero(t *testing.T) {
	release, engine := holding(t)
	g := newRig(t, routing.NameLeastOutstanding, engine)
	var running sync.WaitGroup
	post := func() { running.Go(func() { g.direct(chatBody) }) }
	for range 10 {
		post()
	}
	eventually(t, "ten wait", func() bool { return len(engine.received()) == 10 })
	g.apply(t)
	g.apply(t, engine.URL)
	back := g.fleet.View().Replicas[0]
	post()
	eventually(t, "one more waits", func() bool { return back.InFlight() == 1 })
	release()
	running.Wait()
	if n := back.InFlight(); n != 0 || g.inFlight() != 0 {
		t.Errorf("%d in flight on the new replica, %d in all", n, g.inFlight())
	}
	if back.Requests() != 1 || len(engine.received()) != 11 {
		t.Errorf("the new replica counts %d requests of the engine's %d", back.Requests(), len(engine.received()))
	}
}

// holding starts a replica that answers nothing before release is called.
func holding(t *testing.T) (release func(), engine *replica) {
	held := make(chan struct{})
	release = sync.OnceFunc(func() { close(held) })
	engine = newReplica(t, func(w http.ResponseWriter, _ *http.Request) {
		<-held
		writeJSON(w, 200, "{}")
	})
	t.Cleanup(release)
	return release, engine
}

// abnormal are the ways in which a request can fail; each runs against a fresh connection to the proxy.
func abnormal(g *rig) map[string]func() {
	get := func(path string) {
		resp, err := http.Post(g.URL+path, "application/json", strings.NewReader(chatBody))
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
	ways := map[string]func(){
		"client abort": func() {
			c, err := net.Dial("tcp", g.Listener.Addr().String())
			if err != nil {
				return
			}
			_, _ = fmt.Fprintf(c, "POST /v1/chat/completions?hang HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(chatBody), chatBody)
			reset(c.(*net.TCPConn))
		},
		"panic": func() {
			defer func() { _ = recover() }()
			g.direct(`{"model":"panics","messages":[]}`)
		},
		"panic in the answer": func() {
			defer func() { _ = recover() }()
			r, _ := http.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(chatBody))
			g.proxy.ServeHTTP(&panickyWriter{header: http.Header{}}, r)
		},
	}
	for _, how := range []string{"before", "reset", "badchunk", "503", "hang"} {
		ways[how] = func() { get("/v1/chat/completions?" + how) }
	}
	return ways
}

// panickyWriter panics when the body comes.
type panickyWriter struct{ header http.Header }

func (w *panickyWriter) Header() http.Header       { return w.header }
func (w *panickyWriter) WriteHeader(int)           {}
func (w *panickyWriter) Write([]byte) (int, error) { panic("a hook's fault") }

// misbehave answers as the query says.
func misbehave(c *net.TCPConn, in *bufio.Reader) {
	for {
		r, _, err := takeRequest(in)
		if err != nil {
			return
		}
		switch r.URL.RawQuery {
		case "before":
			reset(c)
			return
		case "reset":
			_, _ = io.WriteString(c, rawStream+rawEvent+"20\r\nda")
			reset(c)
			return
		case "badchunk":
			_, _ = io.WriteString(c, rawStream+rawEvent+"xyz\r\n")
			return
		case "503":
			_, _ = io.WriteString(c, "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")
		case "hang":
			_, _ = in.ReadByte()
			return
		default:
			_, _ = io.WriteString(c, rawOK)
		}
	}
}

// countBodies counts the request bodies that are made and asks, at the end, how many of them are still held.
func countBodies(t *testing.T) (held func() int) {
	var mu sync.Mutex
	var made []*body
	before := bodies.New
	bodies.New = func() any {
		b := new(body)
		mu.Lock()
		defer mu.Unlock()
		made = append(made, b)
		return b
	}
	t.Cleanup(func() { bodies.New = before })
	return func() (n int) {
		mu.Lock()
		defer mu.Unlock()
		for _, b := range made {
			if b.refs.Load() != 0 {
				n++
			}
		}
		return n
	}
}

func descriptors(t testing.TB) int {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0 // not a Linux: the count of goroutines, one or more a connection, has to do
	}
	return len(open)
}

func TestC009_EveryWayOutIsCounted(t *testing.T) {
	held := countBodies(t)
	g := newRigAt(t, routing.NameLeastOutstanding, rawReplica(t, misbehave), rawReplica(t, misbehave))
	g.endpoint.Models, g.endpoint.Timeouts.FirstByte = []string{"m"}, 5*time.Millisecond
	faulty := *g.endpoint
	faulty.Name, faulty.Models = "faulty", []string{"panics"}
	faulty.Variants = []*endpoint.Variant{{Name: "main", Weight: 1, Pool: g.pool, Strategy: panics{}}}
	g.retable(&faulty)
	quiet := func() (int, int) {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		g.transport.CloseIdleConnections()
		runtime.GC()
		return runtime.NumGoroutine(), descriptors(t)
	}
	g.direct(chatBody)
	goroutines, files := quiet()
	ways := abnormal(g)
	const times, workers = 500, 4
	var running sync.WaitGroup
	for _, fail := range ways {
		for range workers {
			running.Go(func() {
				for range times / workers {
					fail()
				}
			})
		}
	}
	running.Wait()
	g.idle(t)
	eventually(t, "goroutines and descriptors are back", func() bool {
		n, f := quiet()
		return n <= goroutines+2 && f <= files+2
	})
	// A client that leaves just before the transport's writer starts leaves its body to the garbage collector.
	eventually(t, "no body is held for others than those who left", func() bool { return held() <= times })
	g.access(t, 1+times*len(ways))
}

func TestC051_LoadCoversTheWholeRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemoryNet()
		var seen [2]atomic.Int64
		for i, address := range []string{"a:80", "b:80"} {
			n.engine(t, address, func(w http.ResponseWriter, r *http.Request) {
				seen[i].Add(1)
				if r.URL.RawQuery == "prefill" {
					time.Sleep(5 * time.Second)
					writeJSON(w, 200, "{}")
					return
				}
				time.Sleep(50 * time.Millisecond)
				for range 60 {
					say(w, anEvent)
					time.Sleep(time.Second)
				}
			})
		}
		g := assemble(t, routing.NameLeastOutstanding, n.dial, "http://a", "http://b")
		client := n.client(t, g)
		for _, kind := range []string{"prefill", "stream"} {
			var running sync.WaitGroup
			for i := range 20 {
				running.Go(func() {
					resp, err := client.Post("http://proxy/v1/chat/completions?"+kind, "application/json", strings.NewReader(chatBody))
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				})
				time.Sleep(10 * time.Millisecond)
				if got := g.inFlight(); got != int64(i+1) {
					t.Errorf("%s: %d in flight after %d requests", kind, got, i+1)
				}
			}
			running.Wait()
			synctest.Wait()
			if g.inFlight() != 0 {
				t.Errorf("%s: %d in flight at the end", kind, g.inFlight())
			}
		}
		if seen[0].Load() != 20 || seen[1].Load() != 20 {
			t.Errorf("the split was %d to %d", seen[0].Load(), seen[1].Load())
		}
	})
}

// TestC050_BurstSeesItself: the count is Warmpath's own and moves with every choice, so there is nothing stale to herd on.
func TestC050_BurstSeesItself(t *testing.T) {
	release, a := holding(t)
	releaseToo, b := holding(t)
	g := newRig(t, routing.NameLeastOutstanding, a, b)
	var running sync.WaitGroup
	for range 100 {
		running.Go(func() { g.direct(chatBody) })
	}
	eventually(t, "all wait", func() bool { return g.inFlight() == 100 })
	for _, s := range g.fleet.Statuses() {
		if s.InFlight != 50 {
			t.Errorf("%s has %d of 100", s.Replica, s.InFlight)
		}
	}
	release()
	releaseToo()
	running.Wait()
}

// TestC054_RequestsWithoutAKeyGoByLoad also holds for bodies that no dialect knows.
func TestC054_RequestsWithoutAKeyGoByLoad(t *testing.T) {
	replicas := []*replica{newReplica(t, nil), newReplica(t, nil), newReplica(t, nil), newReplica(t, nil)}
	g := newRig(t, routing.NamePrefixAware, replicas...)
	for range 100 {
		for _, path := range []string{"/v1/embeddings", "/v1/files", "/v1/rerank", "/v1/audio/speech"} {
			if resp, _ := g.post(t, path, `{"input":[]}`); resp.Header.Get("X-Warmpath-Decision") != "fallback" {
				t.Fatalf("%s: went by %s", path, resp.Header.Get("X-Warmpath-Decision"))
			}
		}
	}
	for _, r := range replicas {
		if n := len(r.received()); n < 50 || n > 150 { // nearly six standard deviations
			t.Errorf("a replica got %d of 400", n)
		}
	}
}
