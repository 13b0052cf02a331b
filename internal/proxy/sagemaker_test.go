package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	aws "github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/dialect"
	"github.com/warmpath/warmpath/internal/endpoint"
	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/session"
)

const (
	invokePath = "/endpoints/default/invocations"
	streamPath = "/endpoints/default/invocations-response-stream"
)

// unframe reads a stream of frames as AWS's SDK does: the parts' bytes in one piece, the lengths of the parts, and the exception that
// ended it.
func unframe(t testing.TB, stream string) (text string, parts []int, exception string) {
	t.Helper()
	in, d := strings.NewReader(stream), aws.NewDecoder()
	for {
		m, err := d.Decode(in, nil)
		if errors.Is(err, io.EOF) {
			return text, parts, exception
		}
		if err != nil {
			t.Fatalf("frame %d: %v", len(parts), err)
		}
		if m.Headers.Get(":message-type").String() == "exception" {
			exception += m.Headers.Get(":exception-type").String() + " " + string(m.Payload)
			continue
		}
		if kind := m.Headers.Get(":event-type").String(); kind != "PayloadPart" || exception != "" {
			t.Errorf("an event of type %q, after the exception %q", kind, exception)
		}
		text += string(m.Payload)
		parts = append(parts, len(m.Payload))
	}
}

// ask sends a body with headers, given as names and values in turn.
func (g *rig) ask(t testing.TB, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, g.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("reading the answer: %v", err)
	}
	return resp, string(answer)
}

