package aws

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker"
	"github.com/aws/aws-sdk-go-v2/service/sagemaker/types"
)

const arns = "arn:aws:sagemaker:us-east-1:000000000000:"

// waitLimit bounds the SDK's own waiters.
const waitLimit = time.Minute

// variantOf is a production variant of a pool.
func variantOf(name, pool string, routing *types.ProductionVariantRoutingConfig) types.ProductionVariant {
	return types.ProductionVariant{
		VariantName: &name, ModelName: &pool, InstanceType: types.ProductionVariantInstanceTypeMlP548xlarge,
		InitialInstanceCount: aws.Int32(1), InitialVariantWeight: aws.Float32(1), RoutingConfig: routing,
	}
}

// prefixAware is the configuration of that strategy.
func prefixAware(length, threshold int32) *types.ProductionVariantRoutingConfig {
	return &types.ProductionVariantRoutingConfig{
		RoutingStrategy:          types.RoutingStrategyPrefixAware,
		PrefixAwareRoutingConfig: &types.PrefixAwareRoutingConfig{PrefixLength: &length, ConcurrencyThreshold: &threshold},
	}
}

// createEndpoint makes an endpoint of one configuration of the same name and waits until it is in service.
func createEndpoint(t *testing.T, client *sagemaker.Client, name string, variants ...types.ProductionVariant) {
	t.Helper()
	config := &sagemaker.CreateEndpointConfigInput{EndpointConfigName: &name, ProductionVariants: variants}
	if variants[0].ModelName == nil { // inference components will bring it
		config.ExecutionRoleArn = aws.String("arn:aws:iam::123456789012:role/any")
	}
	if _, err := client.CreateEndpointConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateEndpoint(t.Context(), &sagemaker.CreateEndpointInput{EndpointName: &name, EndpointConfigName: &name}); err != nil {
		t.Fatal(err)
	}
	inService(t, client, name)
}

// inService runs the SDK's waiter, which polls sooner than every 30 s here.
func inService(t *testing.T, client *sagemaker.Client, name string) *sagemaker.DescribeEndpointOutput {
	t.Helper()
	waiter := sagemaker.NewEndpointInServiceWaiter(client, func(o *sagemaker.EndpointInServiceWaiterOptions) {
		o.MinDelay, o.MaxDelay = 50*time.Millisecond, 200*time.Millisecond
	})
	out, err := waiter.WaitForOutput(t.Context(), &sagemaker.DescribeEndpointInput{EndpointName: &name}, waitLimit)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func deleteEndpoint(t *testing.T, client *sagemaker.Client, name string) {
	t.Helper()
	if _, err := client.DeleteEndpoint(t.Context(), &sagemaker.DeleteEndpointInput{EndpointName: &name}); err != nil {
		t.Fatal(err)
	}
	waiter := sagemaker.NewEndpointDeletedWaiter(client, func(o *sagemaker.EndpointDeletedWaiterOptions) {
		o.MinDelay, o.MaxDelay = 50*time.Millisecond, 200*time.Millisecond
	})
	if err := waiter.Wait(t.Context(), &sagemaker.DescribeEndpointInput{EndpointName: &name}, waitLimit); err != nil {
		t.Fatal(err)
	}
}

func (g goClients) testControlPlane(t *testing.T) {
	c, ctx := g.control, t.Context()
	config, next, name := aws.String("go-config"), aws.String("go-next"), aws.String("go-endpoint")
	made, err := c.CreateEndpointConfig(ctx, &sagemaker.CreateEndpointConfigInput{
		EndpointConfigName: config, ProductionVariants: []types.ProductionVariant{variantOf("one", "go-a", prefixAware(4096, 10))},
		Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("blue")}},
	})
	if err != nil || aws.ToString(made.EndpointConfigArn) != arns+"endpoint-config/go-config" {
		t.Fatalf("got %+v and %v", made, err)
	}
	for _, strategy := range []types.RoutingStrategy{types.RoutingStrategyRandom, types.RoutingStrategyLeastOutstandingRequests, "KV_AWARE"} {
		_, err := c.CreateEndpointConfig(ctx, &sagemaker.CreateEndpointConfigInput{EndpointConfigName: next, ProductionVariants: []types.ProductionVariant{
			variantOf("one", "go-a", &types.ProductionVariantRoutingConfig{RoutingStrategy: strategy}), variantOf("two", "go-b", nil)}})
		if err != nil {
			t.Fatalf("%s: %v", strategy, err)
		}
		if described := g.describeConfig(t, "go-next"); described.ProductionVariants[0].RoutingConfig.RoutingStrategy != strategy {
			t.Errorf("%s is described as %+v", strategy, described.ProductionVariants[0].RoutingConfig)
		}
		if strategy == "KV_AWARE" {
			break
		}
		if _, err := c.DeleteEndpointConfig(ctx, &sagemaker.DeleteEndpointConfigInput{EndpointConfigName: next}); err != nil {
			t.Fatal(err)
		}
	}
	routing := g.describeConfig(t, "go-config").ProductionVariants[0].RoutingConfig
	if p := routing.PrefixAwareRoutingConfig; routing.RoutingStrategy != types.RoutingStrategyPrefixAware || *p.PrefixLength != 4096 || *p.ConcurrencyThreshold != 10 {
		t.Errorf("described as %+v", routing)
	}
	configs, err := c.ListEndpointConfigs(ctx, &sagemaker.ListEndpointConfigsInput{NameContains: aws.String("go-"), SortBy: types.EndpointConfigSortKeyName, SortOrder: types.OrderKeyAscending})
	if err != nil || !slices.ContainsFunc(configs.EndpointConfigs, func(s types.EndpointConfigSummary) bool { return aws.ToString(s.EndpointConfigName) == "go-next" }) {
		t.Errorf("listed %+v and %v", configs, err)
	}

	created, err := c.CreateEndpoint(ctx, &sagemaker.CreateEndpointInput{EndpointName: name, EndpointConfigName: config})
	if err != nil || aws.ToString(created.EndpointArn) != arns+"endpoint/go-endpoint" {
		t.Fatalf("got %+v and %v", created, err)
	}
	if e := inService(t, c, *name); len(e.ProductionVariants) != 1 || *e.ProductionVariants[0].CurrentInstanceCount != 1 || aws.ToString(e.EndpointConfigName) != "go-config" || e.CreationTime == nil {
		t.Errorf("in service as %+v", e)
	}
	g.wantVariant(t, *name, "one")
	g.testTags(t, *created.EndpointArn)
	g.testUpdates(t, *name, *next)
	g.testListing(t)
	deleteEndpoint(t, c, *name)
	_, err = g.runtime.InvokeEndpoint(ctx, invocation(*name, order{}))
	wantError(t, err, "ValidationError", 400, "Endpoint go-endpoint not found.")
	for _, one := range []*string{config, next} {
		if _, err := c.DeleteEndpointConfig(ctx, &sagemaker.DeleteEndpointConfigInput{EndpointConfigName: one}); err != nil {
			t.Error(err)
		}
	}
}

