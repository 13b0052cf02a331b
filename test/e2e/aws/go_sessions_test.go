package aws

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime"
)

// sessionBody is what SageMaker's containers take for a session: NEW_SESSION or CLOSE.
func sessionBody(kind string) []byte { return []byte(`{"requestType":"` + kind + `"}`) }

// inSession calls an endpoint as part of a session.
func (g goClients) inSession(t *testing.T, endpoint, session string, body []byte) (*sagemakerruntime.InvokeEndpointOutput, error) {
	t.Helper()
	return g.runtime.InvokeEndpoint(t.Context(), &sagemakerruntime.InvokeEndpointInput{
		EndpointName: &endpoint, SessionId: &session, ContentType: aws.String("application/json"), Body: body})
}

// openSession opens a session and returns its id and the replica that keeps it.
func (g goClients) openSession(t *testing.T, endpoint string) (id, replica string) {
	t.Helper()
	out, err := g.inSession(t, endpoint, "NEW_SESSION", sessionBody("NEW_SESSION"))
	if err != nil {
		t.Fatal(err)
	}
	id, expires, _ := strings.Cut(aws.ToString(out.NewSessionId), "; Expires=")
	if id == "" || expires == "" {
		t.Fatalf("a new session is %q", aws.ToString(out.NewSessionId))
	}
	return id, headers(t, out.ResultMetadata).Get("X-Warmpath-Replica")
}

// testSessions opens a session on one of three replicas that are drawn at random, uses it by both operations, and closes it.
func (g goClients) testSessions(t *testing.T) {
	id, replica := g.openSession(t, "sessions")
	at := placed{replica, "session"}
	for range 8 {
		out, err := g.inSession(t, "sessions", id, []byte(`{"messages":[{"role":"user","content":"Go on."}],"max_tokens":2}`))
		if err != nil {
			t.Fatal(err)
		}
		if h := headers(t, out.ResultMetadata); h.Get("X-Warmpath-Replica") != at.replica || h.Get("X-Warmpath-Decision") != at.decision {
			t.Errorf("a request of a session of %s went to %s by %s", replica, h.Get("X-Warmpath-Replica"), h.Get("X-Warmpath-Decision"))
		}
		in := streamOf("sessions", chat("Go on.", 2))
		in.SessionId = &id
		stream, err := g.runtime.InvokeEndpointWithResponseStream(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := read(stream.GetStream()); err != nil || whereTo(t, stream) != at {
			t.Errorf("a stream of a session of %s went to %v: %v", replica, whereTo(t, stream), err)
		}
	}
	out, err := g.inSession(t, "sessions", id, sessionBody("CLOSE"))
	if err != nil || aws.ToString(out.ClosedSessionId) != id {
		t.Errorf("closing %s: got %q and %v", id, aws.ToString(out.ClosedSessionId), err)
	}
	for _, unknown := range []string{id, "never-opened"} {
		_, err := g.inSession(t, "sessions", unknown, chat("Go on.", 2))
		wantError(t, err, "ValidationError", 400, "")
	}
}
