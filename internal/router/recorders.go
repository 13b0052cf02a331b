package router

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/recording"
)

// recorder is the recording of one endpoint, and what the configuration says of it.
type recorder struct {
	*recording.Recorder
	config config.Record
}

// recorders holds those of a configuration by endpoint.
type recorders map[string]*recorder

// of gives an endpoint's recorder, nil if it is not recorded.
func (r recorders) of(endpoint string) *recording.Recorder {
	if found := r[endpoint]; found != nil {
		return found.Recorder
	}
	return nil
}

// newRecorders opens the recordings of a configuration. Those that have not changed go on. On an error nothing has changed.
func (r *Router) newRecorders(cfg *config.Config) (recorders, error) {
	made := recorders{}
	for name, e := range cfg.Endpoints {
		if e.Record == nil {
			continue
		}
		if before := r.recorders[name]; before != nil && before.config == *e.Record {
			made[name] = before
			continue
		}
		opened, err := recording.Open(recording.Options{
			Endpoint: name, Path: e.Record.File, Sample: e.Record.Sample, MaxSize: int64(e.Record.MaxSize), Keep: e.Record.Keep,
			Now: time.Now, Random: rand.Uint64, Dropped: r.metrics.RecordingDropped(name), Log: r.log,
		})
		if err != nil {
			made.closeExcept(r.recorders)
			return nil, fmt.Errorf("endpoint %s: %w", name, err)
		}
		made[name] = &recorder{opened, *e.Record}
	}
	return made, nil
}

// closeExcept ends the recordings that others does not have.
func (r recorders) closeExcept(others recorders) {
	for name, each := range r {
		if others[name] != each {
			each.Close()
		}
	}
}
