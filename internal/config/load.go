package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
)

// Default returns a configuration with every default and no pools or endpoints.
func Default() *Config {
	cfg := &Config{}
	setDefaults(reflect.ValueOf(cfg).Elem())
	return cfg
}

// Load reads, expands and validates the configuration file at path. env looks up environment variables (os.LookupEnv).
// The error is an Errors with everything that is wrong.
func Load(path string, env func(string) (string, bool)) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, Errors{{File: path, Message: "cannot be read: " + fileProblem(err)}}
	}
	return Parse(path, data, env, os.ReadFile)
}

// Parse is Load for a file whose content is at hand. name stands in error messages, and relative paths in the file start
// at its directory; readFile reads the files that the configuration names. The error is an Errors.
func Parse(name string, data []byte, env func(string) (string, bool), readFile func(string) ([]byte, error)) (*Config, error) {
	d := &decoder{report: newReport(name), env: env}
	d.places[""] = place{line: 1, column: 1}
	cfg := Default()
	if top := d.document(data); top != nil {
		d.value(top, reflect.ValueOf(cfg).Elem(), "")
		files := fileReader{d.report, filepath.Dir(name), readFile}
		files.resolve(cfg)
		if !d.failed[""] && d.nodes <= maxNodes {
			validate(cfg, d.report)
		}
	}
	if err := d.result(); err != nil {
		return nil, err
	}
	cfg.Warnings = d.warnings
	return cfg, nil
}

// fileReader resolves the paths that a configuration names.
type fileReader struct {
	*report
	dir  string
	read func(string) ([]byte, error)
}

// resolve makes paths absolute or relative to the working directory, and reads secrets.
func (r fileReader) resolve(cfg *Config) {
	for name, pool := range cfg.Pools {
		path := join("pools", name)
		if pool.File != "" {
			pool.File = r.locate(pool.File)
			if _, err := r.read(pool.File); err != nil {
				r.warnf(join(path, "file"), "cannot be read yet: %s; the pool is empty until it can", fileProblem(err))
			}
		}
		if pool.APIKeyFile != "" {
			pool.APIKeyFile = r.locate(pool.APIKeyFile)
			r.secret(&pool.APIKey, pool.APIKeyFile, path, "api_key")
		}
		cfg.Pools[name] = pool
	}
	for _, endpoint := range cfg.Endpoints {
		if record := endpoint.Record; record != nil && record.File != "" {
			record.File = r.locate(record.File)
		}
	}
	if cfg.Auth != nil {
		r.keys(cfg.Auth)
	}
	if control := cfg.ControlPlane; control != nil && control.StateFile != "" {
		control.StateFile = r.locate(control.StateFile)
	}
}

// keys reads the secrets of those who may call.
func (r fileReader) keys(a *Auth) {
	for i := range a.Keys {
		if k := &a.Keys[i]; k.KeyFile != "" {
			k.KeyFile = r.locate(k.KeyFile)
			r.secret(&k.Key, k.KeyFile, index("auth.keys", i), "key")
		}
	}
	for i := range a.AccessKeys {
		if k := &a.AccessKeys[i]; k.SecretFile != "" {
			k.SecretFile = r.locate(k.SecretFile)
			r.secret(&k.Secret, k.SecretFile, index("auth.access_keys", i), "secret")
		}
	}
}

// locate finds a path of the file: relative ones start at the file's directory.
func (r fileReader) locate(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(r.dir, path)
}

// secret reads the file that the key `key`_file names. One trailing line break is not part of the secret.
func (r fileReader) secret(into *Secret, file, path, key string) {
	at := join(path, key+"_file")
	if r.isSet(join(path, key)) {
		r.errorf(at, "is given together with `%s`; keep one", key)
		return
	}
	data, err := r.read(file)
	if err != nil {
		r.errorf(at, "cannot be read: %s", fileProblem(err))
		return
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if text == "" {
		r.errorf(at, "names an empty file; write the key into it, or remove `%s_file`", key)
		return
	}
	if err := into.UnmarshalText([]byte(text)); err != nil {
		r.errorf(at, "names a file that %v", err)
	}
}

// fileProblem is the cause of a file error without its path, which may come from the environment, and what to do.
func fileProblem(err error) string {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "there is no such file; check the path"
	case errors.Is(err, os.ErrPermission):
		return "permission denied; let the user that runs Warmpath read it"
	}
	var problem *os.PathError
	if errors.As(err, &problem) {
		err = problem.Err
	}
	return err.Error()
}
