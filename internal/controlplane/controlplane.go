// Package controlplane serves SageMaker's endpoint configuration API (AWS JSON 1.1), makes endpoints of the pools that the
// configuration has, and keeps them in a file.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmpath/warmpath/internal/auth"
	"github.com/warmpath/warmpath/internal/config"
)

// lookInterval is how often endpoints on their way to another status are looked at.
const lookInterval = time.Second

// Options are what a Server is made of. All of them are required. The functions may be called from any goroutine.
type Options struct {
	// StateFile is the path of the file that keeps what was made.
	StateFile string
	// Region and Account stand in ARNs.
	Region, Account string
	// Auth knows who may call; it gives nil where nobody is asked.
	Auth func() *auth.Authenticator
	// Pool says whether the configuration has a pool, and how many of its replicas are ready.
	Pool func(name string) (ready int, exists bool)
	// Configured finds an endpoint of the configuration file by its name, without regard to case.
	Configured func(endpoint string) bool
	// Apply puts the endpoints made by API into use, all of them each time; of each only the variants, the components and the shadows are
	// set, and those without variants only hold their names. An error means that nothing has changed. It is called by one goroutine at a
	// time.
	Apply func(endpoints map[string]config.Endpoint) error
	// Now is the clock.
	Now func() time.Time
	// Log takes each change, and errors that are not a client's.
	Log *slog.Logger
}

// Server is the control plane: an http.Handler, and Run, which moves endpoints along. Both may be used from any goroutine.
type Server struct {
	o       Options
	log     *slog.Logger
	store   *store
	changed chan struct{} // holds a value when an endpoint has begun a transition

	state   atomic.Pointer[state]
	mu      sync.Mutex                 // held while the state is replaced
	applied map[string]config.Endpoint // what the router has
}

// Open reads the state file; without one there is nothing yet, and a file that could not be made is an error. It does not call Apply:
// the caller begins with Endpoints.
func Open(o Options) (*Server, error) {
	s := &Server{o: o, log: o.Log, store: &store{path: o.StateFile}, changed: make(chan struct{}, 1)}
	loaded, err := s.store.load()
	if err != nil {
		return nil, err
	}
	if err := s.store.save(loaded); err != nil {
		if len(loaded.Configs)+len(loaded.Endpoints) == 0 {
			return nil, err
		}
		s.log.Error("the control plane can change nothing; what was made by API before is served", "error", err.Error())
	}
	s.state.Store(loaded)
	s.applied = loaded.serving()
	return s, nil
}

// Stored reads what a state file holds, as Endpoints would give it. A file that is not there holds nothing.
func Stored(path string) (map[string]config.Endpoint, error) {
	s, err := (&store{path: path}).load()
	if err != nil {
		return nil, err
	}
	return s.serving(), nil
}

// Endpoints gives the endpoints as Apply would get them.
func (s *Server) Endpoints() map[string]config.Endpoint { return s.state.Load().serving() }

// Run moves endpoints along until ctx ends: into service when their replicas are ready, to Failed when they are not in time, and out
// of existence when they are deleted.
func (s *Server) Run(ctx context.Context) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		s.advance()
		select {
		case <-tick.C:
		case <-s.changed:
		case <-ctx.Done():
			return
		}
	}
}

// advance takes every endpoint and every inference component in a transition as far as it can go now.
func (s *Server) advance() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range slices.Sorted(maps.Keys(s.state.Load().Endpoints)) {
		advance(s, "endpoint", k, func(s *state) map[string]endpoint { return s.Endpoints })
	}
	for _, k := range slices.Sorted(maps.Keys(s.state.Load().Components)) {
		advance(s, "component", k, func(s *state) map[string]component { return s.Components })
	}
}

// mover is an endpoint or an inference component: what moves from one status to another.
type mover[T any] interface {
	// advanced is it as it is now, nil where it is no more.
	advanced(pool func(string) (ready int, exists bool), now instant) *T
	// givenUp is it after its transition has failed.
	givenUp(reason string, now instant) *T
	stands() standing
}

// standing is where a mover is: its status, why it is not another, and whether a transition could be given up.
type standing struct {
	name     string
	status   status
	reason   string
	underway bool
}

// advance takes what stands under k as far as it can go now. in gives the map of a state that holds it.
func advance[T mover[T]](s *Server, kind, k string, in func(*state) map[string]T) {
	now, before := instantOf(s.o.Now()), in(s.state.Load())[k]
	was, after := before.stands(), before.advanced(s.o.Pool, now)
	if after != nil && (*after).stands().status == was.status {
		return
	}
	err := commitOne(s, k, after, in)
	var refused *apiError
	if errors.As(err, &refused) && was.underway {
		after = before.givenUp(refused.message, now)
		err = commitOne(s, k, after, in)
	}
	var is standing
	if after != nil {
		is = (*after).stands()
	}
	s.tell(kind, was, is, err)
}

// commitOne commits the state with v under k, or with nothing there if v is nil.
func commitOne[T any](s *Server, k string, v *T, in func(*state) map[string]T) error {
	next := s.state.Load().clone()
	if v == nil {
		delete(in(next), k)
	} else {
		in(next)[k] = *v
	}
	return s.commit(next)
}

// tell logs a move, or that it could not be made. What stands nowhere any more is the zero standing.
func (s *Server) tell(kind string, was, is standing, err error) {
	log := s.log.With(kind, was.name, "was", string(was.status))
	switch {
	case err != nil:
		log.Error(kind+" stays as it is", "error", err.Error())
	case is.status == "":
		log.Info(kind + " deleted")
	case is.reason != "":
		log.Warn(kind+" did not come into service", "now", string(is.status), "reason", is.reason)
	default:
		log.Info(kind+" changed", "now", string(is.status))
	}
}

// update lets change build the next state, and puts it into use and on the disk. If it cannot be, nothing has changed.
func (s *Server) update(change func(next *state, now instant) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.state.Load().clone()
	if err := change(next, instantOf(s.o.Now())); err != nil {
		return err
	}
	if err := s.commit(next); err != nil {
		return err
	}
	select {
	case s.changed <- struct{}{}:
	default: // Run will look anyway
	}
	return nil
}

// commit puts a state into use, then on the disk: what the router refuses is never saved.
func (s *Server) commit(next *state) error {
	endpoints := next.serving()
	differ := !reflect.DeepEqual(endpoints, s.applied)
	if differ {
		if err := s.o.Apply(endpoints); err != nil {
			return invalid("Warmpath's configuration does not allow it: %v", err)
		}
	}
	if err := s.store.save(next); err != nil {
		if differ {
			err = s.withdraw(err)
		}
		return err
	}
	s.state.Store(next)
	s.applied = endpoints
	return nil
}

// withdraw goes back to what the router had before, because of err.
func (s *Server) withdraw(err error) error {
	if again := s.o.Apply(s.applied); again != nil {
		return fmt.Errorf("%w; and the endpoints before could not be put back: %w", err, again)
	}
	return err
}

// arn is the name of a resource in the whole of AWS. kind is endpoint, endpoint-config, inference-component or model.
func (s *Server) arn(kind, name string) string {
	partition := "aws"
	switch {
	case len(s.o.Region) > 3 && s.o.Region[:3] == "cn-":
		partition = "aws-cn"
	case len(s.o.Region) > 7 && s.o.Region[:7] == "us-gov-":
		partition = "aws-us-gov"
	}
	return fmt.Sprintf("arn:%s:sagemaker:%s:%s:%s/%s", partition, s.o.Region, s.o.Account, kind, key(name))
}
