package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

// maxPage is the longest metrics page that is read, in bytes. A page of vLLM has 70 kB for every data-parallel rank, and some
// hundred with many adapters.
const maxPage = 4 << 20

// doubtAfter is how many failed readings in a row end the belief that an engine sleeps: it may have been replaced by one whose
// metrics are off.
const doubtAfter = 3

// reader is the loop that reads the page of one replica. Its fields belong to that loop.
type reader struct {
	scraper *Scraper
	replica *fleet.Replica
	cancel  context.CancelFunc

	queries, hits total
	failures      int // in a row
	asleep        bool
	paused        bool            // as the engine last said
	unpausable    context.Context // the process that cannot be paused; nil = none is known
}

// run reads first soon and then at the replica's own place in the interval. One reading that takes longer than that costs the
// next its turn.
func (r *reader) run(ctx context.Context) {
	defer r.cancel()
	interval := r.scraper.o.Interval
	turn := time.Now().Add(share(r.replica, interval))
	sleep(ctx, share(r.replica, min(interval, firstScrape)))
	for ctx.Err() == nil {
		r.scrape(ctx)
		for !turn.After(time.Now()) {
			turn = turn.Add(interval)
		}
		sleep(ctx, time.Until(turn))
	}
}

func (r *reader) scrape(ctx context.Context) {
	process := r.replica.Lost()
	s, err := r.scraper.get(ctx, r.replica)
	if err == nil {
		s.Asleep = r.isPaused(ctx, process) || s.Asleep
	}
	switch {
	case ctx.Err() != nil || process.Err() != nil: // the page is nobody's any more
	case err != nil:
		r.fail(err)
	default:
		r.succeed(s)
	}
}

func (r *reader) succeed(s fleet.Signals) {
	s.At = time.Now()
	s.QueryTokens, s.HitTokens = r.queries.add(s.QueryTokens), r.hits.add(s.HitTokens)
	if r.failures > 0 {
		r.scraper.o.Log.Info("metrics page read again", "replica", r.replica.ID())
	}
	r.failures = 0
	r.replica.SetSignals(s)
	r.setAsleep(s.Asleep)
}

// isPaused asks whether the engine is paused. One that says nothing is as it was.
func (r *reader) isPaused(ctx, process context.Context) bool {
	o := &r.scraper.o
	if o.PausedPath == "" || r.unpausable == process {
		return false
	}
	answer, err := r.scraper.fetch(ctx, r.replica, o.PausedPath)
	var refused refusal
	switch {
	case err == nil:
		r.paused = o.Paused(answer)
	case errors.As(err, &refused) && refused.status/100 == 4:
		r.paused, r.unpausable = false, process
	}
	return r.paused
}

// fail forgets the load, which is no longer that, and keeps what a process does not change or only adds to.
func (r *reader) fail(err error) {
	r.scraper.o.OnFailure(r.replica.ID())
	if r.failures == 0 {
		r.scraper.o.Log.Info("metrics page not read; the engine's load is unknown", "replica", r.replica.ID(), "cause", err)
	}
	r.failures++
	if r.failures >= doubtAfter {
		r.setAsleep(false)
	}
	known := r.replica.Signals()
	r.replica.SetSignals(fleet.Signals{
		CacheTokens: known.CacheTokens, BlockTokens: known.BlockTokens,
		QueryTokens: r.queries.reading(), HitTokens: r.hits.reading(), Asleep: r.asleep,
	})
}

func (r *reader) setAsleep(asleep bool) {
	if r.asleep == asleep {
		return
	}
	r.asleep = asleep
	r.scraper.fleet.SetAsleep(r.replica, asleep)
	if asleep {
		r.scraper.o.Log.Warn("replica asleep; wake its engine to use it", "replica", r.replica.ID())
	} else {
		r.scraper.o.Log.Info("replica awake", "replica", r.replica.ID())
	}
}

// get reads the metrics page once.
func (s *Scraper) get(ctx context.Context, replica *fleet.Replica) (fleet.Signals, error) {
	page, err := s.fetch(ctx, replica, s.o.Path)
	if err != nil {
		return fleet.Signals{}, fmt.Errorf("metrics page: %w", err)
	}
	return s.o.Read(page)
}

// refusal is an answer that is no page.
type refusal struct {
	path, says string
	status     int
}

func (r refusal) Error() string {
	return fmt.Sprintf("%s answered %s; check that the engine's metrics are on", r.path, r.says)
}

// fetch asks for a page once.
func (s *Scraper) fetch(ctx context.Context, replica *fleet.Replica, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, replica.URL().String()+path, nil)
	if err != nil {
		return nil, fmt.Errorf("%w; check the path of the pool's metrics settings", err)
	}
	req.Header.Set("User-Agent", "warmpath-scrape")
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	if s.o.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+s.o.APIKey)
	}
	resp, err := s.o.Transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, refusal{path, resp.Status, resp.StatusCode}
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxPage+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxPage {
		return nil, fmt.Errorf("longer than %d bytes", maxPage)
	}
	return text, nil
}

// total makes of an engine's counter one that never falls: the engine's starts again at 0 with its process.
type total struct {
	last fleet.Reading // of the engine
	sum  float64
}

// add takes the engine's counter; an unknown one changes nothing.
func (t *total) add(now fleet.Reading) fleet.Reading {
	switch {
	case !now.Known:
	case now.Value < t.last.Value:
		t.sum += now.Value
		t.last = now
	default:
		t.sum += now.Value - t.last.Value
		t.last = now
	}
	return t.reading()
}

// reading is the total, unknown before the first add of something known.
func (t *total) reading() fleet.Reading {
	if !t.last.Known {
		return fleet.Reading{}
	}
	return fleet.Read(t.sum)
}
