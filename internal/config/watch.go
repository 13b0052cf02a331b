package config

import (
	"context"

	"github.com/warmpath/warmpath/internal/filewatch"
)

// Watch calls onChange, never concurrently, each time the content of the file at path changes, until ctx ends; then it
// closes stopped. It follows editors that rename and Kubernetes, which swaps a symbolic link; a file that is missing for a
// moment is no change. onChange is told of bad content too: Load decides, and the next change is reported all the same.
//
// What the file holds when Watch is called is not a change. Called before Load, it leaves no gap between the two.
func Watch(ctx context.Context, path string, onChange func()) (stopped <-chan struct{}) {
	watcher, done := filewatch.New(path), make(chan struct{})
	go func() {
		defer close(done)
		watcher.Run(ctx, func([]byte) { onChange() })
	}()
	return done
}
