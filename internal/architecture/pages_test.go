package architecture

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pages holds the text of every Markdown page by its path, and an empty text for every other file and folder.
type pages map[string]string

// loadPages reads the pages of the module at root.
func loadPages(t *testing.T, root fs.FS) pages {
	t.Helper()
	found := pages{}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		found[name] = ""
		if entry.IsDir() {
			return enter(root, name)
		}
		if path.Ext(name) == ".md" {
			found[name] = string(readFile(t, root, name))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("pages: %v", err)
	}
	return found
}

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
	verb    = regexp.MustCompile("`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^##+ (.+)$`)
	unnamed = regexp.MustCompile(`[^\p{L}\p{N}_ -]`) // what GitHub leaves out of a heading's anchor
)

// links lists the targets that a page links to within the repository.
func (p pages) links(page string) (targets []string) {
	prose := verb.ReplaceAllString(fence.ReplaceAllString(p[page], ""), "")
	for _, m := range link.FindAllStringSubmatch(prose, -1) {
		if !strings.Contains(m[1], ":") {
			targets = append(targets, m[1])
		}
	}
	return targets
}

// headings lists the headings of a page below its title.
func (p pages) headings(page string) (texts []string) {
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(p[page], ""), -1) {
		texts = append(texts, m[1])
	}
	return texts
}

// anchor is the name by which GitHub links to a heading.
func anchor(text string) string {
	return strings.ReplaceAll(strings.ToLower(unnamed.ReplaceAllString(text, "")), " ", "-")
}

// deadLinks lists the links that lead to no file, or to no heading.
func (p pages) deadLinks() (findings []string) {
	for _, page := range p.all() {
		for _, target := range p.links(page) {
			name, section, _ := strings.Cut(target, "#")
			to := page
			if name != "" {
				to = path.Join(path.Dir(page), name)
			}
			_, exists := p[to]
			known := slices.ContainsFunc(p.headings(to), func(text string) bool { return anchor(text) == section })
			switch {
			case !exists:
				findings = append(findings, page+": "+target+" does not exist")
			case section != "" && !known:
				findings = append(findings, page+": #"+section+" is no heading of "+to)
			}
		}
	}
	return findings
}

// missingFrom lists the pages below the index's folder that it does not link to.
func (p pages) missingFrom(index string) (findings []string) {
	linked := map[string]bool{index: true}
	for _, target := range p.links(index) {
		linked[path.Join(path.Dir(index), target)] = true
	}
	for _, page := range p.all() {
		if strings.HasPrefix(page, path.Dir(index)+"/") && !linked[page] {
			findings = append(findings, index+" does not link to "+page)
		}
	}
	return findings
}

// without lists the pages of a folder that are missing, or whose second-level headings are not those wanted.
func (p pages) without(dir string, names, headings []string) (findings []string) {
	for _, name := range names {
		page := path.Join(dir, name+".md")
		if _, exists := p[page]; !exists {
			findings = append(findings, page+": is missing")
			continue
		}
		var got []string
		for _, line := range strings.Split(fence.ReplaceAllString(p[page], ""), "\n") {
			if text, ok := strings.CutPrefix(line, "## "); ok {
				got = append(got, text)
			}
		}
		if !slices.Equal(got, headings) {
			findings = append(findings, fmt.Sprintf("%s: headings are %q, want %q", page, got, headings))
		}
	}
	return findings
}

// all lists the Markdown pages in order.
func (p pages) all() (names []string) {
	for name := range p {
		if path.Ext(name) == ".md" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func readFile(t *testing.T, root fs.FS, name string) []byte {
	t.Helper()
	data, err := fs.ReadFile(root, name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
