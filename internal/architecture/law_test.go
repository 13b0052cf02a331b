// Package architecture holds the laws of the source tree: who may import whom, and how packages are written.
package architecture

import (
	"maps"
	"os"
	"slices"
	"testing"
)

// serving is where the serving path begins: everything it reaches runs in production.
var serving = []string{"internal/router", "internal/proxy"}

// laboratory are the packages that imitate, load or model a fleet. They must never add to what a production process runs.
var laboratory = []string{"internal/emulator", "internal/simulate", "internal/bench", "internal/report", "internal/tune", "internal/workload", "internal/demo"}

// laws are the import rules of docs/ARCHITECTURE.md.
var laws = []law{
	{
		of:     "internal/routing",
		may:    []string{"internal/fleet", "internal/kvindex", "internal/prompt"},
		never:  []string{"net/http"},
		reason: "a strategy decides from facts alone, so that the simulator, explain and a test run the same code",
	},
	{
		of:     "internal/fleet",
		may:    []string{"internal/address"},
		reason: "everything stands on the fleet, so it stands on nothing of ours but the form of an address",
	},
	{
		of:     "internal/prompt",
		may:    []string{},
		never:  []string{"net/http"},
		reason: "what a prompt is does not depend on who carries it",
	},
	{
		of:     "internal/auth",
		may:    []string{},
		reason: "who calls does not depend on what is called, so that every listener can ask",
	},
	{
		of:     "internal/discovery",
		may:    []string{"internal/address", "internal/fleet", "internal/filewatch"},
		reason: "a source is built from its own options and can be used without the configuration file",
	},
	{
		of:     "internal/config",
		may:    []string{"internal/address", "internal/filewatch", "internal/suggest"},
		reason: "configuration is data: what it configures imports nothing back through it",
	},
	{
		of:     "internal/controlplane",
		may:    []string{"internal/auth", "internal/config"},
		reason: "what was made by API is configuration too: the router puts it into use, as it does the file's",
	},
}

// importers names the only packages that may import a package; tests may import anything.
var importers = map[string][]string{
	"internal/proxy":  {"internal/router", "cmd"},
	"internal/router": {"cmd", "internal/demo"},

	"internal/controlplane": {"internal/router", "cmd"},
}

// maxFileLines bounds a file that is not a test: more than this is more than one subject.
const maxFileLines = 400

// maxDepth is how many folders a package may lie below internal/.
const maxDepth = 2

// forbiddenNames say nothing about what is inside.
var forbiddenNames = []string{"utils", "util", "common", "helpers", "helper", "misc", "manager", "pkg"}

func TestImportLaws(t *testing.T) {
	tree := load(t, os.DirFS("../.."))
	report(t, tree.breaches(laws))
	report(t, tree.strangers(importers))
}

// A law about a package that was renamed would hold nothing.
func TestLawsNameRealPackages(t *testing.T) {
	tree := load(t, os.DirFS("../.."))
	named := slices.Concat(serving, slices.Collect(maps.Keys(importers)))
	for _, l := range laws {
		named = append(named, l.of)
	}
	for _, dir := range named {
		if _, exists := tree[dir]; !exists {
			t.Errorf("%s: named by a law, but there is no such package", dir)
		}
	}
}

func TestServingPathIsFreeOfTheLaboratory(t *testing.T) {
	tree := load(t, os.DirFS("../.."))
	report(t, tree.reaches(serving, laboratory))
}

func TestPackageComments(t *testing.T) {
	report(t, load(t, os.DirFS("../..")).comments())
}

func TestPackageNamesAndPlaces(t *testing.T) {
	report(t, load(t, os.DirFS("../..")).misnamed(forbiddenNames, maxDepth))
}

func TestFileLengths(t *testing.T) {
	report(t, load(t, os.DirFS("../..")).longFiles(maxFileLines))
}

func report(t *testing.T, findings []string) {
	t.Helper()
	for _, finding := range findings {
		t.Error(finding)
	}
}
