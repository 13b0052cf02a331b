package config

import (
	"fmt"
	"reflect"
	"slices"
)

// constraints checks every value below v against the choices and ranges of its struct tags.
func (r *report) constraints(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			r.constraints(v.Elem(), path)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			r.constraints(v.MapIndex(key), join(path, key.String()))
		}
	case reflect.Slice:
		for i := range v.Len() {
			r.constraints(v.Index(i), index(path, i))
		}
	case reflect.Struct:
		if isText(v.Type()) {
			return
		}
		for _, f := range fieldsOf(v.Type()) {
			r.constraint(v, f, join(path, f.key))
			r.constraints(v.FieldByIndex(f.index), join(path, f.key))
		}
	}
}

// constraint checks one field of the struct v. A zero without a default is a key left out.
func (r *report) constraint(v reflect.Value, f field, path string) {
	value := v.FieldByIndex(f.index)
	if value.IsZero() && f.initial == "" && !r.isSet(path) {
		return
	}
	if len(f.choices) > 0 && !slices.Contains(f.choices, value.String()) {
		r.errorf(path, "%s is not a known %s; %s", quoted(r.written(path, value)), f.key, r.suggestion(path, value.String(), f.choices))
		return
	}
	bound, high := "", false
	switch {
	case f.least != "" && compareText(value, f.least) < 0:
		bound = f.least
	case f.most != "" && compareText(value, f.most) > 0:
		bound, high = f.most, true
	default:
		return
	}
	written := r.written(path, value)
	if v.Type() == reflect.TypeFor[Routing]() {
		r.errorf(path, "%s", sageMakerRange(written, r.name(path), bound, high))
		return
	}
	r.errorf(path, "%s is out of range; write %s", quoted(written), f.rangeText())
}

// sageMakerRange words a value out of range as SageMaker's ValidationException does, so that scripts written for one
// understand the other.
func sageMakerRange(value, path, bound string, high bool) string {
	comparison := "greater"
	if high {
		comparison = "less"
	}
	return fmt.Sprintf("Value '%s' at '%s' failed to satisfy constraint: Member must have value %s than or equal to %s",
		clip(value), path, comparison, bound)
}

// rangeText is the field's range in words, "" where any value goes.
func (f field) rangeText() string {
	switch {
	case f.least != "" && f.most != "":
		return f.least + " to " + f.most
	case f.least != "":
		return "at least " + f.least
	}
	return ""
}

// suggestion is didYouMean for a value of the file. A value from the environment is not compared: the closest choice
// would tell what it is.
func (r *report) suggestion(path, value string, choices []string) string {
	if r.written(path, value) != value {
		value = ""
	}
	return didYouMean(value, choices)
}

// compareText compares the number v with one of the same type, written as in a struct tag.
func compareText(v reflect.Value, text string) int {
	bound := reflect.New(v.Type()).Elem()
	mustSet(bound, text)
	switch {
	case v.CanFloat() && v.Float() < bound.Float(), v.CanInt() && v.Int() < bound.Int():
		return -1
	case v.CanFloat() && v.Float() > bound.Float(), v.CanInt() && v.Int() > bound.Int():
		return 1
	}
	return 0
}
