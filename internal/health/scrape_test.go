package health

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/fleet"
)

// surgery is a fleet and its scraper in front of the engines of a test, inside a synctest bubble.
type surgery struct {
	*testing.T
	*engines
	fleet    *fleet.Fleet
	scraper  *Scraper
	failures chan string
}

func newSurgery(t *testing.T, change func(*ScrapeOptions)) *surgery {
	s := &surgery{T: t, engines: newEngines(), fleet: fleet.New(fleet.Options{}), failures: make(chan string, 10000)}
	o := DefaultScrapeOptions
	o.Path, o.Read, o.Transport = "/metrics", readFigures, s.engines
	o.OnFailure = func(replica string) { s.failures <- replica }
	if change != nil {
		change(&o)
	}
	s.scraper = NewScraper(s.fleet, o)
	return s
}

// readFigures reads the pages of these tests: running requests, cache tokens, query and hit tokens, and whether it sleeps.
func readFigures(page []byte) (fleet.Signals, error) {
	var running, queries, hits float64
	var cache int64
	var asleep bool
	if _, err := fmt.Sscan(string(page), &running, &cache, &queries, &hits, &asleep); err != nil {
		return fleet.Signals{}, errors.New("nonsense")
	}
	return fleet.Signals{
		Running: fleet.Read(running), CacheTokens: cache, QueryTokens: fleet.Read(queries), HitTokens: fleet.Read(hits), Asleep: asleep,
	}, nil
}

func figures(page string) answer { return answer{status: 200, body: page} }

// close stops everything; goleak then finds what goes on.
func (s *surgery) close() {
	s.scraper.Stop()
	if s.overlap {
		s.Error("two readings of one replica ran at once")
	}
}

func (s *surgery) apply(hosts ...string) {
	s.fleet.Apply(targets(hosts...))
	for _, r := range s.fleet.View().Replicas {
		s.fleet.SetHealth(r, true)
	}
	s.scraper.Sync()
	synctest.Wait()
}

// wait lets virtual time pass.
func (s *surgery) wait(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (s *surgery) replica(host string) *fleet.Replica {
	s.Helper()
	for _, r := range s.fleet.View().Replicas {
		if r.ID() == host {
			return r
		}
	}
	s.Fatalf("no replica %s", host)
	return nil
}

// want compares what is known of the replica a:1, but for the time.
func (s *surgery) want(when string, want fleet.Signals) {
	s.Helper()
	got := s.replica("a:1").Signals()
	got.At = time.Time{}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

func TestScrapesSetSignals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSurgery(t, nil)
		defer s.close()
		s.set("a:1", figures("3 4096 100 40 false"))
		s.apply("a:1")
		s.wait(firstScrape)
		s.want("within a second", fleet.Signals{Running: fleet.Read(3), CacheTokens: 4096, QueryTokens: fleet.Read(100), HitTokens: fleet.Read(40)})
		at := s.replica("a:1").Signals().At
		if age := time.Since(at); age < 0 || age > firstScrape {
			t.Errorf("read %v ago, want within %v", age, firstScrape)
		}
		s.set("a:1", figures("0 4096 100 40 false"))
		s.wait(5 * time.Second)
		s.want("an interval later", fleet.Signals{Running: fleet.Read(0), CacheTokens: 4096, QueryTokens: fleet.Read(100), HitTokens: fleet.Read(40)})
		if len(s.failures) != 0 {
			t.Errorf("%d failures, want 0", len(s.failures))
		}
	})
}