func (g goClients) describeConfig(t *testing.T, name string) *sagemaker.DescribeEndpointConfigOutput {
	t.Helper()
	out, err := g.control.DescribeEndpointConfig(t.Context(), &sagemaker.DescribeEndpointConfigInput{EndpointConfigName: &name})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// wantVariant checks which variant answers.
func (g goClients) wantVariant(t *testing.T, endpoint, variant string) {
	t.Helper()
	out, err := g.runtime.InvokeEndpoint(t.Context(), invocation(endpoint, order{}))
	if err != nil || aws.ToString(out.InvokedProductionVariant) != variant {
		t.Errorf("got %+v and %v, want an answer of variant %s", out, err, variant)
	}
}

func (g goClients) testTags(t *testing.T, arn string) {
	t.Helper()
	c, ctx := g.control, t.Context()
	if _, err := c.AddTags(ctx, &sagemaker.AddTagsInput{ResourceArn: &arn, Tags: []types.Tag{
		{Key: aws.String("team"), Value: aws.String("blue")}, {Key: aws.String("cost"), Value: aws.String("7")}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.DeleteTags(ctx, &sagemaker.DeleteTagsInput{ResourceArn: &arn, TagKeys: []string{"team"}}); err != nil {
		t.Fatal(err)
	}
	tags, err := c.ListTags(ctx, &sagemaker.ListTagsInput{ResourceArn: &arn})
	if err != nil || len(tags.Tags) != 1 || aws.ToString(tags.Tags[0].Key) != "cost" {
		t.Errorf("tags: got %+v and %v", tags, err)
	}
}

// testUpdates moves an endpoint to a configuration with the variants one and two, and then all of its traffic to the second.
func (g goClients) testUpdates(t *testing.T, name, config string) {
	t.Helper()
	c, ctx := g.control, t.Context()
	if _, err := c.UpdateEndpoint(ctx, &sagemaker.UpdateEndpointInput{EndpointName: &name, EndpointConfigName: &config}); err != nil {
		t.Fatal(err)
	}
	if e := inService(t, c, name); len(e.ProductionVariants) != 2 || aws.ToString(e.EndpointConfigName) != config {
		t.Errorf("updated to %+v", e)
	}
	_, err := c.UpdateEndpointWeightsAndCapacities(ctx, &sagemaker.UpdateEndpointWeightsAndCapacitiesInput{EndpointName: &name,
		DesiredWeightsAndCapacities: []types.DesiredWeightAndCapacity{
			{VariantName: aws.String("one"), DesiredWeight: aws.Float32(0)},
			{VariantName: aws.String("two"), DesiredWeight: aws.Float32(1), DesiredInstanceCount: aws.Int32(3)}}})
	if err != nil {
		t.Fatal(err)
	}
	e := inService(t, c, name)
	if two := e.ProductionVariants[1]; *e.ProductionVariants[0].CurrentWeight != 0 || *two.CurrentWeight != 1 || *two.DesiredInstanceCount != 3 {
		t.Errorf("weighed to %+v", e.ProductionVariants)
	}
	for range 5 {
		g.wantVariant(t, name, "two")
	}
}

// testListing turns the pages of ListEndpoints with the SDK's paginator.
func (g goClients) testListing(t *testing.T) {
	t.Helper()
	for _, name := range []string{"go-page-1", "go-page-2"} {
		createEndpoint(t, g.control, name, variantOf("one", "go-a", nil))
	}
	var names []string
	pages := sagemaker.NewListEndpointsPaginator(g.control, &sagemaker.ListEndpointsInput{
		NameContains: aws.String("go-page"), MaxResults: aws.Int32(1), SortBy: types.EndpointSortKeyName, SortOrder: types.OrderKeyAscending, StatusEquals: types.EndpointStatusInService})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Endpoints {
			names = append(names, aws.ToString(e.EndpointName))
		}
	}
	if !slices.Equal(names, []string{"go-page-1", "go-page-2"}) {
		t.Errorf("listed %v", names)
	}
	for _, name := range names {
		deleteEndpoint(t, g.control, name)
		if _, err := g.control.DeleteEndpointConfig(t.Context(), &sagemaker.DeleteEndpointConfigInput{EndpointConfigName: &name}); err != nil {
			t.Error(err)
		}
	}
}
