package aws

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker/types"
)

// testShadow makes endpoints whose requests are copied, all of one and half of the other, and counts the copies.
func (g goClients) testShadow(t *testing.T) {
	for _, test := range []struct {
		name        string
		weight      float32
		calls       int
		least, most int
	}{
		{"go-shadow-all", 1, 20, 20, 20},
		{"go-shadow-half", 0.5, 200, 50, 150}, // 100, and seven standard deviations
	} {
		shadow := variantOf("shadow", "go-b", nil)
		shadow.InitialVariantWeight = &test.weight
		if _, err := g.control.CreateEndpointConfig(t.Context(), &sagemaker.CreateEndpointConfigInput{EndpointConfigName: &test.name,
			ProductionVariants: []types.ProductionVariant{variantOf("one", "go-a", nil)}, ShadowProductionVariants: []types.ProductionVariant{shadow}}); err != nil {
			t.Fatal(err)
		}
		if _, err := g.control.CreateEndpoint(t.Context(), &sagemaker.CreateEndpointInput{EndpointName: &test.name, EndpointConfigName: &test.name}); err != nil {
			t.Fatal(err)
		}
		if e := inService(t, g.control, test.name); len(e.ShadowProductionVariants) != 1 || aws.ToString(e.ShadowProductionVariants[0].VariantName) != "shadow" {
			t.Errorf("in service with the shadows %+v", e.ShadowProductionVariants)
		}
		for range test.calls {
			g.wantVariant(t, test.name, "one")
		}
		g.open.becomesIdle(t, "go-b")
		count := func() int {
			return int(g.open.metric(t, `warmpath_shadow_requests_total{endpoint="`+test.name+`",outcome="ok"`))
		}
		eventually(t, "the copies are counted", func() bool { return count() >= test.least })
		if got := count(); got > test.most {
			t.Errorf("%s: of %d requests %d were copied, want %d to %d", test.name, test.calls, got, test.least, test.most)
		}
		deleteEndpoint(t, g.control, test.name)
	}
}
