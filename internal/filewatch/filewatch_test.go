package filewatch

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run starts a watcher of path and returns the stream of the contents it reports.
func run(t *testing.T, path string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	seen, done := make(chan string, 16), make(chan struct{})
	w := New(path)
	go func() {
		defer close(done)
		w.Run(ctx, func(data []byte) { seen <- string(data) })
	}()
	t.Cleanup(func() { cancel(); <-done })
	return seen
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// replace writes a new file and renames it to path, as editors do.
func replace(t *testing.T, path, content string) {
	t.Helper()
	write(t, path+".new", content)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// expect waits for want. An empty report may come first: a write in place truncates, and the watcher may look just then.
func expect(t *testing.T, seen <-chan string, want string) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case got := <-seen:
			if got == want {
				return
			}
			if got != "" {
				t.Fatalf("reported %q, want %q", got, want)
			}
		case <-timeout:
			t.Fatalf("nothing reported, want %q", want)
		}
	}
}

func TestChangeBeforeRunIsSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "one")
	w := New(path)
	write(t, path, "two")
	ctx, cancel := context.WithCancel(t.Context())
	w.Run(ctx, func(data []byte) {
		if string(data) != "two" {
			t.Errorf("reported %q, want two", data)
		}
		cancel()
	})
}

func TestRewriteInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "one")
	seen := run(t, path)
	write(t, path, "two")
	expect(t, seen, "two")
	write(t, path, "")
	expect(t, seen, "")
	write(t, path, "three")
	expect(t, seen, "three")
}

func TestSameContentIsNoChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "one")
	seen := run(t, path)
	replace(t, path, "one")
	replace(t, path, "two")
	expect(t, seen, "two")
}

func TestEditorRename(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "one")
	seen := run(t, path)
	replace(t, path, "two")
	expect(t, seen, "two")
}

func TestMissingForAMoment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	seen := run(t, path)
	write(t, path, "one")
	expect(t, seen, "one")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, path, "two")
	expect(t, seen, "two")
}

// Kubernetes mounts f -> ..data/f with ..data -> ..v1, and replaces the ..data link.
func TestKubernetesSwap(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"..v1", "..v2"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, version, "f"), version)
	}
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("..v1", "..data")
	link(filepath.Join("..data", "f"), "f")
	seen := run(t, filepath.Join(dir, "f"))
	link("..v2", "..data_tmp")
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	expect(t, seen, "..v2")
}

func TestLinkToAnotherDirectory(t *testing.T) {
	real := filepath.Join(t.TempDir(), "real")
	path := filepath.Join(t.TempDir(), "f")
	write(t, real, "one")
	if err := os.Symlink(real, path); err != nil {
		t.Fatal(err)
	}
	seen := run(t, path)
	write(t, path, "two")
	expect(t, seen, "two")
}

func TestSettle(t *testing.T) {
	for _, tc := range []struct {
		name   string
		events int
		apart  time.Duration
		want   time.Duration
	}{
		{"no further event", 0, 0, quiet},
		{"a burst is one change", 3, 50 * time.Millisecond, 150*time.Millisecond + quiet},
		{"a busy directory cannot postpone it", 100, 50 * time.Millisecond, patience},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				events := make(chan fsnotify.Event)
				go func() {
					for range tc.events {
						select {
						case <-time.After(tc.apart):
						case <-ctx.Done():
							return
						}
						select {
						case events <- fsnotify.Event{}:
						case <-ctx.Done():
							return
						}
					}
				}()
				start := time.Now()
				if !(signals{events: events}).settle(ctx) {
					t.Error("settle gave up")
				}
				if got := time.Since(start); got != tc.want {
					t.Errorf("settled after %v, want %v", got, tc.want)
				}
				cancel()
			})
		})
	}
}

func TestBlindWatcherPolls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ticker := time.NewTicker(pollFor(nil))
		defer ticker.Stop()
		if !(signals{poll: ticker.C}).wait(ctx) {
			t.Error("wait ended without a cancel")
		}
		cancel()
		if (signals{poll: ticker.C}).wait(ctx) {
			t.Error("wait went on after the cancel")
		}
	})
}
