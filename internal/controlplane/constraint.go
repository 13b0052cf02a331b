package controlplane

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// patterns are the forms of names, as SageMaker's API reference has them.
var patterns = map[string]*regexp.Regexp{
	"name":     regexp.MustCompile(`^[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}$`),
	"model":    regexp.MustCompile(`^[a-zA-Z0-9]([\-a-zA-Z0-9]*[a-zA-Z0-9])?$`),
	"contains": regexp.MustCompile(`^[a-zA-Z0-9\-]+$`),
	"arn":      regexp.MustCompile(`^arn:.*$`),
	"tag":      regexp.MustCompile(`^([\p{L}\p{Z}\p{N}_.:/=+\-@]*)$`),
}

// ruled is a shape with rules between its members. path ends with a dot where it is not empty.
type ruled interface {
	violations(path string) []string
}

// check holds an input to the constraints in its field tags: required, length=1..63 (of text and lists), range=1..1024, match=NAME
// of patterns, enum=A|B; an open end is left out. Everything that is wrong is in one ValidationException, worded as AWS does.
func check(in any) error {
	found := inspect(reflect.ValueOf(in).Elem(), "")
	if len(found) == 0 {
		return nil
	}
	plural := "s"
	if len(found) == 1 {
		plural = ""
	}
	return invalid("%d validation error%s detected: %s", len(found), plural, strings.Join(found, "; "))
}

// inspect lists the violations in the struct v, and in those that it holds.
func inspect(v reflect.Value, path string) (found []string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			found = append(found, inspect(v.Field(i), path)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := path + strings.ToLower(name[:1]) + name[1:]
		found = append(found, inspectMember(v.Field(i), f.Tag.Get("check"), at)...)
	}
	if !v.CanInterface() { // embedded: its rules are those of the struct around it
		return found
	}
	if r, ok := v.Interface().(ruled); ok {
		found = append(found, r.violations(path)...)
	}
	return found
}

// inspectMember lists the violations of one value: its own, then those of what it holds.
func inspectMember(v reflect.Value, tag, at string) (found []string) {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	} else if v.IsZero() { // absent; an empty text says no more
		if strings.HasPrefix(tag, "required") {
			found = append(found, violation("null", at, "not be null"))
		}
		return found
	}
	for constraint := range strings.SplitSeq(tag, ",") {
		if member := breach(v, constraint); member != "" {
			found = append(found, violation(quote(v), at, member))
		}
	}
	switch {
	case v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[instant]():
		return append(found, inspect(v, at+".")...)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		for i := range v.Len() {
			found = append(found, inspect(v.Index(i), fmt.Sprintf("%s.%d.member.", at, i+1))...)
		}
	}
	return found
}

// breach says what the member must be, "" if it is.
func breach(v reflect.Value, constraint string) string {
	kind, argument, _ := strings.Cut(constraint, "=")
	switch kind {
	case "length":
		n := v.Len()
		if v.Kind() == reflect.String {
			n = utf8.RuneCountInString(v.String())
		}
		return outside(float64(n), argument, "length")
	case "range":
		return outside(numberOf(v), argument, "value")
	case "match":
		if p := patterns[argument]; !p.MatchString(v.String()) {
			return "satisfy regular expression pattern: " + strings.Trim(p.String(), "^$")
		}
	case "enum":
		for choice := range strings.SplitSeq(argument, "|") {
			if choice == v.String() {
				return ""
			}
		}
		return "satisfy enum value set: [" + strings.ReplaceAll(argument, "|", ", ") + "]"
	}
	return ""
}

// outside says which end of the range LEAST..MOST n is beyond, "" for none.
func outside(n float64, span, what string) string {
	least, most, _ := strings.Cut(span, "..")
	if bound, err := strconv.ParseFloat(least, 64); err == nil && n < bound {
		return fmt.Sprintf("have %s greater than or equal to %s", what, least)
	}
	if bound, err := strconv.ParseFloat(most, 64); err == nil && n > bound {
		return fmt.Sprintf("have %s less than or equal to %s", what, most)
	}
	return ""
}

func numberOf(v reflect.Value) float64 {
	if v.CanInt() {
		return float64(v.Int())
	}
	return v.Float()
}

// violation is one entry of a ValidationException.
func violation(value, at, must string) string {
	return fmt.Sprintf("Value %s at '%s' failed to satisfy constraint: Member must %s", value, at, must)
}

func quote(v reflect.Value) string {
	if v.Kind() == reflect.Slice {
		return fmt.Sprintf("'[%d members]'", v.Len())
	}
	return "'" + clip(fmt.Sprint(v.Interface())) + "'"
}

// given says whether a member that is passed on unread holds anything.
func given(v jsontext.Value) bool { return len(v) > 0 && v.Kind() != 'n' }