// TestWhatSDKsSend: the requests of SDKs, byte for byte as they sent them, are served: those of boto3, Go's and JavaScript's.
func TestWhatSDKsSend(t *testing.T) {
	files, err := filepath.Glob("testdata/aws/*.http")
	if err != nil || len(files) != 7 {
		t.Fatalf("%d captured requests, %v", len(files), err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		engine := newReplica(t, nil)
		g := newRig(t, routing.NamePrefixAware, engine)
		g.endpoint.Name, g.endpoint.Variants[0].Name = "my-endpoint", "v1"
		kept := g.fleet.View().Replicas[0]
		g.sessions.Open("my-endpoint", "sess-1", session.Pin{Variant: "v1", Replica: kept, Life: kept.Lost(), Expires: time.Now().Add(time.Hour)})
		c, err := net.Dial("tcp", g.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = c.Write(raw)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		body, _ := io.ReadAll(resp.Body)
		answer := string(body)
		if bytes.Contains(raw, []byte("nference-Component:")) {
			if e := failed(t, resp, answer); e.Name != "ValidationError" {
				t.Errorf("%s: got %d %s", file, resp.StatusCode, body)
			}
			continue
		}
		if strings.Contains(file, "stream") {
			answer, _, _ = unframe(t, answer)
		}
		if resp.StatusCode != 200 || answer != chatAnswer || resp.Header.Get("X-Amzn-Invoked-Production-Variant") != "v1" {
			t.Errorf("%s: got %d %s", file, resp.StatusCode, body)
		}
		seen := engine.received()[0]
		_, sent, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
		if seen.uri != "/invocations" || !bytes.Equal(seen.body, sent) || seen.header["Authorization"] != nil || seen.header["X-Amz-Date"] != nil {
			t.Errorf("%s: the engine got %s %q %v", file, seen.uri, seen.body, seen.header)
		}
	}
}

func TestInvokeBothWays(t *testing.T) {
	engine := newReplica(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amzn-SageMaker-Custom-Attributes", "Back; x=1")
		w.Header().Set("X-Amzn-SageMaker-New-Session-Id", "s-1; Expires=2026-11-30T00:00:00Z")
		writeJSON(w, 200, chatAnswer)
	})
	g := newRigAt(t, routing.NameRandom, engine.URL+"/base")
	resp, got := g.ask(t, invokePath+"?X-Amz-Signature=abc", chatBody,
		"Accept", "application/json", "Accept-Encoding", "identity", "User-Agent", "Boto3/1.44.8", "Traceparent", "00-1-2-01",
		"Authorization", "AWS4-HMAC-SHA256 Credential=x", "X-Amz-Date", "20261130T020138Z", "Amz-Sdk-Invocation-Id", "i", "X-Session-Id", "own",
		"X-Amzn-SageMaker-Custom-Attributes", "trace=1; \"é\"", "X-Amzn-SageMaker-Inference-Id", "inf-1", "X-Amzn-SageMaker-Session-Id", "NEW_SESSION")
	if resp.StatusCode != 400 || !strings.Contains(got, "'customAttributes'") {
		t.Errorf("attributes that are not ASCII: got %d %s", resp.StatusCode, got)
	}
	resp, got = g.ask(t, invokePath+"?X-Amz-Signature=abc", chatBody,
		"Accept", "application/json", "Accept-Encoding", "identity", "User-Agent", "Boto3/1.44.8", "Traceparent", "00-1-2-01",
		"Authorization", "AWS4-HMAC-SHA256 Credential=x", "X-Amz-Date", "20261130T020138Z", "Amz-Sdk-Invocation-Id", "i", "X-Session-Id", "own",
		"X-Amzn-SageMaker-Custom-Attributes", "trace=1; \"x\"", "X-Amzn-SageMaker-Inference-Id", "inf-1", "X-Amzn-SageMaker-Session-Id", "NEW_SESSION",
		"X-Amzn-SageMaker-Prefix-Aware-Id", "tenant-7/doc-12", "X-Request-Id", "req-1")
	if resp.StatusCode != 200 || got != chatAnswer {
		t.Errorf("got %d %s", resp.StatusCode, got)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "X-Amzn-Invoked-Production-Variant": "main", "X-Amzn-RequestId": "req-1",
		"X-Amzn-SageMaker-Custom-Attributes": "Back; x=1", "X-Amzn-SageMaker-New-Session-Id": "s-1; Expires=2026-11-30T00:00:00Z",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("the client got %s %q, want %q", name, got, want)
		}
	}
	seen := engine.received()[0]
	client, _, _ := net.SplitHostPort(strings.TrimPrefix(g.URL, "http://"))
	want := http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json"}, "Traceparent": {"00-1-2-01"}, "Content-Length": {fmt.Sprint(len(chatBody))},
		"X-Amzn-Sagemaker-Custom-Attributes": {"trace=1; \"x\""}, "X-Amzn-Sagemaker-Inference-Id": {"inf-1"}, "X-Amzn-Sagemaker-Session-Id": {"NEW_SESSION"},
		"X-Amzn-Sagemaker-Prefix-Aware-Id": {"tenant-7/doc-12"}, "X-Request-Id": {"req-1"},
		"X-Forwarded-For": {client}, "X-Forwarded-Host": {strings.TrimPrefix(g.URL, "http://")}, "X-Forwarded-Proto": {"http"},
	}
	if diff := cmp.Diff(want, seen.header); diff != "" || seen.uri != "/base/invocations" || string(seen.body) != chatBody {
		t.Errorf("the engine got %s %q (-want +got):\n%s", seen.uri, seen.body, diff)
	}
	if l := g.access(t, 2)[1]; l.Outcome != "ok" || l.Endpoint != "default" || l.PromptTokens != 7 || l.CachedTokens != 4 || l.Status != 200 {
		t.Errorf("logged %+v", l)
	}
}

// TestStreamedInvocation: every read becomes a frame at once, and what the frames hold is the engine's stream, observed as any other.
func TestStreamedInvocation(t *testing.T) {
	const last = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":5}}}\n\ndata: [DONE]\n\n"
	events := []string{"data: {\"choices\":[{\"delta\":{\"content\":\"é\"}}]}\n\n", "data: {\"choices\":[{\"delta\":{\"con", "tent\":\"x\"}}]}\n\n", last}
	next := make(chan struct{})
	engine := newReplica(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, e := range events {
			say(w, e)
			<-next
		}
	})
	g := newRig(t, routing.NameKVAware, engine)
	req, _ := http.NewRequest(http.MethodPost, g.URL+streamPath, strings.NewReader(chatBody))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Amzn-SageMaker-Accept", "text/event-stream")
	req.Header.Set("Accept", "*/*")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	h := resp.Header
	if h.Get("Content-Type") != "application/vnd.amazon.eventstream" || h.Get("X-Amzn-SageMaker-Content-Type") != "text/event-stream; charset=utf-8" ||
		h.Get("X-Amzn-Invoked-Production-Variant") != "main" || h.Get("X-Amzn-RequestId") == "" {
		t.Errorf("header %v", h)
	}
	d := aws.NewDecoder()
	for _, want := range events {
		m, err := d.Decode(resp.Body, nil)
		if err != nil || string(m.Payload) != want {
			t.Fatalf("got %q, %v, want %q", m.Payload, err, want)
		}
		next <- struct{}{}
	}
	if m, err := d.Decode(resp.Body, nil); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v, %v", m, err)
	}
	seen := engine.received()[0]
	if seen.uri != "/invocations" || seen.header.Get("Accept") != "text/event-stream" || seen.header.Get("X-Amzn-SageMaker-Accept") != "" {
		t.Errorf("the engine got %s %v", seen.uri, seen.header)
	}
	if l := g.access(t, 1)[0]; l.Outcome != "ok" || l.PromptTokens != 9 || l.CachedTokens != 5 || l.OutputTokens != 3 || !strings.Contains(g.log.String(), "first_token") {
		t.Errorf("logged %+v\n%s", l, g.log)
	}
}

