package config

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//go:generate go test -run ^TestGenerated$ -update .

var update = flag.Bool("update", false, "write the generated and golden files instead of comparing them")

// TestGenerated holds the files made from the types against the types.
func TestGenerated(t *testing.T) {
	schema, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("..", "..", "docs", "reference")
	golden(t, filepath.Join(dir, "warmpath.schema.json"), schema)
	golden(t, filepath.Join(dir, "configuration.md"), referencePage(t))
}

// golden compares got with the file at path, or writes it with -update.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is stale; run `go test ./internal/config -update` (-file +now):\n%s", path, diff)
	}
}

const referenceHead = "# Configuration reference\n\n" +
	"<!-- Generated from internal/config/types.go by `go generate ./internal/config`. Do not edit. -->\n\n" +
	"One YAML document. [examples/full.yaml](../../examples/full.yaml) shows every key in place, and\n" +
	"[warmpath.schema.json](warmpath.schema.json) gives an editor completion and checks. `warmpath check -c FILE` says all\n" +
	"that is wrong with a file, each finding with its line and column.\n\n" +
	"- `${NAME}` in a value is the environment variable, `${NAME:-default}` has a default for when it is unset or empty, and\n" +
	"  `$$` is a dollar sign. Expansion comes after parsing: a variable can change a value, never the structure. Keys are not\n" +
	"  expanded.\n" +
	"- A *duration* has a unit: `250ms`, `10s`, `1h30m`. A *size* is bytes or has a unit: `64KiB` and `64MiB` are powers of\n" +
	"  1024, `1kB` and `1GB` powers of 1000.\n" +
	"- A key ending in `_file` reads a secret from a file, without the trailing line break. It cannot be combined with the key\n" +
	"  itself. Secrets never appear in logs, errors or dumps.\n" +
	"- Paths that are not absolute start at the directory of the configuration file.\n"

// referencePage is docs/reference/configuration.md: one table a type, in the order in which the file nests.
func referencePage(t *testing.T) []byte {
	t.Helper()
	descriptions, err := describe()
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	page.WriteString(referenceHead)
	writeSection(&page, descriptions, reflect.TypeFor[Config](), "")
	return page.Bytes()
}

func writeSection(page *bytes.Buffer, descriptions map[string]string, typ reflect.Type, path string) {
	title := "`" + path + "`"
	if path == "" {
		title = "The file"
	}
	fmt.Fprintf(page, "\n## %s\n\n%s\n\n", title, descriptions[typ.Name()])
	page.WriteString("| key | type | default | range | meaning |\n|---|---|---|---|---|\n")
	for _, f := range fieldsOf(typ) {
		fmt.Fprintf(page, "| `%s` | %s | %s | %s | %s |\n",
			f.key, typeText(f.typ), defaultText(f), rangeCell(f), descriptions[typ.Name()+"."+f.name])
	}
	for _, f := range fieldsOf(typ) {
		if inner, suffix := nested(f.typ); inner != nil {
			writeSection(page, descriptions, inner, strings.TrimPrefix(path+"."+f.key+suffix, "."))
		}
	}
}

// nested is the struct that values of typ consist of and how a path leads to it, nil where there is none.
func nested(typ reflect.Type) (reflect.Type, string) {
	suffix := ""
	switch typ.Kind() {
	case reflect.Map:
		typ, suffix = typ.Elem(), ".NAME"
	case reflect.Slice:
		typ, suffix = typ.Elem(), "[]"
	}
	return field{typ: typ}.structType(), suffix
}

func typeText(typ reflect.Type) string {
	switch typ {
	case reflect.TypeFor[Duration]():
		return "duration"
	case reflect.TypeFor[Bytes]():
		return "size"
	case reflect.TypeFor[Secret]():
		return "secret"
	}
	switch typ.Kind() {
	case reflect.Map:
		return "mapping of " + plural(typeText(typ.Elem()))
	case reflect.Slice:
		return "list of " + plural(typeText(typ.Elem()))
	case reflect.Struct, reflect.Pointer:
		return "mapping"
	}
	return map[reflect.Kind]string{
		reflect.Bool: "boolean", reflect.Int: "integer", reflect.Float64: "number", reflect.String: "string",
	}[typ.Kind()]
}

func plural(noun string) string { return noun + "s" }

func defaultText(f field) string {
	switch {
	case f.required:
		return "required"
	case f.initial == "":
		return "–"
	}
	return "`" + f.initial + "`"
}

func rangeCell(f field) string {
	switch {
	case len(f.choices) > 0:
		return "`" + strings.Join(f.choices, "`, `") + "`"
	case f.rangeText() != "":
		return f.rangeText()
	case f.typ.Kind() == reflect.Bool:
		return "`true`, `false`"
	}
	return "–"
}
