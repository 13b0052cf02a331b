package config

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
)

// block is a configuration in a page of the documentation.
var block = regexp.MustCompile("(?ms)^```yaml\n(# warmpath\\.yaml.*?)^```")

// TestExamples parses every example, and every block of the documentation that begins with "# warmpath.yaml", and checks
// it against the schema.
func TestExamples(t *testing.T) {
	schema := compileSchema(t)
	seen := 0
	for name, text := range examples(t) {
		seen++
		t.Run(name, func(t *testing.T) {
			cfg, err := Parse(name, []byte(text), fakeEnv{}.lookUp, func(path string) ([]byte, error) { return []byte("key of " + path), nil })
			if err != nil {
				t.Error(err)
			} else if len(cfg.Warnings) > 0 {
				t.Error(cfg.Warnings)
			}
			if err := conforms(schema, text); err != nil {
				t.Error(err)
			}
		})
	}
	if seen < 6 {
		t.Errorf("found %d examples, want at least those in examples/", seen)
	}
}

// examples returns the configurations of the repository by file, blocks of pages with their offset.
func examples(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	root := filepath.Join("..", "..")
	visit := func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name := strings.TrimPrefix(path, root+string(filepath.Separator))
		switch {
		case err != nil:
			return err
		case filepath.Ext(path) == ".yaml" && bytes.HasPrefix(data, []byte("# warmpath.yaml")):
			found[name] = string(data)
		case filepath.Ext(path) == ".md":
			for _, m := range block.FindAllSubmatchIndex(data, -1) {
				line := 1 + bytes.Count(data[:m[2]], []byte("\n"))
				found[index(name, line)] = string(data[m[2]:m[3]])
			}
		}
		return nil
	}
	for _, place := range []string{"README.md", "docs", "examples", "deploy"} {
		err := filepath.WalkDir(filepath.Join(root, place), visit)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return found
}

// TestFullExampleShowsEveryKey holds examples/full.yaml to what its first line says.
func TestFullExampleShowsEveryKey(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "examples", "full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var visit func(typ reflect.Type)
	visit = func(typ reflect.Type) {
		for _, f := range fieldsOf(typ) {
			if !regexp.MustCompile(`(?m)^[^#]*\b` + f.key + `:`).Match(text) {
				t.Errorf("key %s of %s is not in it", f.key, typ.Name())
			}
			if inner, _ := nested(f.typ); inner != nil {
				visit(inner)
			}
		}
	}
	visit(reflect.TypeFor[Config]())
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	data, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("warmpath.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("warmpath.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// conforms checks YAML text against the schema.
func conforms(schema *jsonschema.Schema, text string) error {
	var value any
	if err := yaml.Load([]byte(text), &value); err != nil {
		return err
	}
	asJSON, err := json.Marshal(value)
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		return err
	}
	return schema.Validate(doc)
}

func TestSchemaRefuses(t *testing.T) {
	schema := compileSchema(t)
	if err := conforms(schema, minimal); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, old, new string }{
		{"unknown key", "static:", "statik:"},
		{"no source", `static: ["http://127.0.0.1:8000"]`, "engine: vllm"},
		{"two sources", "static:", "file: x, static:"},
		{"engine", "static:", "engine: vlm, static:"},
		{"duration", "static:", "slow_start: 10, static:"},
		{"range", "variants:", "retry: {max_attempts: 11}, variants:"},
		{"no pool", "{pool: engines}", "{name: x}"},
		{"strategy", "{pool: engines}", "{pool: engines, routing: {strategy: random}}"},
		{"knobs missing", "{pool: engines}", "{pool: engines, routing: {strategy: PREFIX_AWARE}}"},
		{"nobody may call", "pools:", "auth: {region: us-east-1}\npools:"},
		{"key without a key", "pools:", "auth: {keys: [{name: a}]}\npools:"},
		{"key with two", "pools:", "auth: {keys: [{name: a, key: k, key_file: f}]}\npools:"},
		{"access key without an id", "pools:", "auth: {access_keys: [{name: a, secret: s}]}\npools:"},
		{"size", "pools:", "data: {max_body: 64XB}\npools:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := strings.Replace(minimal, tc.old, tc.new, 1)
			if err := conforms(schema, text); err == nil {
				t.Errorf("the schema accepts %s", text)
			}
			if _, err := Parse("x", []byte(text), fakeEnv{}.lookUp, noFiles); err == nil {
				t.Errorf("Parse accepts %s", text)
			}
		})
	}
}