func TestStreamedInvocationOfOtherAnswers(t *testing.T) {
	long := strings.Repeat("0123456789", 10_000)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
		media  string
	}{
		"JSON of known length": {func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, chatAnswer) }, chatAnswer, "application/json"},
		"long":                 {func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, long) }, long, "application/json"},
		"empty":                {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) }, "", ""},
		"coded unasked": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			writeJSON(w, 200, "coded")
		}, "coded", "application/json"},
	} {
		g := newRig(t, routing.NameRandom, newReplica(t, c.answer))
		resp, body := g.ask(t, streamPath, chatBody)
		got, parts, exception := unframe(t, body)
		if got != c.want || exception != "" || (len(parts) == 0) != (c.want == "") {
			t.Errorf("%s: %d bytes in %v, %s", name, len(got), parts, exception)
		}
		h := resp.Header
		if h.Get("X-Amzn-SageMaker-Content-Type") != c.media || h.Get("Content-Encoding") != "" || resp.ContentLength >= 0 {
			t.Errorf("%s: header %v", name, h)
		}
		if l := g.access(t, 1)[0]; l.Outcome != "ok" || l.BytesOut != int64(len(body)) {
			t.Errorf("%s: logged %+v", name, l)
		}
	}
}

// TestStreamedInvocationBreaks: a stream that the engine breaks off ends with the exception that says so, and then cleanly.
func TestStreamedInvocationBreaks(t *testing.T) {
	const unended = "data"
	const want = `ModelStreamError {"ErrorCode":"StreamBroken","Message":"the connection to the model was reset or closed before its answer was complete"}`
	for name, end := range breaks {
		seen := make(chan struct{})
		g := newRigAt(t, routing.NameRandom, rawReplica(t, func(c *net.TCPConn, in *bufio.Reader) {
			if _, _, err := takeRequest(in); err != nil {
				return
			}
			_, _ = io.WriteString(c, rawStream+rawEvent)
			<-seen // a reset would overtake what it has not read
			end(c)
		}))
		n := 0
		for protocol, client := range map[string]*http.Client{"HTTP/1.1": http.DefaultClient, "HTTP/2.0": speakHTTP2(t)} {
			n++
			resp, err := client.Post(g.URL+streamPath, "application/json", strings.NewReader(chatBody))
			if err != nil {
				t.Fatal(err)
			}
			m, err := aws.NewDecoder().Decode(resp.Body, nil)
			if err != nil || string(m.Payload) != anEvent || resp.Proto != protocol {
				t.Fatalf("%s: got %q, %v over %s", name, m.Payload, err, resp.Proto)
			}
			seen <- struct{}{}
			rest, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			text, _, exception := unframe(t, string(rest))
			// What an engine sent of a chunk that it did not end may be passed on.
			if err != nil || !strings.HasPrefix(unended, text) || exception != want {
				t.Errorf("%s over %s: ended with %q, %s, %v", name, protocol, text, exception, err)
			}
			if l := g.access(t, n)[n-1]; l.Outcome != "upstream_aborted" || l.Status != 200 || l.Error == "" {
				t.Errorf("%s: logged %+v", name, l)
			}
		}
	}
}

