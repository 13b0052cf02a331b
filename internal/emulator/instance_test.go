package emulator

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// fast makes an engine whose steps take a tenth of a millisecond.
var fast = Options{Config: Config{Cost: Cost{T0: 0.1}}}

func start(t *testing.T, o Options) *Instance {
	t.Helper()
	i, err := Listen("127.0.0.1:0", o)
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	t.Cleanup(i.Kill)
	return i
}

// client opens a connection for every request, so that none is stale.
func client(t *testing.T) *http.Client {
	transport := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

func post(c *http.Client, i *Instance, body string) (*http.Response, error) {
	return c.Post(i.URL()+"/v1/chat/completions", "application/json", strings.NewReader(body))
}

// read returns the answer as far as it came.
func read(t *testing.T, c *http.Client, i *Instance, body string) (string, error) {
	t.Helper()
	resp, err := post(c, i, body)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", errors.New(resp.Status)
	}
	got, err := io.ReadAll(resp.Body)
	return string(got), err
}

func TestInstanceAnswers(t *testing.T) {
	i := start(t, fast)
	got, err := read(t, client(t), i, chatBody("x", 3, `,"stream":true`))
	if err != nil || !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("got %q, %v", got, err)
	}
	if s := i.Stats(); s.Requests != 1 || s.PromptTokens == 0 {
		t.Errorf("Stats: got %+v", s)
	}
}

func TestHeadersComeBeforePrefill(t *testing.T) {
	o := fast
	o.Faults = []Fault{{Kind: FaultStall}}
	resp, err := post(client(t), start(t, o), chatBody("x", 1, `,"stream":true`))
	if err != nil {
		t.Fatalf("no header while the engine stands still: %v", err)
	}
	resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream; charset=utf-8" || resp.StatusCode != 200 {
		t.Errorf("got %d %s", resp.StatusCode, got)
	}
}

func TestFaultsWithinAnswers(t *testing.T) {
	stream, plain := chatBody("x", 6, `,"stream":true`), chatBody("x", 6, "")
	const errorEvent = `data: {"error": {"message": "` + coreDied + `", "type": "InternalServerError", "param": null, "code": 500}}` + "\n\ndata: [DONE]\n\n"
	for _, tt := range []struct {
		fault, body string
		tokens      int    // content chunks before it strikes
		end         string // what the answer ends with
		err         string // what reading it ends with
	}{
		{"reset", stream, 0, "", "reset|EOF"},
		{"reset", plain, 0, "", "reset|EOF"},
		{"reset-mid-stream,after=3", stream, 3, "", "reset"},
		{"reset-mid-stream", stream, 0, "", "reset"},
		{"reset-mid-stream,after=3", plain, 0, `{"id":"chatcmpl-`, "reset"},
		{"broken-chunk,after=2", stream, 2, "", "invalid byte in chunk length"},
		{"broken-chunk,after=2", plain, 0, `{"id":"chatcmpl-`, "invalid byte in chunk length"},
		{"error-event,after=2", stream, 2, errorEvent, ""},
		{"error-event,after=2", plain, 0, "", "500"},
		{"no-done,after=2", stream, 2, "\n\n", ""},
		{"no-done,after=6", stream, 6, "\n\n", ""},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			fault, err := ParseFault(tt.fault)
			if err != nil {
				t.Fatal(err)
			}
			o := fast
			o.Faults = []Fault{fault}
			got, err := read(t, client(t), start(t, o), tt.body)
			if n := strings.Count(got, `"content":"`) - strings.Count(got, `"content":""`); n != tt.tokens || !strings.HasSuffix(got, tt.end) {
				t.Errorf("got %d tokens, want %d, ending %q: %s", n, tt.tokens, tt.end, got)
			}
			if strings.HasPrefix(tt.fault, "no-done") && strings.Contains(got, "[DONE]") {
				t.Errorf("got a [DONE] in %s", got)
			}
			checkError(t, err, tt.err)
		})
	}
}

// checkError asserts that an error holds one of the wanted texts, or that there is none.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || want == "" {
		if (err == nil) != (want == "") {
			t.Errorf("got error %v, want %q", err, want)
		}
		return
	}
	for text := range strings.SplitSeq(want, "|") {
		if strings.Contains(err.Error(), text) {
			return
		}
	}
	t.Errorf("got error %v, want %q", err, want)
}

func TestHangGivesNoByte(t *testing.T) {
	for _, fault := range []Fault{{Kind: FaultHang}, {Kind: FaultHang, After: 2}} {
		o := fast
		o.Faults = []Fault{fault}
		i := start(t, o)
		ctx, leave := context.WithCancel(t.Context())
		lose := func() { time.AfterFunc(100*time.Millisecond, leave) } // patience: nothing more is to come
		r, err := http.NewRequestWithContext(ctx, "POST", i.URL()+"/v1/chat/completions", strings.NewReader(chatBody("x", 6, `,"stream":true`)))
		if err != nil {
			t.Fatal(err)
		}
		got, want := 0, fault.After+min(1, fault.After)
		if want == 0 {
			lose()
		}
		resp, err := client(t).Do(r)
		if err == nil {
			lines := bufio.NewScanner(resp.Body)
			for lines.Scan() {
				if !strings.Contains(lines.Text(), "finish_reason") {
					continue
				}
				if got++; got == want {
					lose()
				}
			}
			err = lines.Err()
			resp.Body.Close()
		}
		leave()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v: got error %v, want none but the client's own leaving", fault, err)
		}
		if got != want {
			t.Errorf("%v: got %d events, want %d", fault, got, want)
		}
	}
}

