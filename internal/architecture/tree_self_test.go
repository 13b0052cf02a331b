package architecture

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// sources builds a tree of Go files from their text.
func sources(files map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for name, text := range files {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

func TestLawsBite(t *testing.T) {
	root := sources(map[string]string{
		"internal/routing/a.go":      "package routing\nimport (\n\"net/http\"\n\"github.com/warmpath/warmpath/internal/proxy\"\n\"github.com/warmpath/warmpath/internal/fleet\"\n)",
		"internal/routing/a_test.go": "package routing\nimport \"github.com/warmpath/warmpath/internal/config\"",
		"internal/proxy/p.go":        "package proxy\nimport \"github.com/warmpath/warmpath/internal/bridge\"",
		"internal/bridge/b.go":       "package bridge\nimport \"github.com/warmpath/warmpath/internal/emulator\"",
		"internal/emulator/e.go":     "package emulator",
		"internal/fleet/f.go":        "package fleet\nimport \"github.com/warmpath/warmpath/internal/config\"",
		"internal/config/c.go":       "package config",
		"cmd/warmpath/main.go":       "package main\nimport \"github.com/warmpath/warmpath/internal/proxy\"",
		"tools/go.mod":               "module tools",
		"tools/tool.go":              "package tools\nimport \"github.com/warmpath/warmpath/internal/proxy\"",
	})
	tree := load(t, root)
	tests := []struct {
		name      string
		got, want []string
	}{
		{"breaches", tree.breaches([]law{
			{of: "internal/routing", may: []string{"internal/fleet"}, never: []string{"net/http"}, reason: "r"},
			{of: "internal/fleet", may: []string{}, reason: "f"},
		}), []string{
			"internal/routing/a.go imports net/http: r",
			"internal/routing/a.go imports internal/proxy: r",
			"internal/fleet/f.go imports internal/config: f",
		}},
		{"strangers", tree.strangers(map[string][]string{"internal/proxy": {"cmd", "internal/router"}}), []string{
			"internal/routing/a.go imports internal/proxy: only cmd, internal/router may",
		}},
		{"reaches", tree.reaches([]string{"internal/proxy"}, []string{"internal/emulator"}), []string{
			"the serving path reaches the laboratory: internal/proxy -> internal/bridge -> internal/emulator",
		}},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestCommentRule(t *testing.T) {
	tests := []struct {
		name    string
		files   map[string]string
		finding string
	}{
		{"good", map[string]string{"a/x.go": "// Package a does one thing,\n// and does it well.\npackage a"}, ""},
		{"good command", map[string]string{"cmd/warmpath/main.go": "// Command warmpath balances load.\npackage main"}, ""},
		{"none", map[string]string{"a/x.go": "package a"}, "0 package comments"},
		{"two", map[string]string{"a/x.go": "// Package a is.\npackage a", "a/y.go": "// Package a is.\npackage a"}, "2 package comments"},
		{"two sentences", map[string]string{"a/x.go": "// Package a is. It was.\npackage a"}, "one sentence"},
		{"no full stop", map[string]string{"a/x.go": "// Package a is\npackage a"}, "one sentence"},
		{"wrong name", map[string]string{"a/x.go": "// Package b is.\npackage a"}, `begin with "Package a "`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := strings.Join(load(t, sources(test.files)).comments(), "\n")
			if (test.finding == "") != (got == "") || !strings.Contains(got, test.finding) {
				t.Errorf("got %q, want %q", got, test.finding)
			}
		})
	}
}

func TestNameAndLengthRules(t *testing.T) {
	tree := load(t, sources(map[string]string{
		"internal/utils/u.go": "package utils",
		"internal/a/b/c/d.go": "package c\n\n\n",
	}))
	want := []string{
		"internal/a/b/c: more than 2 folders below internal",
		`internal/utils: "utils" does not say what is inside`,
		"internal/a/b/c/d.go: 3 lines, at most 2",
	}
	if diff := cmp.Diff(want, append(tree.misnamed([]string{"utils"}, 2), tree.longFiles(2)...)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