func TestStreamedInvocationRunsOutOfTime(t *testing.T) {
	const late = `ModelStreamError {"ErrorCode":"ModelInvocationTimeExceeded","Message":"the model took longer for its answer than the endpoint's time limits allow"}`
	for name, limits := range map[string]endpoint.Timeouts{"idle": {Idle: 10 * time.Second}, "total": {Total: time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			n := newMemoryNet()
			n.engine(t, "engine:80", hang(2))
			g := assemble(t, routing.NameRandom, n.dial, "http://engine")
			g.endpoint.Timeouts = limits
			resp, err := n.client(t, g).Post("http://proxy"+streamPath, "application/json", strings.NewReader(chatBody))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			text, _, exception := unframe(t, string(body))
			if err != nil || text != anEvent+anEvent || exception != late {
				t.Errorf("%s: got %q, %s, %v", name, text, exception, err)
			}
			synctest.Wait()
			if l := g.access(t, 1)[0]; l.Outcome != "timeout" || g.inFlight() != 0 {
				t.Errorf("%s: logged %+v, %d in flight", name, l, g.inFlight())
			}
		})
	}
}

// TestExceptionLeavesWithTheEndOfItsStream: a client that stops reading at the exception must find the answer at its end.
func TestExceptionLeavesWithTheEndOfItsStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemoryNet()
		n.engine(t, "engine:80", hang(1))
		g := assemble(t, routing.NameRandom, n.dial, "http://engine")
		g.endpoint.Timeouts = endpoint.Timeouts{Idle: 10 * time.Second}
		n.serve(t, "proxy:80", g.proxy.ServeHTTP)
		c, err := n.dial(t.Context(), "memory", "proxy:80")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: proxy\r\nContent-Length: %d\r\n\r\n%s", streamPath, len(chatBody), chatBody)
		written := make([]byte, 1<<16) // a read takes what one write brought
		for {
			k, err := c.Read(written)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(written[:k], []byte("ModelStreamError")) {
				if !bytes.HasSuffix(written[:k], []byte("\r\n0\r\n\r\n")) {
					t.Errorf("the exception came alone: %q", written[:k])
				}
				return
			}
		}
	})
}

// TestRouterFailsWithinAStream: what the router itself lacks is not the model's failure.
func TestRouterFailsWithinAStream(t *testing.T) {
	g := newRigAt(t, routing.NameRandom, refusing)
	g.pool.Transport = transportFunc(func(*http.Request) (*http.Response, error) {
		body := io.MultiReader(strings.NewReader(anEvent), iotest.ErrReader(syscall.ENOBUFS))
		return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: -1, Body: io.NopCloser(body)}, nil
	})
	_, body := g.post(t, streamPath, chatBody)
	const want = `InternalStreamFailure {"Message":"the router has no memory or file descriptors left; try again"}`
	if text, _, exception := unframe(t, body); text != anEvent || exception != want {
		t.Errorf("got %q, %s", text, exception)
	}
}

// TestStreamedInvocationIsLeft: a client that leaves ends the engine's work, framed or not.
func TestStreamedInvocationIsLeft(t *testing.T) {
	cut := make(chan struct{})
	g := newRig(t, routing.NameRandom, newReplica(t, func(w http.ResponseWriter, r *http.Request) {
		say(w, anEvent)
		<-r.Context().Done()
		close(cut)
	}))
	c := openRequest(t, g, streamPath, chatBody)
	if _, err := io.ReadFull(c, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	reset(c)
	<-cut
	if l := g.access(t, 1)[0]; l.Outcome != "client_cancelled" {
		t.Errorf("logged %+v", l)
	}
	g.idle(t)
}

// awsError is an error as SDKs of AWS read it.
type awsError struct {
	Name               string `json:"__type"`
	Message            string
	OriginalStatusCode *int
	OriginalMessage    *string
}

// failed reads an error; the header must name it as the body does.
func failed(t *testing.T, resp *http.Response, body string) awsError {
	t.Helper()
	var e awsError
	if err := json.Unmarshal([]byte(body), &e); err != nil || resp.Header.Get("X-Amzn-ErrorType") != e.Name || resp.Header.Get("X-Amzn-RequestId") == "" {
		t.Errorf("got %s, %v, header %v", body, err, resp.Header)
	}
	return e
}

func TestEngineErrorsBecomeModelErrors(t *testing.T) {
	const text = `{"error":{"message":"too long"}}`
	for status, c := range map[int]struct{ side, outcome string }{
		400: {"client", "client_error"}, 404: {"client", "client_error"}, 429: {"client", "client_error"},
		500: {"server", "upstream_error"}, 503: {"server", "upstream_error"},
	} {
		g := newRig(t, routing.NameRandom, newReplica(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			writeJSON(w, status, text)
		}))
		for i, path := range []string{invokePath, streamPath} {
			resp, body := g.post(t, path, chatBody)
			want := awsError{
				Name: "ModelError", Message: fmt.Sprintf(`Received %s error (%d) from primary with message "%s".`, c.side, status, text),
				OriginalStatusCode: new(status), OriginalMessage: new(text),
			}
			if diff := cmp.Diff(want, failed(t, resp, body)); diff != "" || resp.StatusCode != 424 || resp.Header.Get("Retry-After") != "7" {
				t.Errorf("%s, %d: got %d (-want +got):\n%s", path, status, resp.StatusCode, diff)
			}
			if l := g.access(t, i+1)[i]; l.Outcome != c.outcome || l.Status != 424 || l.Code != "" || strings.Contains(g.log.String(), "too long") {
				t.Errorf("%s, %d: logged %+v", path, status, l)
			}
		}
		if resp, body := g.post(t, "/invocations", chatBody); resp.StatusCode != status || body != text {
			t.Errorf("the container's path: got %d %s", resp.StatusCode, body)
		}
		g.idle(t)
	}
}

