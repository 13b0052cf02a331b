package proxy

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/fleet"
)

// dyingBody is the body of an answer whose first byte comes in the moment in which its replica is found lost.
type dyingBody struct {
	request *http.Request
	lose    func()
	text    io.Reader
}

func (b *dyingBody) Read(p []byte) (int, error) {
	if b.lose != nil {
		b.lose()
		b.lose = nil
		<-b.request.Context().Done()
	}
	return b.text.Read(p)
}

func (b *dyingBody) Close() error { return nil }

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestC105_AReplicaIsLostAsItsFirstByteComes(t *testing.T) {
	g := newRigAt(t, "LEAST_OUTSTANDING_REQUESTS", "http://127.0.0.1:1", "http://127.0.0.1:2")
	lost := ""
	g.pool.Transport = transportFunc(func(r *http.Request) (*http.Response, error) {
		answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: -1, Body: io.NopCloser(strings.NewReader("whole"))}
		if lost == "" {
			lost = r.URL.Host
			answer.Body = &dyingBody{request: r, lose: func() { g.replicaAt(lost).MarkLost() }, text: strings.NewReader("cut")}
		}
		return answer, nil
	})
	resp, text := g.post(t, "/v1/chat/completions", chatBody)
	if resp.StatusCode != http.StatusOK || text != "whole" || resp.Header.Get("X-Warmpath-Replica") == lost {
		t.Errorf("got %d %q from %s, want the other replica's whole answer", resp.StatusCode, text, resp.Header.Get("X-Warmpath-Replica"))
	}
}

// replicaAt is the replica at an address.
func (g *rig) replicaAt(address string) *fleet.Replica {
	for _, r := range g.fleet.View().Replicas {
		if r.ID() == address {
			return r
		}
	}
	return nil
}
