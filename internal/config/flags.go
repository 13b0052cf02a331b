package config

import (
	"cmp"
	"reflect"
)

// Flags are the settings that the command line can give. A zero value is a flag not given.
type Flags struct {
	// Listen and AdminListen are HOST:PORT: --listen and --admin-listen.
	Listen, AdminListen string
	// Replicas are base URLs: --replica, which repeats.
	Replicas []string
	// Engine is --engine, what the replicas run.
	Engine string
	// Strategy is --strategy.
	Strategy string
	// PrefixLength is --prefix-length, in bytes or characters.
	PrefixLength int
	// ConcurrencyThreshold is --concurrency-threshold, in requests.
	ConcurrencyThreshold int
}

// flagNames are the flags of `warmpath serve`, by the key path they stand for.
var flagNames = map[string]string{
	"data.listen":                          "--listen",
	"admin.listen":                         "--admin-listen",
	"pools.default":                        "--replica",
	"pools.default.static":                 "--replica",
	"pools.default.engine":                 "--engine",
	routingPath + ".strategy":              "--strategy",
	routingPath + ".prefix_length":         "--prefix-length",
	routingPath + ".concurrency_threshold": "--concurrency-threshold",
}

// routingPath is where FromFlags puts the strategy.
const routingPath = "endpoints.default.variants[0].routing"

// FromFlags is the configuration without a file: one pool, one endpoint that answers to any model and one variant, all
// named default. The error is an Errors whose paths are flags.
func FromFlags(f Flags) (*Config, error) {
	pool := newWithDefaults[Pool]()
	pool.Static = f.Replicas
	pool.Engine = cmp.Or(f.Engine, pool.Engine)
	variant := newWithDefaults[Variant]()
	variant.Name, variant.Pool = "default", "default"
	variant.Routing.Strategy = cmp.Or(f.Strategy, variant.Routing.Strategy)
	variant.Routing.PrefixLength = f.PrefixLength
	variant.Routing.ConcurrencyThreshold = f.ConcurrencyThreshold
	endpoint := newWithDefaults[Endpoint]()
	endpoint.Variants = []Variant{variant}

	cfg := Default()
	cfg.Pools = map[string]Pool{"default": pool}
	cfg.Endpoints = map[string]Endpoint{"default": endpoint}
	r := flagReport()
	if len(f.Replicas) == 0 {
		r.errorf("pools.default", "is missing; give the address of each engine, such as --replica http://127.0.0.1:8000")
	}
	if err := cfg.validateFlags(f, r); err != nil {
		return nil, err
	}
	return cfg, nil
}

// Override replaces the listen addresses of a configuration from a file by those of the flags. The other flags describe
// what the file describes too: given together they are an error, and so is an address that is not valid.
func (c *Config) Override(f Flags) error {
	var both Errors
	for flag, given := range map[string]bool{
		"--replica":               len(f.Replicas) > 0,
		"--engine":                f.Engine != "",
		"--strategy":              f.Strategy != "",
		"--prefix-length":         f.PrefixLength != 0,
		"--concurrency-threshold": f.ConcurrencyThreshold != 0,
	} {
		if given {
			both = append(both, &Error{Path: flag, Message: "cannot be combined with a configuration file; put it into the file, or leave the file out"})
		}
	}
	if len(both) > 0 {
		both.sort()
		return both
	}
	return c.validateFlags(f, flagReport())
}

// validateFlags sets the listen addresses that were given and validates the whole, in terms of flags.
func (c *Config) validateFlags(f Flags, r *report) error {
	c.Data.Listen = cmp.Or(f.Listen, c.Data.Listen)
	c.Admin.Listen = cmp.Or(f.AdminListen, c.Admin.Listen)
	validate(c, r)
	return r.result()
}

// flagReport is a report that speaks of flags instead of key paths.
func flagReport() *report {
	r := newReport("")
	r.rename = flagNames
	return r
}

// newWithDefaults returns a T with the defaults of its tags.
func newWithDefaults[T any]() T {
	var value T
	setDefaults(reflect.ValueOf(&value).Elem())
	return value
}