// TestLongEngineErrorsAreQuotedInPart: an engine that does not end its error is not heard to its end.
func TestLongEngineErrorsAreQuotedInPart(t *testing.T) {
	g := newRig(t, routing.NameRandom, newReplica(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(500)
		for range 2 * bufferSize / 1024 {
			say(w, strings.Repeat("x", 1024))
		}
		<-r.Context().Done()
	}))
	resp, body := g.post(t, invokePath, chatBody)
	if e := failed(t, resp, body); resp.StatusCode != 424 || len(*e.OriginalMessage) != 2048 || len(e.Message) > 2048 {
		t.Errorf("got %d, %d and %d bytes", resp.StatusCode, len(*e.OriginalMessage), len(e.Message))
	}
	g.idle(t)
}

func TestCallsOfTheControlPlaneAreToldWhereItIs(t *testing.T) {
	g := newRigAt(t, routing.NameRandom, refusing)
	resp, body := g.ask(t, "/", "{}", "X-Amz-Target", "SageMaker.ListEndpoints")
	if resp.StatusCode != 404 || resp.Header.Get("X-Amzn-ErrorType") != "UnknownOperationException" || !strings.Contains(body, "control_plane.listen") {
		t.Errorf("got %d %s", resp.StatusCode, body)
	}
}

func TestRuntimeRefusals(t *testing.T) {
	engine := newReplica(t, nil)
	breaking := rawReplica(t, func(c *net.TCPConn, in *bufio.Reader) {
		_, _, _ = takeRequest(in)
		reset(c)
	})
	for name, c := range map[string]struct {
		urls    []string
		path    string
		body    string
		headers []string
		status  int
		name    string
		code    string
	}{
		"unknown endpoint":  {path: "/endpoints/nobody/invocations", status: 400, name: "ValidationError", code: "endpoint_not_found"},
		"and stream":        {path: "/endpoints/nobody/invocations-response-stream", status: 400, name: "ValidationError", code: "endpoint_not_found"},
		"unknown variant":   {path: invokePath, headers: []string{"X-Amzn-SageMaker-Target-Variant", "v2"}, status: 400, name: "ValidationError", code: "variant_not_found"},
		"bad hint":          {path: streamPath, headers: []string{"X-Amzn-SageMaker-Prefix-Aware-Id", strings.Repeat("x", 65)}, status: 400, name: "ValidationError", code: "invalid_header"},
		"component":         {path: invokePath, headers: []string{"X-Amzn-SageMaker-Inference-Component", "c"}, status: 400, name: "ValidationError", code: "inference_component_not_found"},
		"asynchronous":      {path: "/endpoints/default/async-invocations", status: 400, name: "ValidationError", code: "operation_not_supported"},
		"bidirectional":     {path: "/endpoints/default/invocations-bidirectional-stream", status: 400, name: "ValidationError", code: "operation_not_supported"},
		"unknown operation": {path: "/endpoints/default/explode", status: 404, name: "UnknownOperationException", code: "unknown_path"},
		"too large":         {path: invokePath, body: strings.Repeat("x", 2000), status: 413, name: "ValidationError", code: "body_too_large"},
		"bad coding":        {path: invokePath, headers: []string{"Content-Encoding", "br"}, status: 400, name: "ValidationError", code: "unsupported_content_encoding"},
		"nobody there":      {urls: []string{}, path: invokePath, status: 503, name: "ServiceUnavailable", code: "no_replica"},
		"refused":           {urls: []string{refusing}, path: streamPath, status: 503, name: "ServiceUnavailable", code: "upstream_unreachable"},
		"reset":             {urls: []string{breaking}, path: streamPath, status: 424, name: "ModelError", code: "upstream_reset"},
	} {
		if c.urls == nil {
			c.urls = []string{engine.URL}
		}
		g := newRigAt(t, routing.NameRandom, c.urls...)
		g.settings.Limits.Body = 1000
		if c.body == "" {
			c.body = chatBody
		}
		resp, body := g.ask(t, c.path, c.body, c.headers...)
		if e := failed(t, resp, body); resp.StatusCode != c.status || e.Name != c.name || e.Message == "" || resp.Header.Get("X-Warmpath-Code") != c.code {
			t.Errorf("%s: got %d %s, code %s", name, resp.StatusCode, body, resp.Header.Get("X-Warmpath-Code"))
		}
		if l := g.access(t, 1)[0]; l.Status != c.status || l.Code != c.code {
			t.Errorf("%s: logged %+v", name, l)
		}
		g.idle(t)
	}
	if n := len(engine.received()); n != 0 {
		t.Errorf("%d requests reached the engine", n)
	}
}

