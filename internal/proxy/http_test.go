package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/routing"
)

func TestC074_ExpectContinue(t *testing.T) {
	engine := newReplica(t, nil)
	g := newRig(t, routing.NameRandom, engine)
	g.settings.Limits.Body = 4 << 20
	ask := func(path string, length int) string {
		c, err := net.Dial("tcp", g.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", path, length)
		in := bufio.NewReader(c)
		first, err := in.ReadString('\n')
		if err != nil || !strings.Contains(first, " 100 ") {
			return first
		}
		_, _ = in.ReadString('\n')
		_, _ = io.WriteString(c, `{"model":"m","prompt":"`+strings.Repeat("x", length-25)+`"}`)
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return err.Error()
		}
		resp.Body.Close()
		return "100, then " + resp.Status
	}
	if got := ask("/v1/completions", 2<<20); got != "100, then 200 OK" {
		t.Errorf("2 MB: %q", got)
	}
	if got := ask("/v1/completions", 5<<20); !strings.Contains(got, " 413 ") {
		t.Errorf("too large: %q", got)
	}
	if got := ask("/not/served", 2<<20); !strings.Contains(got, " 404 ") {
		t.Errorf("unknown path: %q", got)
	}
	for _, seen := range engine.received() {
		if seen.header.Get("Expect") != "" || seen.length != 2<<20 {
			t.Errorf("the engine got %v", seen.header)
		}
	}
}

func TestC074_EngineThatAnswersEarly(t *testing.T) {
	g := newRigAt(t, routing.NameRandom, rawReplica(t, func(c *net.TCPConn, in *bufio.Reader) {
		_, _ = in.Peek(1)
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
		_, _ = io.Copy(io.Discard, in)
	}))
	for range 20 {
		if resp, body := g.post(t, "/v1/completions", longBody(2<<20)); resp.StatusCode != 400 || body != "no" {
			t.Fatalf("got %d %s", resp.StatusCode, body)
		}
	}
}

