// Package filewatch reports when the content of a file changes, however an editor or Kubernetes replaces it.
package filewatch

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// quiet is how long a directory must rest before the file is read: one save is several events.
	quiet = 100 * time.Millisecond
	// patience bounds the wait for quiet, so that a busy directory cannot postpone a change for ever.
	patience = time.Second
	// pollInterval is for what no event announces: network file systems, a directory that was itself replaced.
	pollInterval = 10 * time.Second
	// blindInterval replaces pollInterval where the system has no notifications left to give (inotify limits).
	blindInterval = time.Second
)

// Watcher notices changes of one file's content. Directories are watched rather than the file, because editors and
// Kubernetes (its ..data symbolic link) put a new file in the old one's place.
type Watcher struct {
	path string
	last []byte
}

// New returns a watcher of the file at path. What the file holds now is not a change: make the watcher first and read
// the file afterwards, and no change falls between the two. The file need not exist yet.
func New(path string) *Watcher {
	w := &Watcher{path: path}
	w.changed()
	return w
}

// Run calls onChange, never concurrently, with the new content each time the file's content differs from what it last
// was. A file that is missing or cannot be read is not a change: the watcher waits for it to return. Run ends with ctx.
func (w *Watcher) Run(ctx context.Context, onChange func(data []byte)) {
	var wake signals
	notify, err := fsnotify.NewWatcher()
	if err == nil {
		defer notify.Close()
		wake = signals{events: notify.Events, errors: notify.Errors}
	}
	ticker := time.NewTicker(pollFor(notify))
	defer ticker.Stop()
	wake.poll = ticker.C
	for {
		w.follow(notify)
		if data, changed := w.changed(); changed {
			onChange(data)
		}
		if !wake.wait(ctx) {
			return
		}
	}
}

// pollFor is how often to look without being told to.
func pollFor(notify *fsnotify.Watcher) time.Duration {
	if notify == nil {
		return blindInterval
	}
	return pollInterval
}

// follow watches the directory of the path and, where the path is a symbolic link, that of the file it leads to. It is
// repeated after every event because links move and directories are replaced; watching twice is harmless, and what
// cannot be watched is left to the poll.
func (w *Watcher) follow(notify *fsnotify.Watcher) {
	if notify == nil {
		return
	}
	_ = notify.Add(filepath.Dir(w.path))
	if real, err := filepath.EvalSymlinks(w.path); err == nil {
		_ = notify.Add(filepath.Dir(real))
	}
}

// changed reads the file and says whether it differs from the last time. Content is compared, not times: a save within
// the resolution of the file system's clock counts, a touch does not.
func (w *Watcher) changed() ([]byte, bool) {
	data, err := os.ReadFile(w.path)
	if err != nil || (w.last != nil && bytes.Equal(data, w.last)) {
		return nil, false
	}
	w.last = append([]byte{}, data...)
	return data, true
}

// signals are the reasons to look at the file again. Errors are among them: an overflow means that events were lost.
type signals struct {
	events <-chan fsnotify.Event
	errors <-chan error
	poll   <-chan time.Time
}

// wait returns when it is time to look at the file again, or false when ctx ends.
func (s signals) wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s.poll:
		return true
	case <-s.errors:
	case <-s.events:
	}
	return s.settle(ctx)
}

// settle waits until nothing has been reported for quiet, at most patience, or returns false when ctx ends.
func (s signals) settle(ctx context.Context) bool {
	rest := time.NewTimer(quiet)
	defer rest.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-rest.C:
			return true
		case <-limit.C:
			return true
		case <-s.errors:
		case <-s.events:
		}
		rest.Reset(quiet)
	}
}
