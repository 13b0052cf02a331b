package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWith(t *testing.T) {
	file := parse(t, "pools: {p: {static: [http://a:1]}}\nendpoints: {chat: {variants: [{pool: p}]}}\ncontrol_plane: {}\n", nil)
	uses := func(pool string) Endpoint { return Endpoint{Variants: []Variant{{Name: "v", Pool: pool, Weight: 1}}} }
	shadowed := uses("p")
	shadowed.ShadowVariants = []ShadowVariant{{Name: "s", Pool: "q"}}
	hosts := Endpoint{Variants: []Variant{{Name: "v", Weight: 1}}, InferenceComponents: []InferenceComponent{{Name: "ic", Pool: "q", Variant: "v"}}}
	tests := []struct {
		name string
		made map[string]Endpoint
		want []string // endpoints, or errors
	}{
		{"nothing", nil, []string{"chat"}},
		{"another", map[string]Endpoint{"made": uses("p")}, []string{"chat", "made"}},
		{"a name that is only held", map[string]Endpoint{"made": {}}, []string{"chat"}},
		{"the same name", map[string]Endpoint{"Chat": {}},
			[]string{"endpoints.chat: the control plane has an endpoint of this name; rename this one, or delete that one by API first"}},
		{"a pool that is gone", map[string]Endpoint{"made": uses("q")},
			[]string{"pools.q: is missing; endpoint \"made\", made by API, uses it in variant \"v\": keep the pool, or delete the endpoint by API first"}},
		{"a shadow's pool that is gone", map[string]Endpoint{"made": shadowed},
			[]string{"pools.q: is missing; endpoint \"made\", made by API, uses it in variant \"s\": keep the pool, or delete the endpoint by API first"}},
		{"a component's pool that is gone", map[string]Endpoint{"made": hosts},
			[]string{"pools.q: is missing; endpoint \"made\", made by API, uses it in inference component \"ic\": keep the pool, or delete the endpoint by API first"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			whole, err := file.With(test.made)
			var got []string
			if err != nil {
				got = append(got, err.Error())
			} else {
				for _, name := range []string{"chat", "made"} {
					if _, ok := whole.Endpoints[name]; ok {
						got = append(got, name)
					}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if len(file.Endpoints) != 1 {
				t.Error("the file's own endpoints have changed")
			}
		})
	}
}

func TestEndpointsByAPIHaveTheSettingsOfTheFile(t *testing.T) {
	file := parse(t, "pools: {p: {static: [http://a:1]}}\ncontrol_plane: {endpoints: {invocations_path: /v1/chat/completions, usage: inject, session_ttl: 1m, timeouts: {idle: 1s}, retry: {max_attempts: 2}}}\n", nil)
	variants, shadows := []Variant{{Name: "v", Pool: "p", Weight: 1}}, []ShadowVariant{{Name: "s", Pool: "p", Share: 0.5}}
	whole, err := file.With(map[string]Endpoint{"made": {Variants: variants, ShadowVariants: shadows}})
	if err != nil {
		t.Fatal(err)
	}
	want := Endpoint{
		InvocationsPath: "/v1/chat/completions", Usage: "inject", SessionTTL: seconds(60), Timeouts: Timeouts{Idle: seconds(1)}, Retry: Retry{MaxAttempts: 2, Budget: 0.2},
		Variants: variants, ShadowVariants: shadows, ByAPI: true,
	}
	if diff := cmp.Diff(want, whole.Endpoints["made"]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestControlPlaneMayBeTheOnlySourceOfEndpoints(t *testing.T) {
	cfg := parse(t, "pools: {p: {static: [http://a:1]}}\ncontrol_plane: {state_file: state.json}\n", nil)
	want := &ControlPlane{Listen: "127.0.0.1:8082", StateFile: "state.json", Region: "us-east-1", Account: "000000000000", Endpoints: newWithDefaults[MadeEndpoints]()}
	if diff := cmp.Diff(want, cfg.ControlPlane); diff != "" || len(cfg.Warnings) > 0 {
		t.Errorf("warnings %v, control plane (-want +got):\n%s", cfg.Warnings, diff)
	}
}
