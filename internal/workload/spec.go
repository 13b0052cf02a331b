package workload

import (
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/internal/suggest"
)

// Option is a setting of a generator, as a specification gives it.
type Option struct {
	Name, Meaning     string
	Default, Min, Max float64
	Fraction          bool // the value need not be a whole number
}

// Generator makes workloads from options.
type Generator struct {
	Name, Meaning string
	Options       []Option
	build         func(settings, Shape) iter.Seq[Request]
}

// settings are the values of all options of a generator.
type settings map[string]float64

func (s settings) int(name string) int { return int(s[name]) }

// rounds is how often so many requests must be made to have at least the number that was asked for.
func (s settings) rounds(requests int) int { return (s.int("requests") + requests - 1) / requests }

// Parse returns the generator that a specification NAME[:option=value,...] describes, such as rag:documents=32,rate=2.5. Equal
// specifications and seeds give equal requests. The error says what can be written instead.
func Parse(spec string, seed uint64) (Workload, error) {
	name, list, hasOptions := strings.Cut(spec, ":")
	g, err := generatorOf(name)
	if err != nil {
		return nil, err
	}
	given := settings{}
	if hasOptions {
		if given, err = g.parse(list); err != nil {
			return nil, fmt.Errorf("workload %s: %w", name, err)
		}
	}
	for _, o := range g.Options {
		if _, ok := given[o.Name]; !ok {
			given[o.Name] = o.Default
		}
	}
	shape := Shape{Seed: seed, Rate: given["rate"], AnswerTokens: given.int("output")}
	return Limit(&generated{spec, given.int("requests"), g.build(given, shape)}, given.int("requests")), nil
}

func generatorOf(name string) (*Generator, error) {
	var names []string
	for i := range generators {
		if generators[i].Name == name {
			return &generators[i], nil
		}
		names = append(names, generators[i].Name)
	}
	return nil, fmt.Errorf("workload: %q is not known%s; there are %s", name, didYouMean(name, names), strings.Join(names, ", "))
}

func didYouMean(word string, choices []string) string {
	if meant := suggest.Closest(word, choices); meant != "" {
		return "; did you mean " + meant + "?"
	}
	return ""
}

func (g *Generator) parse(list string) (settings, error) {
	given := settings{}
	for pair := range strings.SplitSeq(list, ",") {
		name, text, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("%q is no option; write option=value, separated by commas; %s", pair, g.list())
		}
		o, err := g.option(name)
		if err != nil {
			return nil, err
		}
		if _, twice := given[name]; twice {
			return nil, fmt.Errorf("%s: is given twice", name)
		}
		if given[name], err = o.parse(text); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return given, nil
}

func (g *Generator) option(name string) (*Option, error) {
	var names []string
	for i := range g.Options {
		if g.Options[i].Name == name {
			return &g.Options[i], nil
		}
		names = append(names, g.Options[i].Name)
	}
	return nil, fmt.Errorf("%q is no option%s; %s", name, didYouMean(name, names), g.list())
}

// list names all options with their defaults.
func (g *Generator) list() string {
	var list []string
	for _, o := range g.Options {
		list = append(list, fmt.Sprintf("%s=%v", o.Name, o.Default))
	}
	return "the options and their defaults are " + strings.Join(list, ", ")
}

func (o *Option) parse(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(v):
		return 0, fmt.Errorf("%q is not a number", text)
	case v < o.Min || v > o.Max:
		return 0, fmt.Errorf("%s is out of range; use %s to %s", text, plain(o.Min), plain(o.Max))
	case !o.Fraction && v != math.Trunc(v):
		return 0, fmt.Errorf("%s is not a whole number", text)
	}
	return v, nil
}

func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// generated is what a generator makes of a specification.
type generated struct {
	spec     string
	length   int
	requests iter.Seq[Request]
}

func (w *generated) Name() string                { return w.spec }
func (w *generated) Requests() iter.Seq[Request] { return w.requests }
func (w *generated) Err() error                  { return nil }
func (w *generated) Len() int                    { return w.length }
