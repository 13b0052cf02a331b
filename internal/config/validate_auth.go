package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// idForm is that of an AWS access key id, without AWS's lower bound on its length.
var idForm = regexp.MustCompile(`^[A-Za-z0-9_]{1,128}$`)

// tokenPrefix begins SageMaker's bearer tokens, which are told from API keys by it.
const tokenPrefix = "sagemaker-api-key-"

// auth checks that somebody may call, and that nobody can be taken for somebody else.
func (r *report) auth(cfg *Config) {
	a := cfg.Auth
	if a == nil {
		return
	}
	if len(a.Keys)+len(a.AccessKeys) == 0 {
		r.errorf("auth", "names no key, so that nobody could call; add one to `keys` or `access_keys`, or remove `auth`")
	}
	if a.Region != "" && !regionForm.MatchString(a.Region) {
		r.errorf("auth.region", "%s is not a region; write one such as us-east-1", quoted(r.written("auth.region", a.Region)))
	}
	names, secrets, ids := owners{}, owners{}, owners{}
	for i, k := range a.Keys {
		at := index("auth.keys", i)
		r.keyName(k.Name, at, names)
		r.keyEndpoints(k.Endpoints, cfg, join(at, "endpoints"))
		r.apiKey(k, at, secrets)
	}
	for i, k := range a.AccessKeys {
		at := index("auth.access_keys", i)
		r.keyName(k.Name, at, names)
		r.keyEndpoints(k.Endpoints, cfg, join(at, "endpoints"))
		r.accessKey(k, at, ids)
	}
	if cfg.ControlPlane != nil && !slices.ContainsFunc(a.AccessKeys, func(k AccessKey) bool { return k.ControlPlane }) {
		r.warnf("control_plane", "nobody may use the control plane; give one of `auth.access_keys` `control_plane: true`, or remove it")
	}
}

// owners holds which path a value has been seen at first.
type owners map[string]string

// claim notes who has a value, and gives the path that had it before; "" if none had.
func (o owners) claim(value, path string) string {
	first, taken := o[value]
	if !taken {
		o[value] = path
	}
	return first
}

func (r *report) keyName(name, path string, names owners) {
	at := join(path, "name")
	if name == "" {
		r.errorf(at, "is missing; write what the key is to be called in metrics and logs")
		return
	}
	if first := names.claim(name, at); first != "" {
		r.errorf(at, "is the name of %s too; give each key its own", r.name(parent(first)))
	}
}

func (r *report) apiKey(k APIKey, path string, secrets owners) {
	at := join(path, "key")
	if k.KeyFile != "" {
		at = join(path, "key_file")
	}
	secret := k.Key.Reveal()
	switch {
	case secret == "" && k.KeyFile == "":
		r.errorf(at, "is missing; write the key, or the path of its file as `key_file`")
	case strings.HasPrefix(secret, tokenPrefix):
		r.errorf(at, "begins with %s, as SageMaker's bearer tokens do; choose another key", tokenPrefix)
	case secret != strings.TrimSpace(secret):
		r.errorf(at, "begins or ends with a space, which is lost in a header; remove it")
	case secret != "":
		if first := secrets.claim(secret, at); first != "" {
			r.errorf(at, "is the same key as %s; give each its own", r.name(parent(first)))
		}
	}
}

func (r *report) accessKey(k AccessKey, path string, ids owners) {
	if k.Secret.Reveal() == "" && k.SecretFile == "" {
		r.errorf(join(path, "secret"), "is missing; write the secret access key, or the path of its file as `secret_file`")
	}
	at := join(path, "id")
	switch {
	case k.ID == "":
		r.errorf(at, "is missing; write the access key id")
	case !idForm.MatchString(k.ID):
		r.errorf(at, "is not an access key id; write letters, digits and underscores, such as AKIDEXAMPLE")
	default:
		if first := ids.claim(k.ID, at); first != "" {
			r.errorf(at, "is the id of %s too; give each its own", r.name(parent(first)))
		}
	}
}

// keyEndpoints checks the endpoints that a key may use. With a control plane they may be made later.
func (r *report) keyEndpoints(endpoints []string, cfg *Config, path string) {
	if endpoints != nil && len(endpoints) == 0 {
		r.errorf(path, "is empty, so that the key could use none; list some, or remove it for all")
	}
	for i, name := range endpoints {
		at := index(path, i)
		if _, exists := cfg.Endpoints[name]; exists || cfg.ControlPlane != nil && name != "" {
			continue
		}
		r.errorf(at, "there is no endpoint %s; %s", quoted(r.written(at, name)), r.suggestion(at, name, slices.Sorted(maps.Keys(cfg.Endpoints))))
	}
}
