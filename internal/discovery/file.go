package discovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/warmpath/warmpath/internal/address"
	"github.com/warmpath/warmpath/internal/filewatch"
	"github.com/warmpath/warmpath/internal/fleet"
)

// FileOptions configure a File.
type FileOptions struct {
	// Path is the file that lists the replicas. It need not exist yet.
	Path string
	// OnError is told why the file cannot be used: once at the start if it cannot be read, and once for each content that
	// is not valid. It must not block. Nil drops the errors.
	OnError func(error)
}

// File is a list of replicas in a file that is watched.
type File struct{ opts FileOptions }

// NewFile returns a source of the replicas that a file lists.
func NewFile(opts FileOptions) *File {
	if opts.OnError == nil {
		opts.OnError = func(error) {}
	}
	return &File{opts}
}

// Run sends the list when it is read and each time the file's content changes to another valid list. While the file is
// missing or not valid, the last list stays.
func (f *File) Run(ctx context.Context, up chan<- []fleet.Target) error {
	watcher := filewatch.New(f.opts.Path)
	use := func(data []byte) {
		targets, err := ParseFile(f.opts.Path, data)
		if err != nil {
			f.opts.OnError(err)
			return
		}
		send(ctx, up, targets)
	}
	if data, err := os.ReadFile(f.opts.Path); err != nil {
		f.opts.OnError(fmt.Errorf("replica file: %w; the pool is empty until it can be read", err))
	} else {
		use(data)
	}
	watcher.Run(ctx, use)
	return nil
}

// ParseFile reads a list of replicas: a YAML or JSON sequence, or a mapping with the sequence under `replicas`. Each item
// is a URL, or a mapping with `url` and optionally `draining`. An empty list is valid, an empty file is not: it is what an
// editor leaves for a moment. A replica listed twice counts once, draining only if both entries say so.
//
// The error holds everything that is wrong, a line each, as `name:line:column: what`.
func ParseFile(name string, data []byte) ([]fleet.Target, error) {
	p := replicaParser{name: name, places: map[string]int{}}
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var doc, second yaml.Node
	switch err := loader.Load(&doc); {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: the file is empty; write [] for no replicas", name)
	case err != nil:
		return nil, p.syntaxError(err)
	case !errors.Is(loader.Load(&second), io.EOF):
		return nil, fmt.Errorf("%s: the file goes on after its YAML document; keep one document", name)
	}
	p.list(doc.Content[0])
	return p.targets, errors.Join(p.errs...)
}

// replicaParser collects the targets and errors of a file.
type replicaParser struct {
	name    string
	targets []fleet.Target
	// places are the positions in targets of the addresses seen.
	places map[string]int
	errs   []error
}

func (p *replicaParser) errorf(n *yaml.Node, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s:%d:%d: %s", p.name, n.Line, n.Column, fmt.Sprintf(format, args...)))
}

func (p *replicaParser) syntaxError(err error) error {
	if at := (*yaml.LoadError)(nil); errors.As(err, &at) {
		return fmt.Errorf("%s:%d:%d: is not valid YAML or JSON: %s", p.name, at.Mark.Line, at.Mark.Column, at.Message)
	}
	return fmt.Errorf("%s: is not valid YAML or JSON: %w", p.name, err)
}

// list reads the top of the file.
func (p *replicaParser) list(n *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		p.keys(n, map[string]func(*yaml.Node){"replicas": p.list})
		if len(n.Content) == 0 {
			p.errorf(n, "has no list; write `replicas: []` for no replicas")
		}
		return
	}
	if n.Kind != yaml.SequenceNode {
		p.errorf(n, "is not a list of replicas; write `- http://HOST:PORT` lines, or `replicas:` above them")
		return
	}
	for _, item := range n.Content {
		p.replica(item)
	}
}

// replica reads one item of the list.
func (p *replicaParser) replica(n *yaml.Node) {
	raw, draining := n, false
	if n.Kind == yaml.MappingNode {
		raw = nil
		p.keys(n, map[string]func(*yaml.Node){
			"url":      func(value *yaml.Node) { raw = value },
			"draining": func(value *yaml.Node) { draining = p.boolean(value) },
		})
	}
	if raw == nil {
		p.errorf(n, "has no url; write `url: http://HOST:PORT`")
		return
	}
	if raw.Kind != yaml.ScalarNode {
		p.errorf(raw, "is not a URL; write http://HOST:PORT")
		return
	}
	url, err := address.Parse(raw.Value)
	if err != nil {
		p.errorf(raw, "%v", err)
		return
	}
	p.add(fleet.Target{URL: url, Draining: draining})
}

func (p *replicaParser) add(target fleet.Target) {
	if i, twice := p.places[target.URL]; twice {
		p.targets[i].Draining = p.targets[i].Draining && target.Draining
		return
	}
	p.places[target.URL] = len(p.targets)
	p.targets = append(p.targets, target)
}

func (p *replicaParser) boolean(n *yaml.Node) bool {
	if n.Value != "true" && n.Value != "false" {
		p.errorf(n, "is not true or false")
	}
	return n.Value == "true"
}

// keys calls the reader of each key of a mapping and refuses keys without one.
func (p *replicaParser) keys(n *yaml.Node, readers map[string]func(*yaml.Node)) {
	var seen []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		read, known := readers[key.Value]
		switch {
		case !known:
			p.errorf(key, "is not a key here; a file has `replicas`, a replica has `url` and `draining`")
		case slices.Contains(seen, key.Value):
			p.errorf(key, "is there twice; remove one")
		default:
			read(n.Content[i+1])
		}
		seen = append(seen, key.Value)
	}
}
