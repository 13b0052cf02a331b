package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// rawReplica is a fake engine that speaks to its connections byte by byte, for what net/http's server would not do.
func rawReplica(t testing.TB, serve func(c *net.TCPConn, in *bufio.Reader)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	var open sync.Map
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Store(c, nil)
			running.Go(func() {
				defer c.Close()
				serve(c.(*net.TCPConn), bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		open.Range(func(c, _ any) bool { c.(net.Conn).Close(); return true })
		running.Wait()
	})
	return "http://" + l.Addr().String()
}

// takeRequest reads one whole request.
func takeRequest(in *bufio.Reader) (*http.Request, string, error) {
	r, err := http.ReadRequest(in)
	if err != nil {
		return nil, "", err
	}
	body, err := io.ReadAll(r.Body)
	return r, string(body), err
}

// reset makes the connection end with a RST instead of a FIN.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

const rawOK = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

// exchangeRaw sends bytes to the proxy as they are and returns all that comes back until it closes the connection, which it is
// asked to do by the bytes or does because they are wrong.
func exchangeRaw(t testing.TB, address, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(c)
	return string(answer)
}

// memoryNet is a network of net.Pipe connections, which waits in the virtual time of a synctest bubble.
type memoryNet struct {
	mu        sync.Mutex
	listeners map[string]*memoryListener
}

func newMemoryNet() *memoryNet { return &memoryNet{listeners: map[string]*memoryListener{}} }

// dial refuses where nobody listens.
func (n *memoryNet) dial(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[address]
	n.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	if l == nil {
		return nil, refused
	}
	here, there := net.Pipe()
	select {
	case l.incoming <- there:
		return here, nil
	case <-l.closed:
		return nil, refused
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
	}
}

// listen opens address until the listener is closed.
func (n *memoryNet) listen(address string) *memoryListener {
	l := &memoryListener{net: n, address: address, incoming: make(chan net.Conn), closed: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[address] = l
	return l
}

// serve runs a handler at address until the test ends.
func (n *memoryNet) serve(t testing.TB, address string, h http.HandlerFunc) *memoryListener {
	l := n.listen(address)
	s := &http.Server{Handler: h}
	var running sync.WaitGroup
	running.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() {
		_ = s.Close()
		running.Wait()
	})
	return l
}

// engine is serve for a fake engine: h runs when the request has been read, and its context ends when the proxy hangs up.
func (n *memoryNet) engine(t testing.TB, address string, h http.HandlerFunc) *memoryListener {
	return n.serve(t, address, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		h(w, r)
	})
}

// client returns a client that asks the proxy over the network.
func (n *memoryNet) client(t testing.TB, g *rig) *http.Client {
	n.serve(t, "proxy:80", g.proxy.ServeHTTP)
	transport := &http.Transport{DialContext: n.dial}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

type memoryListener struct {
	net      *memoryNet
	address  string
	incoming chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.incoming:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() {
		l.net.mu.Lock()
		defer l.net.mu.Unlock()
		delete(l.net.listeners, l.address)
		close(l.closed)
	})
	return nil
}

func (l *memoryListener) Addr() net.Addr { return memoryAddr(l.address) }

type memoryAddr string

func (memoryAddr) Network() string  { return "memory" }
func (a memoryAddr) String() string { return string(a) }
