package emulator

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// armed is a fault in force.
type armed struct {
	Fault
	struck int
	until  time.Time // zero = until it is removed
}

// faultBook holds the faults in force and tells its owner when the engine's state changes by them.
type faultBook struct {
	changed func() // called without the lock held

	mu    sync.Mutex
	rand  *rand.Rand
	armed []*armed
	timer *time.Timer // ends the faults whose time is over
}

// engineState is what the state faults in force add up to.
type engineState struct {
	slow             float64 // factor on the time of a step
	stalled, refused bool
}

func (b *faultBook) add(faults ...Fault) {
	b.mu.Lock()
	for _, f := range faults {
		a := &armed{Fault: f}
		if f.For > 0 {
			a.until = time.Now().Add(f.For)
		}
		b.armed = append(b.armed, a)
	}
	b.schedule()
	b.mu.Unlock()
	b.changed()
}

// remove ends the faults of a kind, all when it is empty.
func (b *faultBook) remove(kind string) {
	b.mu.Lock()
	b.armed = slices.DeleteFunc(b.armed, func(a *armed) bool { return kind == "" || a.Kind == kind })
	b.mu.Unlock()
	b.changed()
}

// expire ends the faults whose time is over.
func (b *faultBook) expire() {
	b.mu.Lock()
	now := time.Now()
	b.armed = slices.DeleteFunc(b.armed, func(a *armed) bool { return !a.until.IsZero() && !now.Before(a.until) })
	b.schedule()
	b.mu.Unlock()
	b.changed()
}

// schedule sets the timer to the first end of a fault.
func (b *faultBook) schedule() {
	var first time.Time
	for _, a := range b.armed {
		if !a.until.IsZero() && (first.IsZero() || a.until.Before(first)) {
			first = a.until
		}
	}
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	if !first.IsZero() {
		b.timer = time.AfterFunc(time.Until(first), b.expire)
	}
}

// stop ends the timer; faults with an end then hold for good.
func (b *faultBook) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.timer != nil {
		b.timer.Stop()
	}
}

// take returns the fault that strikes a request for path, and counts it.
func (b *faultBook) take(path string) (Fault, bool) {
	probe := path == "/health" || path == "/ping"
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, a := range b.armed {
		if slices.Contains(stateFaults, a.Kind) || probe != (a.Kind == FaultUnhealthy) || !strings.HasPrefix(path, a.Path) {
			continue
		}
		if a.Probability > 0 && b.rand.Float64() >= a.Probability {
			continue
		}
		if a.struck++; a.struck == a.Count {
			b.armed = slices.Delete(b.armed, i, i+1)
		}
		return a.Fault, true
	}
	return Fault{}, false
}

func (b *faultBook) state() engineState {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := engineState{slow: 1}
	for _, a := range b.armed {
		switch a.Kind {
		case FaultSlow:
			s.slow *= orDefault(a.Factor, 2)
		case FaultStall:
			s.stalled = true
		case FaultRefuse:
			s.refused = true
		}
	}
	return s
}

// wireFault is a fault as /emulator/faults reads and shows it.
type wireFault struct {
	Fault
	For    string `json:"for,omitzero"`    // as in "1.5s"
	Struck int    `json:"struck,omitzero"` // requests so far; ignored when read
}

func (b *faultBook) list() []wireFault {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]wireFault, 0, len(b.armed))
	for _, a := range b.armed {
		w := wireFault{Fault: a.Fault, Struck: a.struck}
		if a.For > 0 {
			w.For = a.For.String()
		}
		list = append(list, w)
	}
	return list
}

// parseFaults reads one fault or a list of them; a fault is an object or its compact form as a string.
func parseFaults(body jsontext.Value) ([]Fault, error) {
	items := []jsontext.Value{body}
	if body.Kind() == '[' {
		if err := unmarshal(body, &items); err != nil {
			return nil, err
		}
	}
	faults := make([]Fault, len(items))
	for i, item := range items {
		var err error
		if faults[i], err = parseWireFault(item); err != nil {
			return nil, err
		}
	}
	return faults, nil
}

func parseWireFault(item jsontext.Value) (Fault, error) {
	if item.Kind() == '"' {
		var script string
		if err := unmarshal(item, &script); err != nil {
			return Fault{}, err
		}
		return ParseFault(script)
	}
	var w wireFault
	if err := unmarshal(item, &w); err != nil {
		return Fault{}, fmt.Errorf("fault: %w", err)
	}
	if w.For != "" {
		if err := w.Fault.set("for", w.For); err != nil {
			return Fault{}, fmt.Errorf("fault: for: %w", err)
		}
	}
	return w.Fault, w.Fault.validate()
}

// SetFaults puts faults in force beside those that are.
func (s *Server) SetFaults(faults ...Fault) error {
	for _, f := range faults {
		if err := f.validate(); err != nil {
			return err
		}
	}
	s.faults.add(faults...)
	return nil
}

// ClearFaults ends the faults of a kind, all when it is empty.
func (s *Server) ClearFaults(kind string) { s.faults.remove(kind) }

func (s *Server) getFaults(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.faults.list())
}

func (s *Server) postFaults(w http.ResponseWriter, r *http.Request) {
	body, err := readJSON(r)
	if err != nil {
		openAIError(w, asWireError(err))
		return
	}
	faults, err := parseFaults(body)
	if err != nil {
		openAIError(w, badRequest("", err.Error()))
		return
	}
	s.faults.add(faults...)
	s.getFaults(w, r)
}

func (s *Server) deleteFaults(w http.ResponseWriter, r *http.Request) {
	s.faults.remove(r.URL.Query().Get("kind"))
	s.getFaults(w, r)
}
