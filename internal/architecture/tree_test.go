package architecture

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// module is the import path that the tree is rooted at.
const module = "github.com/warmpath/warmpath/"

// law limits what a package imports.
type law struct {
	of     string   // the package
	may    []string // the packages of this module it may import; nil means any
	never  []string // import paths it must not name
	reason string
}

// file is what the laws need to know of a Go file that is not a test.
type file struct {
	path    string
	lines   int
	name    string // of its package
	comment string // on its package clause
	imports []string
}

// tree maps a folder, relative to the module's root, to its Go files that are not tests.
type tree map[string][]file

// load reads every package of the module at root. Nested modules, test data and hidden folders are not part of it.
func load(t *testing.T, root fs.FS) tree {
	t.Helper()
	found := tree{}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return enter(root, name)
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := read(root, name)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		found[dir] = append(found[dir], f)
		return nil
	})
	if err != nil {
		t.Fatalf("source tree: %v", err)
	}
	return found
}

// enter decides whether the walk goes into a folder.
func enter(root fs.FS, dir string) error {
	if dir == "." {
		return nil
	}
	base := path.Base(dir)
	if base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return fs.SkipDir
	}
	if _, err := fs.Stat(root, path.Join(dir, "go.mod")); err == nil {
		return fs.SkipDir
	}
	return nil
}

func read(root fs.FS, name string) (file, error) {
	source, err := fs.ReadFile(root, name)
	if err != nil {
		return file{}, err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return file{}, err
	}
	f := file{path: name, lines: bytes.Count(source, []byte("\n")), name: parsed.Name.Name, comment: parsed.Doc.Text()}
	for _, spec := range parsed.Imports {
		f.imports = append(f.imports, importPath(spec))
	}
	return f, nil
}

// importPath is the path that spec names, relative to the root if it is one of ours.
func importPath(spec *ast.ImportSpec) string {
	p, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
	return strings.TrimPrefix(p, module)
}

// packages lists the folders in order, so that findings come in order.
func (t tree) packages() []string {
	return slices.Sorted(maps.Keys(t))
}

// breaches lists every import that one of the laws forbids.
func (t tree) breaches(laws []law) (findings []string) {
	for _, l := range laws {
		for _, f := range t[l.of] {
			for _, imported := range f.imports {
				if t.breaks(l, imported) {
					findings = append(findings, fmt.Sprintf("%s imports %s: %s", f.path, imported, l.reason))
				}
			}
		}
	}
	return findings
}

func (t tree) breaks(l law, imported string) bool {
	if slices.Contains(l.never, imported) {
		return true
	}
	_, ours := t[imported]
	return ours && l.may != nil && !slices.Contains(l.may, imported)
}

// strangers lists every import of a package by one that importers does not name. A name covers the folders below it.
func (t tree) strangers(importers map[string][]string) (findings []string) {
	for _, dir := range t.packages() {
		for _, f := range t[dir] {
			for _, imported := range f.imports {
				if allowed, limited := importers[imported]; limited && !within(dir, allowed) {
					findings = append(findings, fmt.Sprintf("%s imports %s: only %s may", f.path, imported, strings.Join(allowed, ", ")))
				}
			}
		}
	}
	return findings
}

func within(dir string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		return dir == folder || strings.HasPrefix(dir, folder+"/")
	})
}

// reaches lists the chains of imports that lead from one of the packages in from to one of those in forbidden.
func (t tree) reaches(from, forbidden []string) (findings []string) {
	for _, start := range from {
		chains := map[string]string{start: start}
		for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
			for _, next := range t.imports(queue[0]) {
				if _, seen := chains[next]; seen {
					continue
				}
				chains[next] = chains[queue[0]] + " -> " + next
				queue = append(queue, next)
			}
		}
		for _, dir := range forbidden {
			if chain, reached := chains[dir]; reached {
				findings = append(findings, "the serving path reaches the laboratory: "+chain)
			}
		}
	}
	return findings
}

// imports lists the packages of this module that a package imports.
func (t tree) imports(dir string) (ours []string) {
	for _, f := range t[dir] {
		for _, imported := range f.imports {
			if _, ok := t[imported]; ok {
				ours = append(ours, imported)
			}
		}
	}
	return ours
}

// comments lists the packages that do not have one comment of one sentence that begins with their name.
func (t tree) comments() (findings []string) {
	for _, dir := range t.packages() {
		var comments []string
		for _, f := range t[dir] {
			if f.comment != "" {
				comments = append(comments, f.comment)
			}
		}
		if len(comments) != 1 {
			findings = append(findings, fmt.Sprintf("%s: %d package comments, want 1", dir, len(comments)))
			continue
		}
		if problem := badComment(t[dir][0].name, path.Base(dir), comments[0]); problem != "" {
			findings = append(findings, dir+": package comment "+problem)
		}
	}
	return findings
}

func badComment(name, base, comment string) string {
	opening := "Package " + name + " "
	if name == "main" {
		opening = "Command " + base + " "
	}
	if !strings.HasPrefix(comment, opening) {
		return fmt.Sprintf("must begin with %q", opening)
	}
	text := strings.Join(strings.Fields(comment), " ")
	if !strings.HasSuffix(text, ".") || new(doc.Package).Synopsis(comment) != text {
		return "must be one sentence"
	}
	return ""
}

// misnamed lists the packages whose path holds one of names, or more than depth folders below internal.
func (t tree) misnamed(names []string, depth int) (findings []string) {
	for _, dir := range t.packages() {
		parts := strings.Split(dir, "/")
		for _, part := range parts {
			if slices.Contains(names, part) {
				findings = append(findings, fmt.Sprintf("%s: %q does not say what is inside", dir, part))
			}
		}
		if parts[0] == "internal" && len(parts)-1 > depth {
			findings = append(findings, fmt.Sprintf("%s: more than %d folders below internal", dir, depth))
		}
	}
	return findings
}

// longFiles lists the files of more than limit lines.
func (t tree) longFiles(limit int) (findings []string) {
	for _, dir := range t.packages() {
		for _, f := range t[dir] {
			if f.lines > limit {
				findings = append(findings, fmt.Sprintf("%s: %d lines, at most %d", f.path, f.lines, limit))
			}
		}
	}
	return findings
}
