package controlplane

import (
	"testing"

	"github.com/warmpath/warmpath/internal/config"
)

const shadowConfig = `{"EndpointConfigName":"c","ProductionVariants":[{"VariantName":"v","ModelName":"m","InitialVariantWeight":2}],
	"ShadowProductionVariants":[{"VariantName":"s","ModelName":"cold","InitialVariantWeight":0.5,"RoutingConfig":{"RoutingStrategy":"KV_AWARE"}}]}`

// shadowsOf are the shadows that the router has of an endpoint.
func (r *fakeRouter) shadowsOf(endpoint string) []config.ShadowVariant {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.applied[endpoint].ShadowVariants
}

func TestShadowVariantThroughItsLife(t *testing.T) {
	p := newPlane(t)
	p.must(t, "CreateEndpointConfig", shadowConfig)
	summary := func(weight, ready float64) map[string]any {
		return map[string]any{
			"VariantName": "s", "CurrentWeight": weight, "DesiredWeight": weight, "CurrentInstanceCount": ready, "DesiredInstanceCount": 1.0,
			"RoutingConfig": map[string]any{"RoutingStrategy": "KV_AWARE"},
		}
	}
	p.endpoint(t, "e", "c")
	if got := p.status(t, "e"); got != "Creating" {
		t.Errorf("%s while the shadow's pool has no replica, want Creating", got)
	}
	pending := summary(0.5, 0)
	pending["VariantStatus"] = []any{map[string]any{"Status": "Creating", "StartTime": 1796004098.5}}
	same(t, "pending shadows", []any{pending}, p.describe(t, "e")["PendingDeploymentSummary"].(map[string]any)["ShadowProductionVariants"].([]any))

	p.router.set("cold", 1)
	p.advance()
	same(t, "shadows", []any{summary(0.5, 1)}, p.describe(t, "e")["ShadowProductionVariants"].([]any))
	shadow := config.ShadowVariant{Name: "s", Pool: "cold", Share: 0.25, Routing: config.Routing{Strategy: "KV_AWARE"}}
	same(t, "shadows of the router", []config.ShadowVariant{shadow}, p.router.shadowsOf("e"))
	if served := p.router.served("e"); len(served) != 1 || served[0].Name != "v" {
		t.Errorf("clients are served by %v, want v alone", served)
	}

	p.must(t, "UpdateEndpointWeightsAndCapacities", `{"EndpointName":"e","DesiredWeightsAndCapacities":[{"VariantName":"s","DesiredWeight":5}]}`)
	p.advance()
	same(t, "shadows after a change of weight", []any{summary(5, 1)}, p.describe(t, "e")["ShadowProductionVariants"].([]any))
	shadow.Share = 1 // more than all there is not
	same(t, "shadows of the router", []config.ShadowVariant{shadow}, p.router.shadowsOf("e"))

	p.must(t, "UpdateEndpoint", `{"EndpointName":"e","EndpointConfigName":"c","RetainAllVariantProperties":true}`)
	p.advance()
	p.open(t)
	same(t, "shadows after an update and a restart", []any{summary(5, 1)}, p.describe(t, "e")["ShadowProductionVariants"].([]any))

	p.config(t, "without", okVariant)
	p.must(t, "UpdateEndpoint", `{"EndpointName":"e","EndpointConfigName":"without"}`)
	p.advance()
	if shadows, there := p.describe(t, "e")["ShadowProductionVariants"]; there || len(p.router.shadowsOf("e")) > 0 {
		t.Errorf("an update to a configuration without shadows leaves %v", shadows)
	}
}