func TestRefuseClosesThePortAndOpensIt(t *testing.T) {
	i := start(t, fast)
	keep := &http.Client{}
	defer keep.CloseIdleConnections()
	if got, err := read(t, keep, i, chatBody("x", 1, "")); err != nil {
		t.Fatalf("before: %s, %v", got, err)
	}
	if err := i.Server().SetFaults(Fault{Kind: FaultRefuse}); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t, client(t), i, chatBody("x", 1, "")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection got %v, want refused", err)
	}
	if _, err := read(t, keep, i, chatBody("x", 1, "")); err != nil {
		t.Errorf("an open connection got %v", err)
	}
	i.Server().ClearFaults(FaultRefuse)
	i.Server().ClearFaults("")
	if _, err := read(t, client(t), i, chatBody("x", 1, "")); err != nil {
		t.Errorf("after: %v", err)
	}
}

func TestRefuseWithoutPortResets(t *testing.T) {
	virtual(t, Options{Faults: []Fault{{Kind: FaultRefuse}}}, func(t *testing.T, s *Server) {
		defer func() {
			if recover() != http.ErrAbortHandler {
				t.Error("the handler did not abort")
			}
		}()
		do(s, "POST", "/v1/completions", `{"prompt":"x"}`)
	})
}

func TestKillResetsEveryConnection(t *testing.T) {
	i := start(t, Options{})
	resp, err := post(client(t), i, chatBody("x", 1000, `,"stream":true`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	if _, err := lines.ReadString('\n'); err != nil {
		t.Fatalf("first event: %v", err)
	}
	idle, err := net.Dial("tcp", i.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	i.Kill()
	if _, err := io.ReadAll(lines); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the stream got %v, want a reset", err)
	}
	if _, err := read(t, client(t), i, chatBody("x", 1, "")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection got %v, want refused", err)
	}
	if i.Server() != nil || i.Stats() != (Stats{}) {
		t.Error("killed, but it has a server")
	}
}

func TestRestartIsColdOnTheSamePort(t *testing.T) {
	i := start(t, fast)
	url, body := i.URL(), chatBody(strings.Repeat("long ", 100), 1, "")
	ask := func() {
		if _, err := read(t, client(t), i, body); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	if err := i.Restart(); err != nil {
		t.Fatalf("Restart: %v", err)
	}
	ask()
	ask()
	if i.URL() != url {
		t.Errorf("got %s, want %s", i.URL(), url)
	}
	s := i.Stats()
	if s.Requests != 2 || s.CachedTokens == 0 || s.CachedTokens >= s.PromptTokens/2 {
		t.Errorf("got %+v, want two requests of which the first was cold", s)
	}
}

func TestHalfCloseIsADisconnect(t *testing.T) {
	for _, body := range []string{chatBody("x", 1000, ""), chatBody("x", 1000, `,"stream":true`)} {
		i := start(t, Options{})
		conn, err := net.Dial("tcp", i.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(conn)
		if strings.HasSuffix(string(got), "0\r\n\r\n") || strings.Contains(string(got), "Content-Length") {
			t.Errorf("got the end of an answer: %q", got)
		}
		if load := i.Server().load(); load.Running+load.Waiting != 0 {
			t.Errorf("the engine still works: %+v", load)
		}
	}
}

func TestCloseLetsAnswersFinish(t *testing.T) {
	i := start(t, fast)
	resp, err := post(client(t), i, chatBody("x", 300, `,"stream":true`))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := i.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	got, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !strings.HasSuffix(string(got), "[DONE]\n\n") {
		t.Errorf("the stream ended with %v after %d bytes", err, len(got))
	}
	wg.Wait()
	if err := i.Close(t.Context()); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestListenSaysWhatFailed(t *testing.T) {
	i := start(t, fast)
	if _, err := Listen(i.Addr(), fast); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a port in use: got %v", err)
	}
	if _, err := Listen("127.0.0.1:0", Options{TimeScale: -1}); err == nil {
		t.Error("bad options: got no error")
	}
}

func TestManyClientsAtOnce(t *testing.T) {
	i := start(t, fast)
	c := client(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 20 {
			if err := i.Server().SetFaults(Fault{Kind: FaultSlow, Factor: 1.1, For: time.Millisecond}); err != nil {
				t.Error(err)
			}
		}
	})
	for n := range 40 {
		wg.Go(func() {
			body := chatBody(strings.Repeat("shared ", 50+n%3), 10, []string{"", `,"stream":true`}[n%2])
			if n%5 == 4 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*50*time.Microsecond)
				defer cancel()
				r, _ := http.NewRequestWithContext(ctx, "POST", i.URL()+"/v1/chat/completions", strings.NewReader(body))
				if resp, err := c.Do(r); err == nil {
					resp.Body.Close()
				}
				return
			}
			if _, err := read(t, c, i, body); err != nil {
				t.Errorf("client %d: %v", n, err)
			}
		})
	}
	wg.Wait()
	if err := i.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// BenchmarkStreamedTokens is the real cost of a token on its way to a client, with 16 streams at once.
func BenchmarkStreamedTokens(b *testing.B) {
	i, err := Listen("127.0.0.1:0", Options{Config: Config{Cost: Cost{T0: 0.001}}})
	if err != nil {
		b.Fatal(err)
	}
	defer i.Kill()
	const streams, tokens = 16, 500
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: streams}}
	defer c.CloseIdleConnections()
	for b.Loop() {
		var wg sync.WaitGroup
		for range streams {
			wg.Go(func() {
				resp, err := post(c, i, chatBody("x", tokens, `,"stream":true`))
				if err != nil {
					b.Error(err)
					return
				}
				defer resp.Body.Close()
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
	}
	b.ReportMetric(float64(b.N*streams*tokens)/b.Elapsed().Seconds(), "tokens/s")
}
