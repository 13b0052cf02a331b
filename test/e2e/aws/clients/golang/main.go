// Command golang makes calls with OpenAI's or AWS's client for Go, as standard input says, and prints what it gave: the orders are
// those of test/e2e/clients/clients.py.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
)

// firstEvents is enough to be in the middle of a stream.
const firstEvents = 3

// order is a line of standard input.
type order struct {
	Do      string          `json:"do"`
	URL     string          `json:"url"`
	Name    string          `json:"name"` // of the endpoint
	Request json.RawMessage `json:"request"`
}

// streams says whether the request asks for a stream.
func (o order) streams() bool {
	var request struct{ Stream bool }
	return json.Unmarshal(o.Request, &request) == nil && request.Stream
}

// client is one of the clients.
type client interface {
	plain(ctx context.Context, o order) (any, error)
	stream(ctx context.Context, o order) (stream, error)
	// failure is what an error tells of the answer.
	failure(err error) any
	// manage makes or deletes an endpoint.
	manage(ctx context.Context, o order) (any, error)
}

// stream is an answer that comes in events.
type stream interface {
	// next waits for an event, and keeps it.
	next() bool
	// whole is all events, once there is no next.
	whole() (any, error)
	io.Closer
}

func main() {
	log.SetFlags(0)
	clients := map[string]client{"openai": openAI{}, "aws": amazon{}}
	if len(os.Args) != 2 || clients[os.Args[1]] == nil {
		log.Fatal("usage: golang openai|aws")
	}
	s := session{client: clients[os.Args[1]]}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for in.More() {
		var o order
		if err := in.Decode(&o); err != nil {
			log.Fatal(err)
		}
		said := map[string]any{}
		if answer, err := s.follow(context.Background(), o); err != nil {
			said["error"] = s.client.failure(err)
		} else {
			said["answer"] = answer
		}
		if err := out.Encode(said); err != nil {
			log.Fatal(err)
		}
	}
}

// session follows orders with one client.
type session struct {
	client client
	open   stream
}

func (s *session) follow(ctx context.Context, o order) (any, error) {
	switch o.Do {
	case "call":
		return s.call(ctx, o)
	case "begin":
		opened, err := s.client.stream(ctx, o)
		if err != nil {
			return nil, err
		}
		s.open = opened
		for range firstEvents {
			if !opened.next() {
				return opened.whole()
			}
		}
		return firstEvents, nil
	case "leave":
		return "left", s.open.Close()
	case "create", "delete":
		return s.client.manage(ctx, o)
	}
	return nil, fmt.Errorf("order %q is not known", o.Do)
}

func (s *session) call(ctx context.Context, o order) (any, error) {
	if !o.streams() {
		return s.client.plain(ctx, o)
	}
	opened, err := s.client.stream(ctx, o)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	for opened.next() {
	}
	return opened.whole()
}
