package recording

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
)

// file is a recording under way.
type file struct {
	started time.Time
	chains  *chainer
	size    int64

	file   *os.File
	writer *bufio.Writer
}

// create rotates the files that are there and begins a new one with a key of its own. Only the owner may read it.
func create(o *Options) (*file, error) {
	if err := rotate(o.Path, o.Keep); err != nil {
		return nil, fmt.Errorf("recording: %w; make room for it or choose another file", err)
	}
	opened, err := os.OpenFile(o.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("recording: %w; choose a file that this process may create", err)
	}
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // it never fails
	f := &file{started: o.Now(), chains: newChainer(key), file: opened, writer: bufio.NewWriter(opened)}
	head, err := json.Marshal(Header{Version: 1, Endpoint: o.Endpoint, Started: f.started.UTC(), Step: Step, Sample: o.Sample})
	if err == nil {
		err = errors.Join(f.line(head), f.flush())
	}
	if err != nil {
		_ = f.close()
		return nil, fmt.Errorf("recording: %w", err)
	}
	return f, nil
}

func (f *file) line(text []byte) error {
	f.size += int64(len(text)) + 1
	_, _ = f.writer.Write(text) // an error stays in the writer and is returned by what follows
	return f.writer.WriteByte('\n')
}

func (f *file) flush() error { return f.writer.Flush() }

func (f *file) close() error { return f.file.Close() }

// rotate moves PATH to PATH.1, PATH.1 to PATH.2 and so on, and removes what is beyond the last to keep.
func rotate(path string, keep int) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if keep == 0 {
		return os.Remove(path)
	}
	for n := keep - 1; n >= 0; n-- {
		err := os.Rename(numbered(path, n), numbered(path, n+1))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func numbered(path string, n int) string {
	if n == 0 {
		return path
	}
	return path + "." + strconv.Itoa(n)
}
