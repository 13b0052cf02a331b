package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAuth reads secrets from the file, from files beside it and from the environment.
func TestAuth(t *testing.T) {
	text := minimal + `
auth:
  keys:
    - {name: a, key_file: a.key, endpoints: [chat]}
    - {name: b, key: "${KEY}"}
  access_keys:
    - {name: c, id: AKIDEXAMPLE, secret_file: /run/c.secret, control_plane: true}
  region: eu-west-1
`
	read := func(path string) ([]byte, error) { return []byte("of " + path + "\n"), nil }
	cfg, err := Parse(filepath.Join("etc", "warmpath.yaml"), []byte(text), fakeEnv{"KEY": "of the environment"}.lookUp, read)
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join("etc", "a.key")
	want := &Auth{
		Keys: []APIKey{
			{Name: "a", Key: NewSecret("of " + key), KeyFile: key, Endpoints: []string{"chat"}},
			{Name: "b", Key: NewSecret("of the environment")},
		},
		AccessKeys: []AccessKey{{Name: "c", ID: "AKIDEXAMPLE", Secret: NewSecret("of /run/c.secret"), SecretFile: "/run/c.secret", ControlPlane: true}},
		Region:     "eu-west-1", ClockSkew: seconds(15 * 60),
	}
	if diff := cmp.Diff(want, cfg.Auth); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestEndpointsOfTheControlPlaneMayBeNamedBeforeTheyAreMade lets a key name an endpoint that is not in the file.
func TestEndpointsOfTheControlPlaneMayBeNamedBeforeTheyAreMade(t *testing.T) {
	const keys = "auth: {keys: [{name: a, key: k, endpoints: [made-later]}]}\n"
	if _, err := Parse("warmpath.yaml", []byte(minimal+keys), fakeEnv{}.lookUp, noFiles); err == nil {
		t.Error("an endpoint that cannot be is accepted")
	}
	cfg := parse(t, minimal+keys+"control_plane: {}\n", nil)
	if len(cfg.Warnings) != 1 || !strings.Contains(cfg.Warnings[0].Error(), "nobody may use the control plane") {
		t.Errorf("warnings are %v", cfg.Warnings)
	}
}
