package aws

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime/types"
)

// eventStream is how the SDK hands out a streamed answer.
type eventStream interface {
	Events() <-chan types.ResponseStream
	Close() error
	Err() error
}

func streamOf(endpoint string, body []byte) *sagemakerruntime.InvokeEndpointWithResponseStreamInput {
	return &sagemakerruntime.InvokeEndpointWithResponseStreamInput{EndpointName: &endpoint, ContentType: aws.String("application/json"), Body: body}
}

// chat is a streamed chat of so many answer tokens, as an invocation's body. What differs comes last, behind the prefix window.
func chat(text string, tokens int) []byte {
	return fmt.Appendf(nil, `{"model":"emulated","stream":true,"messages":[{"role":"user","content":%q}],"max_tokens":%d}`, text, tokens)
}

// read reads parts to the end of the stream, which it returns too.
func read(s eventStream) ([]byte, error) {
	var text bytes.Buffer
	for event := range s.Events() {
		if part, ok := event.(*types.ResponseStreamMemberPayloadPart); ok {
			text.Write(part.Value.Bytes)
		}
	}
	return text.Bytes(), s.Err()
}

func (g goClients) testStream(t *testing.T) {
	in := streamOf("go", order{Mode: "parts", Parts: 5, Size: 100}.body())
	in.Accept, in.CustomAttributes, in.InferenceId = aws.String("text/plain"), aws.String("trace=8"), aws.String("go-stream")
	out, err := g.runtime.InvokeEndpointWithResponseStream(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	text, err := read(out.GetStream())
	if want := partsText(5, 100); err != nil || string(text) != want {
		t.Errorf("got %q and %v, want %q", text, err, want)
	}
	if aws.ToString(out.ContentType) != "text/plain" || aws.ToString(out.InvokedProductionVariant) != "a" || aws.ToString(out.CustomAttributes) != "answered-by=go-a" {
		t.Errorf("got content type %q, variant %q, attributes %q", aws.ToString(out.ContentType), aws.ToString(out.InvokedProductionVariant), aws.ToString(out.CustomAttributes))
	}
	if how := g.ledger.await(t.Context(), "go-stream"); how != "whole" {
		t.Errorf("the engine saw it end %s", how)
	}

	out, err = g.runtime.InvokeEndpointWithResponseStream(t.Context(), streamOf("go-llm", chat("Hello.", 20)))
	if err != nil {
		t.Fatal(err)
	}
	text, err = read(out.GetStream())
	if err != nil || !bytes.HasPrefix(text, []byte("data: {")) || !bytes.HasSuffix(text, []byte("data: [DONE]\n\n")) || bytes.Count(text, []byte(`"content"`)) < 20 {
		t.Errorf("an LLM's stream: got %v and\n%s", err, text)
	}
	echoed, err := g.runtime.InvokeEndpointWithResponseStream(t.Context(), streamOf("go", []byte("plain")))
	if err != nil {
		t.Fatal(err)
	}
	if text, err = read(echoed.GetStream()); err != nil || !strings.Contains(string(text), `"body":"plain"`) {
		t.Errorf("an answer in one piece: got %v and %s", err, text)
	}
}

// partsText is what a container sends in mode parts.
func partsText(parts, size int) string {
	var b strings.Builder
	for n := range parts {
		text := fmt.Sprint(n, " ")
		io.WriteString(&b, strings.Repeat(text, size/len(text)+1)[:size])
	}
	return b.String()
}

// testSlowReader takes the first parts of much more than the sockets between can hold, one now and then.
func (g goClients) testSlowReader(t *testing.T) {
	const parts, size = 400, 64 << 10
	out, err := g.runtime.InvokeEndpointWithResponseStream(t.Context(), streamOf("go", order{Mode: "parts", Parts: parts, Size: size}.body()))
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	stream := out.GetStream()
	for range 10 {
		<-time.After(50 * time.Millisecond)
		if part, ok := (<-stream.Events()).(*types.ResponseStreamMemberPayloadPart); ok {
			text.Write(part.Value.Bytes)
		}
	}
	rest, err := read(stream)
	text.Write(rest)
	if err != nil || text.String() != partsText(parts, size) {
		t.Errorf("got %d bytes and %v, want all %d as they were sent", text.Len(), err, parts*size)
	}
}

// testLeaves closes a stream that has no end. The engine must see it end.
func (g goClients) testLeaves(t *testing.T) {
	in := streamOf("go", order{Mode: "endless", Parts: 1, Size: 1000}.body())
	in.InferenceId = aws.String("go-leaves")
	out, err := g.runtime.InvokeEndpointWithResponseStream(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	<-out.GetStream().Events()
	if err := out.GetStream().Close(); err != nil {
		t.Error(err)
	}
	if how := g.ledger.await(t.Context(), "go-leaves"); how != "cancelled" {
		t.Errorf("the engine saw it end %s", how)
	}
	out, err = g.runtime.InvokeEndpointWithResponseStream(t.Context(), streamOf("go-llm", chat("Go on for ever.", 8_000)))
	if err != nil {
		t.Fatal(err)
	}
	<-out.GetStream().Events()
	out.GetStream().Close()
	g.open.becomesIdle(t, "go-llm")
}

func (g goClients) testStreamErrors(t *testing.T) {
	for _, test := range []struct {
		name, endpoint string
		order          order
		code           string
	}{
		{"the engine breaks off", "go", order{Mode: "break", Parts: 3, Size: 10}, "StreamBroken"},
		{"the engine says no more", "go-hasty", order{Mode: "mute", Parts: 3, Size: 10}, "ModelInvocationTimeExceeded"},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, err := g.runtime.InvokeEndpointWithResponseStream(t.Context(), streamOf(test.endpoint, test.order.body()))
			if err != nil {
				t.Fatal(err)
			}
			text, err := read(out.GetStream())
			wantStreamError(t, err, test.code)
			if string(text) != partsText(3, 10) {
				t.Errorf("got %q before", text)
			}
		})
	}
	_, err := g.runtime.InvokeEndpointWithResponseStream(t.Context(), streamOf("go", order{Mode: "status", Status: 400, Text: "no"}.body()))
	wantError(t, err, "ModelError", 424, "Received client error (400) from ")
	_, err = g.runtime.InvokeEndpointWithResponseStream(t.Context(), streamOf("missing", order{}.body()))
	wantError(t, err, "ValidationError", 400, "Endpoint missing not found.")
	_, err = g.runtime.InvokeEndpointWithResponseStream(t.Context(), streamOf("empty", order{}.body()), once)
	wantError(t, err, "ServiceUnavailable", 503, "")
	in := streamOf("go", order{}.body())
	in.SessionId = aws.String("NEW_SESSION")
	_, err = g.runtime.InvokeEndpointWithResponseStream(t.Context(), in)
	wantError(t, err, "ValidationError", 400, "1 validation error detected: Value 'NEW_SESSION' at 'sessionId' failed to satisfy constraint")
}

func wantStreamError(t *testing.T, err error, code string) {
	t.Helper()
	var broken *types.ModelStreamError
	if !errors.As(err, &broken) || aws.ToString(broken.ErrorCode_) != code {
		t.Errorf("got %v, want a ModelStreamError with the code %s", err, code)
	}
}

// testKilled kills the engine's process in the middle of a stream. A session that it kept is gone.
func (g goClients) testKilled(t *testing.T) {
	session, _ := g.openSession(t, "go-victim")
	out, err := g.runtime.InvokeEndpointWithResponseStream(t.Context(), streamOf("go-victim", chat("Go on.", 8_000)))
	if err != nil {
		t.Fatal(err)
	}
	<-out.GetStream().Events()
	g.victims["go"].kill()
	_, err = read(out.GetStream())
	wantStreamError(t, err, "StreamBroken")
	eventually(t, "the session is gone", func() bool {
		_, err = g.inSession(t, "go-victim", session, chat("Go on.", 2))
		var invalid *types.ValidationError
		return errors.As(err, &invalid)
	})
}
