package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/routing"
)

// The headings that all pages of a folder share, so that a reader finds the same thing in the same place.
var (
	strategyHeadings = []string{"What it does", "When to use it", "Configuration", "Behaviour in detail", "What you can see", "Limits", "See also"}
	sourceHeadings   = []string{"What it is", "When to use it", "Configuration", "Behaviour", "Failure", "See also"}
)

func TestLinksResolve(t *testing.T) {
	report(t, loadPages(t, os.DirFS("../..")).deadLinks())
}

func TestEveryPageIsInTheIndex(t *testing.T) {
	report(t, loadPages(t, os.DirFS("../..")).missingFrom("docs/README.md"))
}

// TestEveryPackageIsOnTheMap compares the tables of docs/ARCHITECTURE.md with the package comments.
func TestEveryPackageIsOnTheMap(t *testing.T) {
	root := os.DirFS("../..")
	want := map[string]string{}
	for dir, files := range load(t, root) {
		if strings.HasPrefix(dir, "internal/") || strings.HasPrefix(dir, "cmd/") {
			want["../"+dir] = summary(files)
		}
	}
	got := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| \\[`[a-z]+`\\]\\((\\.\\./(?:internal|cmd)/[^)]+)\\) \\| (.*) \\|$")
	for _, m := range row.FindAllStringSubmatch(string(readFile(t, root, "docs/ARCHITECTURE.md")), -1) {
		got[m[1]] = m[2]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/ARCHITECTURE.md is not what the packages say of themselves (-packages +page):\n%s", diff)
	}
}

// TestErrorCodesAreDocumented compares the codes in the source with the table of docs/http.md.
func TestErrorCodesAreDocumented(t *testing.T) {
	root := os.DirFS("../..")
	want := map[string]bool{}
	for _, dir := range []string{"internal/proxy", "internal/dialect", "internal/auth"} {
		for _, f := range load(t, root)[dir] {
			for _, code := range errorCodes(t, root, f.path) {
				want[code] = true
			}
		}
	}
	got := map[string]bool{}
	row := regexp.MustCompile("(?m)^\\| [45][0-9]{2} \\| `([a-z_]+)` \\|")
	for _, m := range row.FindAllStringSubmatch(string(readFile(t, root, "docs/http.md")), -1) {
		got[m[1]] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/http.md and the source name different codes (-source +page):\n%s", diff)
	}
}

func TestEveryStrategyHasItsPage(t *testing.T) {
	var names []string
	for _, name := range routing.Names() {
		names = append(names, strings.ReplaceAll(strings.ToLower(name), "_", "-"))
	}
	pages := loadPages(t, os.DirFS("../.."))
	report(t, pages.without("docs/strategies", names, strategyHeadings))
	for _, name := range routing.Names() {
		page := "docs/strategies/" + strings.ReplaceAll(strings.ToLower(name), "_", "-") + ".md"
		if want := "# Strategy: " + name + "\n"; !strings.HasPrefix(pages[page], want) {
			t.Errorf("%s does not begin with %q", page, want)
		}
	}
}

func TestEverySourceHasItsPage(t *testing.T) {
	root := os.DirFS("../..")
	guard := regexp.MustCompile(`_ Source = \(\*(\w+)\)\(nil\)`)
	var names []string
	for _, m := range guard.FindAllSubmatch(readFile(t, root, "internal/discovery/discovery.go"), -1) {
		names = append(names, strings.ToLower(string(m[1])))
	}
	report(t, loadPages(t, root).without("docs/sources", names, sourceHeadings))
}

func TestPageRulesBite(t *testing.T) {
	root := fstest.MapFS{}
	for name, text := range map[string]string{
		"README.md":      "[a](docs/a.md) [b](docs/none.md) [web](https://example.com/x)\n",
		"docs/README.md": "[a](a.md)\n",
		"docs/a.md":      "# A\n## One, `two`: three\n```\n[no](link.md)\n## no heading\n```\n[up](../README.md) [x](#one-two-three) [y](#four) [z](../docs)\n",
		"docs/b.md":      "# B\n[a](a.md#one-two-three) `[no](link.md)`\n",
		"tools/go.mod":   "module tools",
		"tools/c.md":     "[gone](gone.md)",
	} {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	pages := loadPages(t, root)
	tests := []struct {
		name      string
		got, want []string
	}{
		{"dead links", pages.deadLinks(), []string{"README.md: docs/none.md does not exist", "docs/a.md: #four is no heading of docs/a.md"}},
		{"index", pages.missingFrom("docs/README.md"), []string{"docs/README.md does not link to docs/b.md"}},
		{"pages", pages.without("docs", []string{"a", "c"}, []string{"One, `two`: three"}), []string{"docs/c.md: is missing"}},
		{"headings", pages.without("docs", []string{"b"}, []string{"One"}), []string{`docs/b.md: headings are [], want ["One"]`}},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// summary is what a package's comment says after its name.
func summary(files []file) string {
	for _, f := range files {
		if words := strings.Fields(f.comment); len(words) > 2 {
			return strings.Join(words[2:], " ")
		}
	}
	return ""
}

// errorCodes lists the texts that a file gives to fields called Code or code, and to constants whose names begin with Code.
func errorCodes(t *testing.T, root fs.FS, name string) (codes []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), name, readFile(t, root, name), 0)
	if err != nil {
		t.Fatal(err)
	}
	add := func(value ast.Expr) {
		if literal, ok := value.(*ast.BasicLit); ok {
			code, _ := strconv.Unquote(literal.Value) // the parser has checked it
			codes = append(codes, code)
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, named := n.Key.(*ast.Ident); named && strings.EqualFold(key.Name, "code") {
				add(n.Value)
			}
		case *ast.ValueSpec:
			if strings.HasPrefix(n.Names[0].Name, "Code") && len(n.Values) == 1 {
				add(n.Values[0])
			}
		}
		return true
	})
	return codes
}
