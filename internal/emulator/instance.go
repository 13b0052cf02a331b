package emulator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// idleTimeout is when vLLM closes an idle connection, silently.
const idleTimeout = 5 * time.Second

// Instance is a Server on a port of its own, with the life of an engine process: it can be closed, killed and
// restarted. Its methods may be called from any goroutine.
type Instance struct {
	options Options
	addr    string

	life    sync.Mutex // held while a process starts or ends
	process *process   // nil while down
}

// Listen starts an engine on a TCP address; port 0 picks a free one, which later restarts keep.
func Listen(addr string, o Options) (*Instance, error) {
	i := &Instance{options: o, addr: addr}
	if err := i.Restart(); err != nil {
		return nil, err
	}
	return i, nil
}

// Addr returns the address the engine listens on, host and port.
func (i *Instance) Addr() string {
	i.life.Lock()
	defer i.life.Unlock()
	return i.addr
}

// URL returns the engine's base URL.
func (i *Instance) URL() string { return "http://" + i.Addr() }

// Server returns the running engine, or nil while it is down. A restart makes a new one.
func (i *Instance) Server() *Server {
	i.life.Lock()
	defer i.life.Unlock()
	if i.process == nil {
		return nil
	}
	return i.process.server
}

// Stats returns the counters of the running engine, zero while it is down.
func (i *Instance) Stats() Stats {
	if s := i.Server(); s != nil {
		return s.Stats()
	}
	return Stats{}
}

// Restart starts the engine with a cold cache and its first faults on the port it had, killing it first if it runs.
func (i *Instance) Restart() error {
	i.life.Lock()
	defer i.life.Unlock()
	i.kill()
	server, err := New(i.options)
	if err != nil {
		return err
	}
	p, addr, err := startProcess(i.addr, server)
	if err != nil {
		return err
	}
	i.process, i.addr = p, addr
	return nil
}

// Close stops the engine gracefully: the port refuses at once, requests under way are answered until ctx ends.
func (i *Instance) Close(ctx context.Context) error {
	i.life.Lock()
	defer i.life.Unlock()
	if i.process == nil {
		return nil
	}
	err := i.process.http.Shutdown(ctx)
	i.kill()
	if errors.Is(err, net.ErrClosed) { // FaultRefuse had closed the port already
		return nil
	}
	return err
}

// Kill stops the engine as kill -9 does: the port refuses and every connection is reset.
func (i *Instance) Kill() {
	i.life.Lock()
	defer i.life.Unlock()
	i.kill()
}

func (i *Instance) kill() {
	if i.process != nil {
		i.process.kill()
		i.process = nil
	}
}

// process is one life of an Instance.
type process struct {
	server *Server
	http   *http.Server
	port   *port
	stop   context.CancelFunc
	done   sync.WaitGroup
}

func startProcess(addr string, server *Server) (*process, string, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, "", fmt.Errorf("emulator: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &process{server: server, stop: stop}
	p.http = &http.Server{Handler: server, IdleTimeout: idleTimeout, ConnState: p.track}
	p.port = &port{addr: listener.Addr().String(), serve: p.serve, conns: make(map[net.Conn]struct{})}
	p.port.listen(listener)
	p.done.Go(func() { server.Run(ctx) })
	server.mu.Lock()
	server.refuse = func(refused bool) { p.port.open(!refused) }
	server.mu.Unlock()
	server.faultsChanged()
	return p, p.port.addr, nil
}

func (p *process) serve(l net.Listener) {
	p.done.Go(func() { _ = p.http.Serve(l) }) // ends when the port closes; net/http itself retries a failed accept
}

func (p *process) track(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		p.port.add(c)
	case http.StateClosed, http.StateHijacked:
		p.port.remove(c)
	}
}

// kill resets what is open and returns when every goroutine of the process but its handlers has ended; they end with
// their connections.
func (p *process) kill() {
	p.port.kill()
	_ = p.http.Close() // all of it is closed already
	p.stop()
	p.done.Wait()
}

// port is a listener that closes and opens again on the same address, and knows its connections.
type port struct {
	addr  string
	serve func(net.Listener)

	mu       sync.Mutex
	dead     bool
	listener net.Listener // nil while closed
	conns    map[net.Conn]struct{}
}

func (p *port) listen(l net.Listener) {
	p.listener = l
	p.serve(l)
}

// open makes the port accept, or refuse, connections. A port that another process has taken meanwhile stays closed.
func (p *port) open(open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.dead || open == (p.listener != nil):
	case open:
		if l, err := net.Listen("tcp", p.addr); err == nil {
			p.listen(l)
		}
	default:
		_ = p.listener.Close()
		p.listener = nil
	}
}

func (p *port) add(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		resetConn(c)
		return
	}
	p.conns[c] = struct{}{}
}

func (p *port) remove(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *port) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	if p.listener != nil {
		_ = p.listener.Close()
	}
	for c := range p.conns {
		resetConn(c)
	}
	clear(p.conns)
}