// TestInvocationRunsOutOfTime: SageMaker's status of an engine that gave no answer is 0.
func TestInvocationRunsOutOfTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newMemoryNet()
		n.engine(t, "engine:80", hang(0))
		g := assemble(t, routing.NameRandom, n.dial, "http://engine")
		g.endpoint.Timeouts = endpoint.Timeouts{Total: time.Minute}
		resp, err := n.client(t, g).Post("http://proxy"+invokePath, "application/json", strings.NewReader(chatBody))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		if e := failed(t, resp, string(body)); resp.StatusCode != 424 || e.Name != "ModelError" || *e.OriginalStatusCode != 0 {
			t.Errorf("got %d %s", resp.StatusCode, body)
		}
	})
}

// TestInvocationsDoNotUpgrade: a server may ignore the wish (RFC 9110 section 7.8).
func TestInvocationsDoNotUpgrade(t *testing.T) {
	engine := newReplica(t, nil)
	g := newRig(t, routing.NameRandom, engine)
	answer := exchangeRaw(t, g.URL, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\n{}", invokePath))
	seen := engine.received()
	if !strings.HasPrefix(answer, "HTTP/1.1 200") || len(seen) != 1 || seen[0].header.Get("Upgrade") != "" {
		t.Errorf("got %q, the engine %v", answer, seen)
	}
}

func TestTargetVariantOverridesTheWeights(t *testing.T) {
	g := newRig(t, routing.NameRandom, newReplica(t, nil))
	spare := *g.endpoint.Variants[0]
	spare.Name, spare.Weight = "spare", 0
	g.endpoint.Variants = append(g.endpoint.Variants, &spare)
	for _, path := range []string{invokePath, streamPath, "/endpoints/default/openai/v1/chat/completions"} {
		resp, _ := g.ask(t, path, chatBody)
		targeted, _ := g.ask(t, path, chatBody, "X-Amzn-SageMaker-Target-Variant", "spare")
		if a, b := resp.Header.Get("X-Amzn-Invoked-Production-Variant"), targeted.Header.Get("X-Amzn-Invoked-Production-Variant"); a != "main" || b != "spare" {
			t.Errorf("%s: got %q, and %q where spare was asked for", path, a, b)
		}
	}
}

// TestInvocationsPath: an engine without /invocations is asked where it takes such bodies.
func TestInvocationsPath(t *testing.T) {
	engine := newReplica(t, nil)
	g := newRig(t, routing.NameRandom, engine)
	g.endpoint.InvocationsPath = "/v1/chat%20/completions"
	g.endpoint.Models, g.endpoint.Aliases = []string{"m"}, map[string]string{"other": "m"}
	g.retable()
	for body, want := range map[string]string{chatBody: chatBody, `{"model":"other","messages":[]}`: `{"model":"m","messages":[]}`, `raw`: `raw`} {
		if resp, got := g.post(t, invokePath, body); resp.StatusCode != 200 || got != chatAnswer {
			t.Errorf("got %d %s", resp.StatusCode, got)
		}
		if seen := engine.received(); string(seen[len(seen)-1].body) != want || seen[len(seen)-1].uri != "/v1/chat%20/completions" {
			t.Errorf("the engine got %s %s", seen[len(seen)-1].uri, seen[len(seen)-1].body)
		}
	}
}

// TestInvocationsArePlacedByWhatTheyHold: PREFIX_AWARE goes by the bytes, as SageMaker does; KV_AWARE by the prompt, wherever it came.
func TestInvocationsArePlacedByWhatTheyHold(t *testing.T) {
	prompt := strings.Repeat("word ", 1000)
	chat := `{"model":"m","messages":[{"role":"user","content":"` + prompt + `"}]}`
	explain := func(strategy, path, body string) *Explanation {
		g := newRigAt(t, strategy, "http://127.0.0.1:1", "http://127.0.0.1:2")
		e, err := g.proxy.Explain(path, http.Header{"X-Amzn-Sagemaker-Prefix-Aware-Id": {"h"}}, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	for _, path := range []string{invokePath, streamPath, "/invocations"} {
		if e := explain(routing.NamePrefixAware, path, chat); e.Window != 1024 || e.WindowUnit != "bytes" || e.Hint != "h" {
			t.Errorf("%s: %+v", path, e)
		}
		if e := explain(routing.NameKVAware, path, "raw "+prompt); e.Blocks != len("raw "+prompt)/256 {
			t.Errorf("%s: %d blocks of the bytes", path, e.Blocks)
		}
		if got, want := explain(routing.NameKVAware, path, chat).Blocks, explain(routing.NameKVAware, "/v1/chat/completions", chat).Blocks; got != want || want == 0 {
			t.Errorf("%s: %d blocks of a chat, want %d", path, got, want)
		}
	}
}

// TestTheSameBlocksByWhateverPath: what KV_AWARE learns of a prompt on one path holds for the others, named model or not.
func TestTheSameBlocksByWhateverPath(t *testing.T) {
	prompt := strings.Repeat("word ", 1000)
	g := newRigAt(t, routing.NameKVAware, "http://127.0.0.1:1", "http://127.0.0.1:2")
	g.endpoint.Models, g.endpoint.Aliases = []string{"m"}, map[string]string{"alias": "m"}
	g.retable()
	chain := func(path, model string) []uint64 {
		body := `{` + model + `"messages":[{"role":"user","content":"` + prompt + `"}]}`
		route, _ := dialect.Recognise(http.MethodPost, path)
		r := httptest.NewRequest(http.MethodPost, path, nil)
		made, err := g.proxy.planFor(g.settings, route, r, []byte(body), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer made.release()
		return slices.Clone(made.query.Chain.Blocks)
	}
	want := chain("/v1/chat/completions", `"model":"m",`)
	for _, path := range []string{"/v1/chat/completions", openAIPath, invokePath, streamPath, "/invocations"} {
		for _, model := range []string{``, `"model":"m",`, `"model":"alias",`} {
			if got := chain(path, model); len(got) < 10 || !slices.Equal(got, want) {
				t.Errorf("%s with %q: other blocks", path, model)
			}
		}
	}
	if slices.Equal(chain(openAIPath, `"model":"adapter",`), want) {
		t.Error("another model has the same blocks")
	}
}

// TestFramedStreamsAreStripped: what only Warmpath asked for stands in no frame.
func TestFramedStreamsAreStripped(t *testing.T) {
	engine := newReplica(t, streaming(twoChunks))
	g, last := injecting(t, engine)
	body := serve(g, streamPath, streamBody, "Content-Type", "application/json").Body.String()
	text, parts, exception := unframe(t, body)
	if text != twoChunks+"data: [DONE]\n\n" || exception != "" || slices.Contains(parts, 0) {
		t.Errorf("got %q in %v, %s", text, parts, exception)
	}
	if last.PromptTokens != 7 || !bytes.Contains(engine.received()[0].body, []byte("include_usage")) {
		t.Errorf("recorded %+v", last)
	}
}
