package health

import (
	"context"
	"log/slog"
	"math/bits"
	"net/http"
	"sync"
	"time"

	"github.com/warmpath/warmpath/internal/fleet"
)

// ScrapeOptions configure a Scraper.
type ScrapeOptions struct {
	// Path of the metrics page, asked with GET below each replica's base URL; it begins with a slash. "" = nothing is read.
	Path string
	// Read finds the figures in a page; an error means that there are none. It is called from many goroutines. nil = nothing is
	// read.
	Read func(page []byte) (fleet.Signals, error)
	// PausedPath is asked, too, whether the engine is paused, which Paused reads from the answer: it is then as if asleep. An engine
	// that answers 4xx is not asked again while its process lives. "" = none is asked.
	PausedPath string
	// Paused finds in an answer that the engine is paused. It is called from many goroutines.
	Paused func(answer []byte) bool
	// Interval is the time from the beginning of one reading of a replica to the next; more than 0.
	Interval time.Duration
	// Timeout is how long a replica may take to give its page, connecting included; more than 0. An engine that gives it
	// between two batches needs as long as its longest batch.
	Timeout time.Duration
	// APIKey is sent as a bearer token; "" = none.
	APIKey string
	// OnFailure is told of every page that could not be read. It may be called from many goroutines; nil = nobody is told.
	OnFailure func(replica string)
	// Transport carries the requests; nil means one that closes an idle connection before the engine does.
	Transport http.RoundTripper
	// Log gets one line for every change; nil = no log.
	Log *slog.Logger
}

// DefaultScrapeOptions lack what depends on the engine: Path and Read.
var DefaultScrapeOptions = ScrapeOptions{Interval: 5 * time.Second, Timeout: 2 * time.Second}

// scrapeIdle is how long an unused connection is kept: vLLM and llama.cpp close theirs after 5.0 s without a word.
const scrapeIdle = 4 * time.Second

// firstScrape bounds the time to a replica's first reading: the size of its cache should be known before much has been sent
// there.
const firstScrape = time.Second

// Scraper reads the metrics page of every replica of a fleet, again and again, and sets its fleet.Signals. It takes replicas
// out of rotation whose engines say that they sleep.
type Scraper struct {
	fleet  *fleet.Fleet
	o      ScrapeOptions
	ctx    context.Context // of all loops; ends with Stop
	cancel context.CancelFunc
	loops  sync.WaitGroup

	mu      sync.Mutex
	readers map[*fleet.Replica]*reader
}

// NewScraper makes a scraper of f's replicas. It does nothing before Sync; the caller must Stop it.
func NewScraper(f *fleet.Fleet, o ScrapeOptions) *Scraper {
	if o.Transport == nil {
		o.Transport = &http.Transport{IdleConnTimeout: scrapeIdle, DisableCompression: true}
	}
	if o.OnFailure == nil {
		o.OnFailure = func(string) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Scraper{fleet: f, o: o, readers: map[*fleet.Replica]*reader{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Sync makes the scraper read the fleet's present replicas and no others. It is to be called after every fleet.Apply and does
// not wait.
func (s *Scraper) Sync() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil || s.o.Path == "" || s.o.Read == nil {
		return
	}
	for replica, r := range s.readers {
		if replica.Removed() {
			r.cancel()
			delete(s.readers, replica)
		}
	}
	for _, replica := range s.fleet.View().Replicas {
		if s.readers[replica] == nil {
			s.read(replica)
		}
	}
}

// read starts the loop of a replica.
func (s *Scraper) read(replica *fleet.Replica) {
	ctx, cancel := context.WithCancel(s.ctx)
	r := &reader{scraper: s, replica: replica, cancel: cancel}
	s.readers[replica] = r
	s.loops.Go(func() { r.run(ctx) })
}

// Stop ends all readings and returns when every loop has ended. What was read is forgotten, so that nothing stale stays where
// nobody reads any more.
func (s *Scraper) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel()
	s.loops.Wait()
	for replica := range s.readers {
		replica.SetSignals(fleet.Signals{})
		s.fleet.SetAsleep(replica, false)
	}
	clear(s.readers)
	if t, ok := s.o.Transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// share is the replica's own fraction of a duration, evenly spread over replicas: their pages are not to be read all at once.
// Hashes of identities that differ in their last byte differ little in their upper bits; the multiplication by 2^64 over the
// golden ratio (Knuth, The Art of Computer Programming 3, 6.4) moves the difference there.
func share(replica *fleet.Replica, of time.Duration) time.Duration {
	part, _ := bits.Mul64(replica.Hash()*0x9e3779b97f4a7c15, uint64(of))
	return time.Duration(part)
}