func TestC080_ClientsChooseNoAddress(t *testing.T) {
	trap := newReplica(t, nil)
	engine := newReplica(t, nil)
	g := newRig(t, routing.NameRandom, engine)
	host := strings.TrimPrefix(trap.URL, "http://")
	headers := ""
	for _, name := range []string{
		"X-Warmpath-Replica", "X-Warmpath-Target", "x-warmpath-decision", "X-Prefiller-Host-Port", "X-Gateway-Destination-Endpoint",
		"X-Target", "X-Original-Host", "X-Forwarded-Host", "Forwarded",
	} {
		headers += name + ": " + host + "\r\n"
	}
	for _, target := range []string{
		"/v1/completions", "http://" + host + "/v1/completions", "/v1/@" + host + "/x", "/v1/completions@" + host, "//" + host + "/v1/completions",
		"http:" + host + "/v1/completions", "/v1/..%2f..%2f" + host, "/v1/http://" + host,
	} {
		exchangeRaw(t, g.URL, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s", target, host, headers, len(chatBody), chatBody))
	}
	exchangeRaw(t, g.URL, "CONNECT "+host+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n")
	if n := len(trap.received()); n != 0 || trap.accepts.Load() != 0 {
		t.Errorf("a client aimed %d requests at an address of its own", n)
	}
	if len(engine.received()) == 0 {
		t.Error("the engine got nothing")
	}
	for _, seen := range engine.received() {
		for name, values := range seen.header {
			if strings.HasPrefix(name, "X-Warmpath-") || name == "Forwarded" {
				t.Errorf("the engine got %s: %v", name, values)
			}
		}
	}
}

func TestConnectAndTraceAreRefused(t *testing.T) {
	engine := newReplica(t, nil)
	g := newRig(t, routing.NameRandom, engine)
	for _, method := range []string{"CONNECT", "TRACE"} {
		got := exchangeRaw(t, g.URL, method+" /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(got, "HTTP/1.1 405") || len(engine.received()) != 0 {
			t.Errorf("%s: %q", method, got)
		}
	}
}

// TestC083_NothingPrivateIsRepeated sends markers wherever a secret may stand and looks for them in all that Warmpath writes.
func TestC083_NothingPrivateIsRepeated(t *testing.T) {
	const marker = "zq-marker-zq"
	answers := map[string]string{
		"ok":         "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 14\r\n\r\n\"" + marker + "\"",
		"not-http":   marker + " is not HTTP\r\n\r\n",
		"bad-header": "HTTP/1.1 200 OK\r\n" + marker + "\r\n\r\n",
		"bad-length": "HTTP/1.1 200 OK\r\nContent-Length: " + marker + "\r\n\r\n",
		"bad-chunk":  rawStream + rawEvent + marker + "\r\n",
		"error":      rawStream + "46\r\ndata: {\"error\":{\"message\":\"" + marker + "\",\"code\":500}}\n\n\r\n0\r\n\r\n",
		"bad-coding": "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + marker + "\r\n\r\n",
		"500":        "HTTP/1.1 500 No\r\nContent-Length: 12\r\n\r\n" + marker,
	}
	g := newRigAt(t, routing.NamePrefixAware, rawReplica(t, func(c *net.TCPConn, in *bufio.Reader) {
		if r, _, err := takeRequest(in); err == nil {
			_, _ = io.WriteString(c, answers[r.URL.Query().Get("answer")])
		}
	}))
	g.pool.Authorization = "Bearer " + marker
	private := func(path, body string, headers ...string) string {
		headers = append(headers, "Authorization", "Bearer "+marker, "X-Api-Key", marker, "Cookie", marker, "X-Amzn-SageMaker-Prefix-Aware-Id", marker)
		req, _ := http.NewRequest(http.MethodPost, g.URL+path, strings.NewReader(body))
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return ""
		}
		defer resp.Body.Close()
		answer, _ := io.ReadAll(resp.Body)
		return string(answer)
	}
	body := `{"model":"` + marker + `","prompt_cache_key":"` + marker + `","messages":[{"role":"user","content":"` + marker + `"}]}`
	for answer := range answers {
		private("/v1/chat/completions?key="+marker+"&answer="+answer, body)
	}
	g.settings.Limits.Body = 1 << 10
	own := []string{
		private("/v1/chat/completions", body[:len(body)-3]),
		private("/v1/chat/completions", body+strings.Repeat(" ", 2<<10)),
		private("/v1/chat/completions", body, "Content-Encoding", "gzip"),
		private("/v1/chat/completions", body, "Content-Encoding", marker),
		private("/elsewhere?"+marker, body),
	}
	g.endpoint.Strict = true
	own = append(own, private("/v1/chat/completions", body))
	for i, answer := range own {
		if answer == "" || strings.Contains(answer, marker) {
			t.Errorf("own answer %d: %q", i, answer)
		}
	}
	eventually(t, "all is logged", func() bool { return strings.Count(g.log.String(), `"msg":"request"`) == len(own)+len(answers) })
	for line := range strings.Lines(g.log.String()) {
		if strings.Contains(line, marker) {
			t.Errorf("the log says %s", line)
		}
	}
	if metrics := scrape(g); strings.Contains(metrics, marker) || !strings.Contains(metrics, "warmpath_") {
		t.Error("metrics repeat a marker, or are none")
	}
}

// scrape reads the metrics page.
func scrape(g *rig) string {
	w := httptest.NewRecorder()
	g.metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// TestC101_Smuggling: whatever framing comes in, an engine sees well-formed requests only, and never one that was hidden.
func TestC101_Smuggling(t *testing.T) {
	const hidden = "POST /v1/hidden HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
	head := "POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
	whole := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(chatBody), chatBody)
	for name, c := range map[string]struct {
		request string
		refused bool
	}{
		"both lengths":        {head + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + whole, false},
		"two lengths":         {head + "Content-Length: 4\r\nContent-Length: 60\r\n\r\n" + chatBody + hidden, true},
		"gzip, chunked":       {head + "Transfer-Encoding: gzip, chunked\r\n\r\n" + whole + hidden, true},
		"identity":            {head + "Transfer-Encoding: identity\r\n\r\n" + hidden, true},
		"chunked twice":       {head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + whole + hidden, true},
		"a tab before":        {head + "Transfer-Encoding:\tchunked\r\nConnection: close\r\n\r\n" + whole, false},
		"a space before ':'":  {head + "Transfer-Encoding : chunked\r\n\r\n" + whole + hidden, true},
		"vertical tab":        {head + "Transfer-Encoding: \x0bchunked\r\n\r\n" + whole + hidden, true},
		"bare LF in a chunk":  {head + "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\nhello\n0\n\n" + hidden, true},
		"NUL in a header":     {head + "X-A: a\x00b\r\nContent-Length: 0\r\n\r\n" + hidden, true},
		"negative length":     {head + "Content-Length: -1\r\n\r\n" + hidden, true},
		"signed length":       {head + "Content-Length: +5\r\n\r\nhello" + hidden, true},
		"a chunk too large":   {head + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" + hidden, true},
		"no host":             {"POST /v1/completions HTTP/1.1\r\nContent-Length: 0\r\n\r\n" + hidden, true},
		"obsolete line folds": {head + "X-A: a\r\n b\r\nConnection: close\r\nContent-Length: 60\r\n\r\n" + chatBody, false},
	} {
		engine := newReplica(t, nil)
		g := newRig(t, routing.NameRandom, engine)
		got := exchangeRaw(t, g.URL, c.request)
		for _, seen := range engine.received() {
			if seen.uri != "/v1/completions" || seen.chunked || int64(len(seen.body)) != seen.length || string(seen.body) != chatBody {
				t.Errorf("%s: the engine got %s %q", name, seen.uri, seen.body)
			}
		}
		if refused := strings.HasPrefix(got, "HTTP/1.1 4") || strings.HasPrefix(got, "HTTP/1.1 501"); refused != c.refused || refused && len(engine.received()) != 0 {
			t.Errorf("%s: the client got %q", name, got)
		}
	}
}

func TestC102_EngineDiesDuringUpload(t *testing.T) {
	g := newRigAt(t, routing.NameRandom, rawReplica(t, func(c *net.TCPConn, in *bufio.Reader) {
		_, _ = io.CopyN(io.Discard, in, 100)
		reset(c)
	}))
	body := longBody(64 << 10)
	g.send(t, "/v1/completions", io.MultiReader(strings.NewReader(body)))
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	before := runtime.NumGoroutine()
	for range 200 {
		if resp, _ := g.send(t, "/v1/completions", io.MultiReader(strings.NewReader(body))); resp.StatusCode < 500 {
			t.Fatalf("got %d", resp.StatusCode)
		}
	}
	g.idle(t)
	eventually(t, "the goroutines are gone", func() bool {
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		return runtime.NumGoroutine() <= before+2
	})
}

// TestC102_LateInterimAnswer races 103s, a reset and a client that leaves; the race detector judges.
func TestC102_LateInterimAnswer(t *testing.T) {
	g := newRigAt(t, routing.NameRandom, rawReplica(t, func(c *net.TCPConn, in *bufio.Reader) {
		if _, _, err := takeRequest(in); err == nil {
			_, _ = io.WriteString(c, strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 5))
			reset(c)
		}
	}))
	var running sync.WaitGroup
	for range 20 {
		running.Go(func() {
			for range 20 {
				c, err := net.Dial("tcp", g.Listener.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(chatBody), chatBody)
				_, _ = c.Read(make([]byte, 16))
				reset(c.(*net.TCPConn))
			}
		})
	}
	running.Wait()
	g.idle(t)
}

func TestHeadersOnTheirWay(t *testing.T) {
	engine := newReplica(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "X-Private")
		w.Header().Set("X-Private", "1")
		w.Header().Set("X-Warmpath-Replica", "a lie")
		w.Header().Set("X-Engine", "1")
		writeJSON(w, 200, "{}")
	})
	g := newRig(t, routing.NameRandom, engine)
	g.pool.Authorization = "Bearer engine-key"
	resp, _ := g.send(t, "/v1/completions", strings.NewReader(chatBody), "Connection", "X-Secret, close", "X-Secret", "1", "Te", "trailers",
		"Authorization", "Bearer client-key", "X-Api-Key", "client-key", "X-Request-Id", "id-7", "X-Forwarded-For", "1.2.3.4", "Proxy-Authorization", "x")
	if h := resp.Header; h.Get("X-Private") != "" || h.Get("X-Engine") != "1" || h.Get("X-Request-Id") != "id-7" || !strings.HasSuffix(engine.URL, h.Get("X-Warmpath-Replica")) {
		t.Errorf("the client got %v", h)
	}
	h := engine.received()[0].header
	for name, want := range map[string]string{
		"X-Secret": "", "Connection": "", "Proxy-Authorization": "", "Authorization": "Bearer engine-key", "X-Api-Key": "",
		"X-Request-Id": "id-7", "X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http", "Te": "trailers", "Idempotency-Key": "",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("the engine got %s: %q, want %q", name, got, want)
		}
	}
	g.settings.TrustForwarded = true
	g.send(t, "/v1/completions", strings.NewReader(chatBody), "X-Forwarded-For", "1.2.3.4", "X-Forwarded-Proto", "https")
	if h := engine.received()[1].header; h.Get("X-Forwarded-For") != "1.2.3.4, 127.0.0.1" || h.Get("X-Forwarded-Proto") != "https" {
		t.Errorf("the engine got %v", h)
	}
}

// TestSlowBodyIsCutOff also holds for bodies that nobody wants to read.
func TestSlowBodyIsCutOff(t *testing.T) {
	g := newRig(t, routing.NameRandom, newReplica(t, nil))
	g.settings.Limits.BodyIdle, g.settings.Limits.Body = 20*time.Millisecond, 1000
	for _, c := range []struct {
		path   string
		length int
		status string
	}{{"/v1/completions", 10, "408"}, {"/v1/completions", 2000, "413"}, {"/elsewhere", 10, "404"}} {
		got := exchangeRaw(t, g.URL, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{", c.path, c.length))
		if !strings.HasPrefix(got, "HTTP/1.1 "+c.status) {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}