// TestFailedScrapeIsNoSignal holds that neither a hung nor a strange page leaves an old load, or none, standing for the present.
func TestFailedScrapeIsNoSignal(t *testing.T) {
	tests := []struct {
		name string
		answer
	}{
		{"hangs", hangs},
		{"server error", answer{status: 500}},
		{"not found", answer{status: 404}},
		{"not allowed", answer{status: 401}},
		{"no page", figures("nonsense")},
		{"empty", figures("")},
		{"too long", figures(strings.Repeat(" ", maxPage) + "3 4096 100 40 false")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSurgery(t, nil)
				defer s.close()
				s.set("a:1", figures("3 4096 100 40 false"))
				s.apply("a:1")
				s.wait(firstScrape)
				s.set("a:1", tt.answer)
				s.wait(10 * time.Second)
				s.want("after failed readings", fleet.Signals{CacheTokens: 4096, QueryTokens: fleet.Read(100), HitTokens: fleet.Read(40)})
				if len(s.failures) < 2 {
					t.Errorf("%d failures told, want each of at least 2", len(s.failures))
				}
				if got := states(s.fleet); got != "a:1=ready" {
					t.Errorf("%s, want the replica in rotation", got)
				}
				s.set("a:1", figures("1 4096 100 40 false"))
				s.wait(10 * time.Second)
				s.want("read again", fleet.Signals{Running: fleet.Read(1), CacheTokens: 4096, QueryTokens: fleet.Read(100), HitTokens: fleet.Read(40)})
			})
		})
	}
}

func TestCountersOutlastTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSurgery(t, nil)
		defer s.close()
		s.set("a:1", figures("0 4096 100 40 false"))
		s.apply("a:1")
		s.wait(firstScrape)
		s.set("a:1", refuses)
		s.replica("a:1").MarkLost()
		s.want("process gone", fleet.Signals{})
		s.wait(10 * time.Second)
		s.want("still gone", fleet.Signals{QueryTokens: fleet.Read(100), HitTokens: fleet.Read(40)})
		s.set("a:1", figures("0 2048 30 0 false"))
		s.wait(5 * time.Second)
		s.want("another process", fleet.Signals{Running: fleet.Read(0), CacheTokens: 2048, QueryTokens: fleet.Read(130), HitTokens: fleet.Read(40)})
		s.set("a:1", figures("0 2048 50 25 false"))
		s.wait(5 * time.Second)
		s.want("and on", fleet.Signals{Running: fleet.Read(0), CacheTokens: 2048, QueryTokens: fleet.Read(150), HitTokens: fleet.Read(65)})
	})
}

// TestPageOfALostProcessIsNotBelieved has the port refuse while a page is on its way.
func TestPageOfALostProcessIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSurgery(t, nil)
		defer s.close()
		s.set("a:1", answer{after: time.Second, status: 200, body: "3 4096 100 40 false"})
		s.apply("a:1")
		s.wait(share(s.replica("a:1"), firstScrape) + 500*time.Millisecond)
		s.set("a:1", refuses)
		s.replica("a:1").MarkLost()
		s.wait(time.Second)
		s.want("after the page has come", fleet.Signals{})
	})
}

func TestSleeperIsTakenOutAndReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newSurgery(t, func(o *ScrapeOptions) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		defer s.close()
		steps := []struct {
			name, want string
			answer
		}{
			{"asleep", "a:1=asleep b:1=ready", figures("0 4096 0 0 true")},
			{"awake", "a:1=ready b:1=ready", figures("0 4096 0 0 false")},
			{"asleep again", "a:1=asleep b:1=ready", figures("0 4096 0 0 true")},
			{"one page does not come", "a:1=asleep b:1=ready", hangs},
			{"nor another", "a:1=asleep b:1=ready", hangs},
			{"nor the third", "a:1=ready b:1=ready", hangs},
		}
		s.set("b:1", figures("0 4096 0 0 false"))
		s.apply("a:1", "b:1")
		place := share(s.replica("a:1"), 5*time.Second)
		s.wait(place - time.Millisecond)
		for _, step := range steps {
			s.set("a:1", step.answer)
			s.wait(4 * time.Second)
			wantStates(t, s.fleet, step.name, step.want)
			s.wait(time.Second)
		}
		if warned := strings.Count(log.String(), "level=WARN msg=\"replica asleep"); warned != 2 {
			t.Errorf("%d warnings, want one each time it falls asleep:\n%s", warned, log.String())
		}
	})
}

func TestPausedIsTakenOutAndReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSurgery(t, func(o *ScrapeOptions) {
			o.PausedPath, o.Paused = pausedPath, func(answer []byte) bool { return string(answer) == "yes" }
		})
		defer s.close()
		steps := []struct {
			name, want string
			page       answer
			paused     answer
		}{
			{"runs", "a:1=ready", figures("0 4096 0 0 false"), figures("no")},
			{"paused", "a:1=asleep", figures("0 4096 0 0 false"), figures("yes")},
			{"does not say", "a:1=asleep", figures("0 4096 0 0 false"), hangs},
			{"fails to say", "a:1=asleep", figures("0 4096 0 0 false"), answer{status: 500}},
			{"runs again", "a:1=ready", figures("0 4096 0 0 false"), figures("no")},
			{"asleep", "a:1=asleep", figures("0 4096 0 0 true"), figures("no")},
			{"paused, too", "a:1=asleep", figures("0 4096 0 0 true"), figures("yes")},
			{"awake, but paused", "a:1=asleep", figures("0 4096 0 0 false"), figures("yes")},
			{"cannot be paused", "a:1=ready", figures("0 4096 0 0 false"), answer{status: 404}},
		}
		s.apply("a:1")
		s.wait(share(s.replica("a:1"), 5*time.Second) - time.Millisecond)
		for _, step := range steps {
			s.set("a:1", step.page)
			s.set("a:1"+pausedPath, step.paused)
			s.wait(4 * time.Second)
			wantStates(t, s.fleet, step.name, step.want)
			s.wait(time.Second)
		}
	})
}

// TestWhatCannotBePausedIsAskedOnce holds that an engine that is not in development mode does not get its log filled.
func TestWhatCannotBePausedIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSurgery(t, func(o *ScrapeOptions) {
			o.PausedPath, o.Paused = pausedPath, func([]byte) bool { return true }
		})
		defer s.close()
		s.set("a:1", figures("0 4096 0 0 false"))
		s.set("a:1"+pausedPath, answer{status: 404})
		s.apply("a:1")
		s.wait(time.Minute)
		if got := len(s.probed("a:1" + pausedPath)); got != 1 {
			t.Errorf("asked %d times in a minute, want once", got)
		}
		s.replica("a:1").MarkLost()
		s.wait(time.Minute)
		if got := len(s.probed("a:1" + pausedPath)); got != 1 {
			t.Errorf("asked %d times after its process was replaced, want once", got)
		}
		wantStates(t, s.fleet, "at last", "a:1=ready")
		if len(s.failures) != 0 {
			t.Errorf("%d failures told, want none: the metrics page is there", len(s.failures))
		}
	})
}

func TestScrapesAreRegularAndStaggered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSurgery(t, nil)
		defer s.close()
		var hosts []string
		for port := range 100 {
			hosts = append(hosts, fmt.Sprintf("a:%d", 8000+port))
			s.set(hosts[port], figures("0 4096 0 0 false"))
		}
		s.apply(hosts...)
		s.wait(time.Minute)
		busiest := map[time.Time]int{}
		for _, host := range hosts {
			times := s.probed(host)
			if len(times) < 12 || len(times) > 13 {
				t.Errorf("%s read %d times in a minute, want 12 or 13", host, len(times))
			}
			for i, at := range times[2:] {
				if gap := at.Sub(times[i+1]); gap != 5*time.Second {
					t.Errorf("%s read again after %v, want 5s", host, gap)
				}
			}
			busiest[times[2].Truncate(500*time.Millisecond)]++
		}
		for at, n := range busiest {
			if n > 20 {
				t.Errorf("%d of 100 replicas read within half a second of a 5 s interval, at %v", n, at)
			}
		}
	})
}

// TestSlowScrapesNeverOverlap gives a page more time than the interval has.
func TestSlowScrapesNeverOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSurgery(t, func(o *ScrapeOptions) { o.Interval, o.Timeout = time.Second, 10*time.Second })
		defer s.close()
		s.set("a:1", answer{after: 2500 * time.Millisecond, status: 200, body: "1 4096 0 0 false"})
		s.apply("a:1")
		s.wait(time.Minute)
		if got := len(s.probed("a:1")); got < 19 || got > 21 {
			t.Errorf("%d readings of 2.5 s in a minute, want 20: each begins at the first turn after the one before", got)
		}
		if len(s.failures) != 0 {
			t.Errorf("%d failures, want 0", len(s.failures))
		}
	})
}

func TestScrapeTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSurgery(t, nil)
		defer s.close()
		s.set("a:1", hangs)
		s.apply("a:1")
		s.wait(share(s.replica("a:1"), firstScrape) + s.scraper.o.Timeout - time.Millisecond)
		if len(s.failures) != 0 {
			t.Error("given up before the timeout")
		}
		s.wait(2 * time.Millisecond)
		if len(s.failures) != 1 {
			t.Error("not given up at the timeout")
		}
	})
}

func TestOnlyThePresentSetIsScraped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSurgery(t, nil)
		defer s.close()
		s.set("a:1", figures("0 4096 0 0 false"))
		s.set("b:1", hangs)
		s.apply("a:1", "b:1")
		s.wait(time.Minute)
		s.apply("a:1")
		s.probed("a:1")
		s.probed("b:1")
		s.wait(time.Minute)
		if got := len(s.probed("b:1")); got != 0 {
			t.Errorf("removed replica read %d times, want 0", got)
		}
		if got := len(s.probed("a:1")); got != 12 {
			t.Errorf("the other read %d times in a minute, want 12", got)
		}
	})
}

func TestStopForgetsWhatWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSurgery(t, nil)
		s.set("a:1", figures("3 4096 0 0 true"))
		s.apply("a:1")
		s.wait(time.Minute)
		wantStates(t, s.fleet, "before", "a:1=asleep")
		s.close()
		s.want("after Stop", fleet.Signals{})
		wantStates(t, s.fleet, "after Stop", "a:1=ready")
		s.probed("a:1")
		s.apply("a:1")
		s.wait(time.Minute)
		if got := len(s.probed("a:1")); got != 0 {
			t.Errorf("%d readings after Stop, want 0", got)
		}
	})
}

func TestNothingIsScrapedWithoutAPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSurgery(t, func(o *ScrapeOptions) { o.Path = "" })
		defer s.close()
		s.apply("a:1")
		s.wait(time.Minute)
		if got := len(s.probed("a:1")); got != 0 {
			t.Errorf("%d readings, want 0", got)
		}
	})
}

// TestRealScrapes asks real servers: path, credentials, base path, no redirects followed, a closed port.
func TestRealScrapes(t *testing.T) {
	var mu sync.Mutex
	var got *http.Request
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got = r
		mu.Unlock()
		switch r.URL.Path {
		case "/base/metrics":
			fmt.Fprint(w, "3 4096 100 40 false")
		case "/moved/metrics":
			http.Redirect(w, r, "/base/metrics", http.StatusFound)
		default:
			http.NotFound(w, r)
		}
	}))
	defer engine.Close()
	dead := httptest.NewServer(nil)
	dead.Close()
	tests := []struct{ name, base, path, want string }{
		{"page", engine.URL + "/base/", "/metrics?all=1", ""},
		{"redirect", engine.URL + "/moved", "/metrics", "/metrics answered 302 Found"},
		{"metrics off", engine.URL, "/metrics", "check that the engine's metrics are on"},
		{"closed port", dead.URL, "/metrics", "connection refused"},
		{"bad path", engine.URL, "/%zz", "metrics settings"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := fleet.New(fleet.Options{})
			f.Apply([]fleet.Target{{URL: tt.base}})
			o := DefaultScrapeOptions
			o.Path, o.Read, o.APIKey, o.Timeout = tt.path, readFigures, "sesame", time.Minute
			s := NewScraper(f, o)
			defer s.Stop()
			signals, err := s.get(t.Context(), f.View().Replicas[0])
			if tt.want == "" {
				if err != nil || signals.CacheTokens != 4096 {
					t.Errorf("got %+v, %v", signals, err)
				}
				mu.Lock()
				defer mu.Unlock()
				if auth := got.Header.Get("Authorization"); auth != "Bearer sesame" || got.URL.RawQuery != "all=1" {
					t.Errorf("asked %s with Authorization %q", got.URL, auth)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
