package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// store is the state file. A reader sees the old state or the new one, whole, whenever the writer or the machine dies.
type store struct {
	path string
	mine os.FileInfo // the file as this process knows it; nil = it has not looked yet
}

// load reads the state; a file that is not there is an empty one. A file that is damaged is an error, never an empty state: what it
// held may be in service.
func (f *store) load() (*state, error) {
	data, err := os.ReadFile(f.path)
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(filepath.Dir(f.path)); err != nil {
			return nil, fmt.Errorf("control plane: state file %s: %w; make the directory, or write another control_plane.state_file", f.path, err)
		}
		return emptyState(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("control plane: state file: %w", err)
	}
	s := &state{Components: map[string]component{}} // older versions know none
	err = json.Unmarshal(data, s, json.RejectUnknownMembers(true))
	if err == nil {
		err = s.validate()
	}
	if err != nil {
		return nil, fmt.Errorf("control plane: state file %s cannot be used: %w; restore it from a backup, or move it away to begin with nothing", f.path, err)
	}
	f.mine, err = os.Stat(f.path)
	return s, err
}

// save replaces the file. It is on the disk when save returns. A file that another process has replaced since is left alone: two
// routers on one file would undo each other's changes without a word.
func (f *store) save(s *state) error {
	if f.mine != nil && !f.unchanged() {
		return fmt.Errorf("control plane: state not saved: another process has replaced or removed %s; give each its own state_file, and restart this one", f.path)
	}
	data, err := json.Marshal(s, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return fmt.Errorf("control plane: state: %w", err)
	}
	next := f.path + ".next"
	if err := writeFile(next, append(data, '\n')); err != nil {
		return fmt.Errorf("control plane: state not saved: %w", err)
	}
	if err := os.Rename(next, f.path); err != nil {
		return fmt.Errorf("control plane: state not saved: %w", err)
	}
	if f.mine, err = os.Stat(f.path); err != nil {
		return fmt.Errorf("control plane: state perhaps not saved: %w", err)
	}
	if err := syncDir(filepath.Dir(f.path)); err != nil {
		return fmt.Errorf("control plane: state perhaps not saved: %w", err)
	}
	return nil
}

// unchanged says whether the file is the one that this process knows. The number of a file that has gone can be another's, hence the time.
func (f *store) unchanged() bool {
	now, err := os.Stat(f.path)
	return err == nil && os.SameFile(f.mine, now) && f.mine.ModTime().Equal(now.ModTime()) && f.mine.Size() == now.Size()
}

// writeFile writes a file and waits until the disk has it.
func writeFile(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}

// syncDir makes a rename in a directory last. Some network file systems do not know how, and need not.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	err = dir.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, dir.Close())
}
