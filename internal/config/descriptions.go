package config

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"unicode"
)

// typesSource is embedded because the comments in it are the descriptions of the keys: said once, they cannot disagree.
//
//go:embed types.go
var typesSource string

// describe returns the description of each type ("Pool") and field ("Pool.Engine").
func describe() (map[string]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "types.go", typesSource, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("embedded types: %w", err)
	}
	descriptions := map[string]string{}
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.TYPE {
			continue
		}
		for _, spec := range general.Specs {
			describeType(descriptions, spec.(*ast.TypeSpec), general.Doc)
		}
	}
	return descriptions, nil
}

func describeType(descriptions map[string]string, spec *ast.TypeSpec, doc *ast.CommentGroup) {
	name := spec.Name.Name
	descriptions[name] = sentence(name, doc.Text())
	fields, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range fields.Fields.List {
		for _, ident := range f.Names {
			descriptions[name+"."+ident.Name] = sentence(ident.Name, f.Doc.Text())
		}
	}
}

// sentence turns a Go comment, "Listen is the address", into a description of a key: "The address".
func sentence(name, comment string) string {
	text := strings.Join(strings.Fields(comment), " ")
	for _, subject := range []string{name + " is ", name + " are ", name + " "} {
		if rest, ok := strings.CutPrefix(text, subject); ok {
			text = rest
			break
		}
	}
	first := []rune(text)
	if len(first) > 0 {
		first[0] = unicode.ToUpper(first[0])
	}
	return string(first)
}
